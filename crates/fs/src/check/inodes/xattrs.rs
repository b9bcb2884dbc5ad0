//! Extended attributes, in the inode or in a chain of blocks.

use crate::check::outcome::findings::Tally;
use crate::check::outcome::invariants as iv;
use crate::check::pass::{Attribute, Pass};
use crate::vocabulary::acl::{Acl, AclKind};
use crate::vocabulary::error::Outcome;
use lanefs_format::{BLOCK, BlockKind, FileKind, inode as f, xattr_block as x};
use std::ops::Range;

/// Bytes before the name of an attribute: lengths of name and value.
const HEAD_BYTES: usize = 6;
const ROOM: u64 = BLOCK - x::SIZE as u64;
/// The limits of the engine, which refuses longer chains.
const MAX_TOTAL: usize = 256 << 10;
const MAX_NAME: usize = 255;
const MAX_VALUE: usize = 65536;

/// The attributes of an inode.
pub(in crate::check) struct Chain {
    pub(in crate::check) blocks: u64,
    /// The attributes to keep where they are broken; `None` for sound ones.
    pub(in crate::check) saved: Option<Vec<Attribute>>,
    /// The flags of the access control lists among sound attributes.
    pub(in crate::check) lists: u16,
}

impl Pass<'_, '_> {
    /// Checks the attributes of an inode whose fields were checked before. `tail` is the part of the inode
    /// where attributes may lie.
    pub(in crate::check) fn check_xattrs(
        &mut self,
        tally: &mut Tally,
        inode: &[u8],
        tail: Range<usize>,
        at: u64,
    ) -> Outcome<Chain> {
        let word = f::XATTR.read(inode).unwrap_or(0);
        let mode = f::MODE.read(inode).unwrap_or(0);
        if word >= BLOCK {
            return self.walk_xattrs(tally, word, mode, at);
        }
        let (mut saved, whole) = parse(&inode[tail.end - word as usize..tail.end]);
        if !whole {
            tally.note(at, &iv::XATTR_FORMAT);
        }
        let (lists, good) = check_lists(tally, mode, at, &mut saved);
        let is_sound = whole && good;
        Ok(Chain { blocks: 0, saved: (!is_sound).then_some(saved), lists: if is_sound { lists } else { 0 } })
    }

    /// Walks the chain from `first` on.
    fn walk_xattrs(&mut self, tally: &mut Tally, first: u64, mode: u16, inode_at: u64) -> Outcome<Chain> {
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
        let (mut saved, whole) = parse(&payload);
        if good && !whole {
            tally.note(first, &iv::XATTR_FORMAT);
        }
        let (lists, good_lists) = check_lists(tally, mode, inode_at, &mut saved);
        if good && whole && good_lists {
            return Ok(Chain { blocks, saved: None, lists });
        }
        Ok(Chain { blocks, saved: Some(saved), lists: 0 })
    }
}

/// Checks the access control lists among the attributes of an inode with this mode. Drops those that are not
/// valid, and corrects those that differ from the mode. Returns the flags of those that stay, and whether all
/// were right.
fn check_lists(tally: &mut Tally, mode: u16, at: u64, attributes: &mut Vec<Attribute>) -> (u16, bool) {
    let (mut flags, mut good) = (0, true);
    let kind = FileKind::from_mode(mode).unwrap_or(FileKind::File);
    attributes.retain_mut(|(name, value)| {
        let Some(list) = AclKind::of(name) else { return true };
        let is_access = list == AclKind::Access;
        let acl = Acl::parse(value).ok().flatten().filter(|acl| !(is_access && acl.is_minimal()));
        let Some(mut acl) = acl.filter(|_| list.fits(kind)) else {
            tally.note(at, &iv::ACL_FORMAT);
            good = false;
            return false;
        };
        if is_access && acl.mode() != mode & 0o777 {
            tally.note(at, &iv::ACL_MODE);
            acl.set_mode(mode);
            *value = acl.encode();
            good = false;
        }
        flags |= list.flag();
        true
    });
    (flags, good)
}

/// The attributes up to the first that is cut off or impossible, and whether these are all.
fn parse(bytes: &[u8]) -> (Vec<Attribute>, bool) {
    let mut list: Vec<Attribute> = Vec::new();
    let mut whole = true;
    let mut rest = bytes;
    while !rest.is_empty() {
        let Some((head, more)) = rest.split_at_checked(HEAD_BYTES) else { return (list, false) };
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
