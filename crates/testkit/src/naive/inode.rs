//! Inodes: their fields, and their content.

use super::blocks::Naive;
use super::bytes::Words;
use super::{BLOCK, Read, ensure, wrong};

/// Bytes of every inode before its tail.
const CORE_BYTES: usize = 96;
/// Type bits of `MODE` of a directory, a regular file, a symbolic link.
pub(super) const DIRECTORY: u16 = 4;
pub(super) const FILE: u16 = 8;
pub(super) const LINK: u16 = 10;

const INLINE: u16 = 1;

/// An inode in use.
#[derive(Clone, Debug)]
pub(super) struct Inode {
    pub(super) number: u64,
    bytes: Vec<u8>,
}

impl Inode {
    pub(super) fn kind(&self) -> u16 {
        self.mode() >> 12
    }

    pub(super) fn mode(&self) -> u16 {
        self.bytes.u16(0)
    }

    pub(super) fn flags(&self) -> u16 {
        self.bytes.u16(2)
    }

    pub(super) fn links(&self) -> u32 {
        self.bytes.u32(4)
    }

    pub(super) fn owner(&self) -> (u32, u32) {
        (self.bytes.u32(8), self.bytes.u32(12))
    }

    pub(super) fn size(&self) -> u64 {
        self.bytes.u64(16)
    }

    pub(super) fn map(&self) -> u64 {
        self.bytes.u64(24)
    }

    pub(super) fn parent_or_device(&self) -> u64 {
        self.bytes.u64(32)
    }

    pub(super) fn xattr(&self) -> u64 {
        self.bytes.u64(40)
    }

    /// Of content, of the inode, of access, of birth.
    pub(super) fn times(&self) -> [i64; 4] {
        [48, 56, 64, 72].map(|at| self.bytes.i64(at))
    }

    pub(super) fn generation(&self) -> u32 {
        self.bytes.u32(80)
    }

    pub(super) fn blocks(&self) -> u64 {
        self.bytes.u64(88)
    }

    pub(super) fn depth(&self) -> u16 {
        self.flags() >> 8 & 15
    }

    pub(super) fn extents(&self) -> usize {
        usize::from(self.flags() >> 12)
    }

    pub(super) fn is_inline(&self) -> bool {
        self.flags() & INLINE != 0
    }

    /// The bytes after the core.
    pub(super) fn tail(&self) -> &[u8] {
        &self.bytes[CORE_BYTES..]
    }

    /// The bytes of the tail before attributes.
    pub(super) fn room(&self) -> usize {
        let attributes =
            if self.kind() != DIRECTORY && self.xattr() < BLOCK { self.xattr() as usize } else { 0 };
        self.tail().len().saturating_sub(attributes)
    }
}

impl Naive<'_> {
    /// An inode in use.
    pub(super) fn inode(&self, number: u64) -> Read<Inode> {
        let size = self.superblock.inode_bytes;
        let at = number.checked_mul(size).filter(|at| *at < self.superblock.bytes);
        let at = at.ok_or_else(|| format!("inode {number} is outside"))?;
        let block = self.metadata(at / BLOCK * BLOCK, 4, 0)?;
        let inside = (at % BLOCK) as usize;
        let inode = Inode { number, bytes: block[inside..inside + size as usize].to_vec() };
        ensure(inode.mode() != 0, || format!("inode {number} is free"))?;
        ensure(inode.generation() != 0, || format!("inode {number} has the generation 0"))?;
        check_fields(&inode).map_err(|text| format!("inode {number}: {text}"))?;
        Ok(inode)
    }

    /// The bytes of a file or a link that are not in holes, in order, each with its offset. Ends at the size.
    pub(super) fn content(&self, inode: &Inode) -> Read<Vec<(u64, Vec<u8>)>> {
        let content = self.content_of_any(inode)?;
        if inode.kind() == LINK && self.has_sound_target(inode)? {
            let len: u64 = content.iter().map(|(_, bytes)| bytes.len() as u64).sum();
            let is_target = len == inode.size() && !content.iter().any(|(_, bytes)| bytes.contains(&0));
            ensure(is_target, || "a NUL in the target of a link".to_owned())?;
        }
        Ok(content)
    }

    /// Returns false where the target of a link lies in a block that does not verify: nobody can read it.
    fn has_sound_target(&self, inode: &Inode) -> Read<bool> {
        if inode.is_inline() {
            return Ok(true);
        }
        for extent in self.file_map(inode)?.extents.iter().filter(|extent| !extent.unwritten) {
            for i in 0..extent.blocks {
                if !self.is_sound_data(extent.at + i * BLOCK)? {
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }

    fn content_of_any(&self, inode: &Inode) -> Read<Vec<(u64, Vec<u8>)>> {
        let size = inode.size();
        if inode.is_inline() {
            let end = size as usize;
            ensure(end <= inode.room(), || "inline content that is longer than its room".to_owned())?;
            ensure(inode.tail()[end..inode.room()].iter().all(|byte| *byte == 0), || {
                "bytes behind inline content".to_owned()
            })?;
            return Ok(vec![(0, inode.tail()[..end].to_vec())]);
        }
        let mut content = Vec::new();
        for extent in self.file_map(inode)?.extents.iter().filter(|extent| !extent.unwritten) {
            for i in 0..extent.blocks {
                let (offset, mut block) = ((extent.first + i) * BLOCK, self.data(extent.at + i * BLOCK)?);
                if offset >= size {
                    return wrong(format!("written blocks past the end, at {offset}"));
                }
                let past_end = block.split_off((size - offset).min(BLOCK) as usize);
                ensure(!self.has_clear_ends || past_end.iter().all(|byte| *byte == 0), || {
                    format!("bytes past the end, in the block at {offset}")
                })?;
                content.push((offset, block));
            }
        }
        Ok(content)
    }
}

fn check_fields(inode: &Inode) -> Read<()> {
    let kinds = [1, 2, DIRECTORY, 6, FILE, LINK, 12];
    ensure(kinds.contains(&inode.kind()), || format!("mode {:#o}", inode.mode()))?;
    let has_content = matches!(inode.kind(), FILE | LINK);
    if inode.is_inline() {
        let alone = inode.map() == 0 && inode.depth() == 0 && inode.extents() == 0;
        ensure(has_content && alone, || "inline content beside a map".to_owned())?;
    }
    if !has_content && inode.kind() != DIRECTORY {
        let empty = inode.map() == 0 && inode.size() == 0 && inode.depth() == 0 && inode.extents() == 0;
        ensure(empty, || "a device, pipe or socket with content".to_owned())?;
    }
    let has_word = matches!(inode.kind(), 2 | DIRECTORY | 6);
    ensure(has_word || inode.parent_or_device() == 0, || "a device number of another type".to_owned())?;
    ensure(inode.links() > 0 || inode.kind() != DIRECTORY || inode.size() == 0, || "no links".to_owned())
}
