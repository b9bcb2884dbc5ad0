//! Extended attributes.

use super::blocks::Naive;
use super::bytes::Words;
use super::claims::BlockUser;
use super::inode::{DIRECTORY, Inode};
use super::{BLOCK, Read, ensure};
use std::collections::BTreeMap;

/// Values by name.
pub(super) type Attributes = BTreeMap<Vec<u8>, Vec<u8>>;

/// Bytes of a directory's tail of 160 bytes between which attributes lie at the end.
const DIRECTORY_ROOM: std::ops::Range<usize> = 8..96;

impl Naive<'_> {
    /// The attributes of an inode, and the number of blocks that they take.
    pub(super) fn attributes(&self, inode: &Inode) -> Read<(Attributes, u64)> {
        let word = inode.xattr();
        if word < BLOCK {
            let len = word as usize;
            let room = match inode.kind() {
                DIRECTORY if inode.tail().len() == 160 => &inode.tail()[DIRECTORY_ROOM],
                DIRECTORY => &[],
                _ => inode.tail(),
            };
            ensure(len <= room.len(), || format!("{len} bytes of attributes have no room"))?;
            let (rest, bytes) = room.split_at(room.len() - len);
            if inode.kind() == DIRECTORY {
                ensure(rest.iter().all(|byte| *byte == 0), || "bytes before attributes".to_owned())?;
            }
            return Ok((parse(bytes)?, 0));
        }
        let (mut at, mut bytes, mut blocks) = (word, Vec::new(), 0);
        while at != 0 {
            self.claims.claim(at, 1, BlockUser::Metadata(9, inode.number))?;
            let block = self.metadata(at, 9, inode.number)?;
            let len = block.u64(24) as usize;
            ensure((1..=BLOCK as usize - 32).contains(&len), || {
                format!("{len} bytes of payload at {at:#x}")
            })?;
            bytes.extend_from_slice(&block[32..32 + len]);
            (at, blocks) = (block.u64(16), blocks + 1);
        }
        Ok((parse(&bytes)?, blocks))
    }
}

fn parse(bytes: &[u8]) -> Read<Attributes> {
    let (mut list, mut rest) = (BTreeMap::new(), bytes);
    while !rest.is_empty() {
        let name = usize::from(rest.u16(0));
        let value = rest.u32(2) as usize;
        ensure(name > 0 && 6 + name + value <= rest.len(), || "an attribute that is cut off".to_owned())?;
        let old = list.insert(rest[6..6 + name].to_vec(), rest[6 + name..6 + name + value].to_vec());
        ensure(old.is_none(), || "an attribute that is there twice".to_owned())?;
        rest = &rest[6 + name + value..];
    }
    Ok(list)
}
