//! Extended attributes, in the inode or in a chain of blocks.

use super::findings::Tally;
use super::invariants as iv;
use super::pass::{Attribute, Pass};
use crate::error::Outcome;
use lanefs_format::{BLOCK, BlockKind, inode as f, xattr_block as x};
use std::ops::Range;

/// Bytes before the name of an attribute: lengths of name and value.
const HEAD: usize = 6;
const ROOM: u64 = BLOCK - x::SIZE as u64;
/// The limits of the engine, which refuses longer chains.
const MAX_TOTAL: usize = 256 << 10;
const MAX_NAME: usize = 255;
const MAX_VALUE: usize = 65536;

/// The attributes of an inode.
pub(super) struct Chain {
    pub(super) blocks: u64,
    /// The attributes to keep where they are broken; `None` for sound ones.
    pub(super) saved: Option<Vec<Attribute>>,
}

impl Pass<'_, '_> {
    /// Checks the attributes of an inode whose fields were checked before. `tail` is the part of the inode
    /// where attributes may lie.
    pub(super) fn check_xattrs(
        &mut self,
        tally: &mut Tally,
        inode: &[u8],
        tail: Range<usize>,
        at: u64,
    ) -> Outcome<Chain> {
        let word = f::XATTR.read(inode).unwrap_or(0);
        if word >= BLOCK {
            return self.walk_xattrs(tally, word, at);
        }
        let (saved, whole) = parse(&inode[tail.end - word as usize..tail.end]);
        if !whole {
            tally.note(at, &iv::XATTR_FORMAT);
        }
        Ok(Chain { blocks: 0, saved: (!whole).then_some(saved) })
    }

    /// Walks the chain from `first` on.
    fn walk_xattrs(&mut self, tally: &mut Tally, first: u64, inode_at: u64) -> Outcome<Chain> {
        let (mut at, mut from) = (first, inode_at);
        let (mut payload, mut blocks, mut good) = (Vec::new(), 0, true);
        while at != 0 {
            // Each block is claimed once, so a circular chain ends where it closes.
            let Some(view) = self.claim(tally, from, at, BlockKind::Xattr)? else {
                good = false;
                break;
            };
            blocks += 1;
            if view.get(x::OWNER) != tally.ino {
                tally.note(at, &iv::XATTR_OWNER);
                good = false;
                break;
            }
            let length = view.get(x::LENGTH);
            let start = payload.len();
            if !(1..=ROOM).contains(&length) || start + length as usize > MAX_TOTAL {
                tally.note(at, &iv::XATTR_LENGTH);
                good = false;
                break;
            }
            payload.resize(start + length as usize, 0);
            view.copy_to(x::SIZE, &mut payload[start..]);
            (at, from) = (view.get(x::NEXT), at);
        }
        let (saved, whole) = parse(&payload);
        if good && !whole {
            tally.note(first, &iv::XATTR_FORMAT);
        }
        if good && whole {
            return Ok(Chain { blocks, saved: None });
        }
        Ok(Chain { blocks, saved: Some(saved) })
    }
}

/// The attributes up to the first that is cut off or impossible, and whether these are all.
fn parse(bytes: &[u8]) -> (Vec<Attribute>, bool) {
    let mut list: Vec<Attribute> = Vec::new();
    let mut whole = true;
    let mut rest = bytes;
    while !rest.is_empty() {
        let Some((head, more)) = rest.split_at_checked(HEAD) else { return (list, false) };
        let name = usize::from(u16::from_le_bytes([head[0], head[1]]));
        let value = u32::from_le_bytes([head[2], head[3], head[4], head[5]]) as usize;
        let Some((name, more)) = more.split_at_checked(name) else { return (list, false) };
        let Some((value, more)) = more.split_at_checked(value) else { return (list, false) };
        rest = more;
        let bad = name.is_empty() || name.len() > MAX_NAME || name.contains(&0) || value.len() > MAX_VALUE;
        if bad {
            whole = false;
        } else {
            list.push((name.to_vec(), value.to_vec()));
        }
    }
    let before = list.len();
    list.sort();
    list.dedup_by(|a, b| a.0 == b.0);
    let whole = whole && list.len() == before;
    (list, whole)
}
