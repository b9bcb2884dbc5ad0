//! A name in a directory, by the directory's own structures, as in `shaders/entry.glsl` and
//! `shaders/directory.glsl`.

use crate::shared::layout::{MODE_DIRECTORY, MODE_TYPE};
use crate::twin::headers::fuel::Fuel;
use crate::twin::headers::memory::Memory;
use crate::twin::headers::name::{Name, word_of};
use lanefs::format::dir::{
    BUCKET_SLOTS, BUCKETS, MAX_TREE_LEVEL, REGION_MAX, Slot, TREE_MAX, entry, index, leaf, tree,
};
use lanefs::format::{BLOCK, BlockKind, DirRoot, FileKind, InodeSize, UNIT};

/// An entry that was found.
#[derive(Clone, Copy)]
pub(in crate::twin) struct Entry {
    pub(in crate::twin) ino: u64,
    pub(in crate::twin) kind: u32,
    /// Its position; 0 where it was in the cache.
    pub(in crate::twin) at: u64,
}

pub(in crate::twin) type Known<T> = Option<T>;

/// The directories of a memory.
pub(in crate::twin) struct Directories<'m, M> {
    pub(in crate::twin) memory: &'m M,
    pub(in crate::twin) inode_size: InodeSize,
    pub(in crate::twin) fuel: &'m Fuel,
}

/// Tells whether a directory's root names a tree block.
pub(in crate::twin) fn is_tree(root: u64) -> bool {
    root & DirRoot::FORM == DirRoot::Tree(BLOCK).word() % BLOCK
}

/// Returns the highest bit of each byte that is 0.
fn zero_bytes(word: u32) -> u32 {
    !(((word & 0x7f7f_7f7f) + 0x7f7f_7f7f) | word | 0x7f7f_7f7f)
}

impl<M: Memory> Directories<'_, M> {
    fn probe(&self, at: u64, name: &Name<'_>) -> Known<Option<Entry>> {
        let inside = at % BLOCK;
        if !at.is_multiple_of(UNIT)
            || inside < leaf::SIZE as u64
            || inside + (entry::SIZE + name.bytes.len()) as u64 > BLOCK
        {
            return None;
        }
        let word = self.memory.quad(at + entry::HASH.offset as u64)?;
        let rest = (word >> 32) as u32;
        let length = rest & 0xff;
        if length == 0 || rest >> 16 != 0 {
            return None;
        }
        if word as u32 != name.hash || length != name.bytes.len() as u32 {
            return Some(None);
        }
        for i in (0..name.bytes.len()).step_by(4) {
            if !self.fuel.burn() {
                break;
            }
            let left = name.bytes.len() - i;
            let mask = if left >= 4 { u32::MAX } else { (1 << (8 * left)) - 1 };
            if self.memory.word(at + (entry::SIZE + i) as u64)? & mask != word_of(name.bytes, i) {
                return Some(None);
            }
        }
        let ino = self.memory.quad(at + entry::INODE.offset as u64)?;
        let kind = rest >> 8 & 0xff;
        FileKind::from_number(kind as u8).map(|_| Some(Entry { ino, kind, at }))
    }

    pub(in crate::twin) fn find_small(&self, inode: u64, leaf: u64, name: &Name<'_>) -> Known<Option<Entry>> {
        let size = self.inode_size;
        let tag = (name.hash >> 24) * 0x0101_0101;
        let word = |at: usize| self.memory.word(inode.wrapping_add(at as u64));
        for i in (0..size.small_entries()).step_by(4) {
            if !self.fuel.burn() {
                break;
            }
            let mut equal = zero_bytes(word(size.small_tags() + i)? ^ tag);
            while equal != 0 && self.fuel.burn() {
                let units = size.small_units() + i + equal.trailing_zeros() as usize / 8;
                equal &= equal - 1;
                let unit = word(units & !3)? >> (units % 4 * 8) & 0xff;
                if unit != 0
                    && let found @ Some(_) = self.probe(leaf.wrapping_add(u64::from(unit) * UNIT), name)?
                {
                    return Some(found);
                }
            }
        }
        Some(None)
    }

    pub(in crate::twin) fn find_in_region(&self, at: u64, name: &Name<'_>) -> Known<Option<Entry>> {
        if !at.is_multiple_of(BLOCK) {
            return None;
        }
        let mut bucket = Slot::home(name.hash as u16);
        for n in 0..BUCKETS {
            if !self.fuel.burn() {
                break;
            }
            let slots = at.wrapping_add((index::SLOTS.offset + bucket * BUCKET_SLOTS * 8) as u64);
            let first = self.memory.quad(slots)?;
            if first == u64::MAX {
                return None;
            }
            for i in 0..BUCKET_SLOTS as u64 {
                if !self.fuel.burn() {
                    break;
                }
                let slot = Slot(if i == 0 { first } else { self.memory.quad(slots + i * 8)? });
                if slot.tag() == name.hash as u16
                    && slot.position() != 0
                    && let found @ Some(_) = self.probe(slot.position(), name)?
                {
                    return Some(found);
                }
            }
            if first & Slot::OVERFLOW == 0 {
                let is_all = n + 1 < REGION_MAX / BUCKET_SLOTS;
                return is_all.then_some(None);
            }
            bucket = (bucket + 1) % BUCKETS;
        }
        None
    }

    pub(in crate::twin) fn region_of(&self, root: u64, hash: u32) -> Known<u64> {
        let (mut level, mut count) =
            (root as u32 >> DirRoot::LEVEL_SHIFT & 3, (root % BLOCK) as u32 >> DirRoot::COUNT_SHIFT);
        let (mut block, mut above) = (root - root % BLOCK, u32::from(MAX_TREE_LEVEL) + 1);
        let (mut low, mut last) = (0, u32::MAX);
        for n in 0..MAX_TREE_LEVEL {
            if !self.fuel.burn() || !block.is_multiple_of(BLOCK) {
                return None;
            }
            if n > 0 || level == 0 {
                let head = self.memory.word(block)?;
                if head & 0xff != BlockKind::Tree as u32 {
                    return None;
                }
                (level, count) = (head >> 8 & 0xff, head >> 16);
            }
            if level == 0 || level >= above || count == 0 || count > TREE_MAX as u32 {
                return None;
            }
            let lowest = |i: u32| self.memory.word(block + (tree::HASHES.offset as u64) + u64::from(i) * 4);
            let part = (hash.wrapping_sub(low) >> 8) * count / ((last.wrapping_sub(low) >> 8) + 1);
            let mut i = part.min(count - 1);
            while i > 0 && lowest(i)? > hash && self.fuel.burn() {
                i -= 1;
            }
            while i + 1 < count && lowest(i + 1)? <= hash && self.fuel.burn() {
                i += 1;
            }
            let child = self.memory.quad(block + tree::POSITIONS.offset as u64 + u64::from(i) * 8)?;
            if level == 1 {
                return Some(child).filter(|child| *child != 0);
            }
            low = if i > 0 { lowest(i)? } else { low };
            last = if i + 1 < count { lowest(i + 1)?.wrapping_sub(1) } else { last };
            (above, block) = (level, child);
        }
        None
    }

    /// Finds a name in a directory. With `is_known` an entry has said that it is a directory, so the sector
    /// with its mode is not read. `None`: the kernel's UNKNOWN.
    pub(in crate::twin) fn find(&self, dir: u64, is_known: bool, name: &Name<'_>) -> Known<Option<Entry>> {
        let size = self.inode_size;
        let inode = dir.wrapping_mul(size.bytes());
        let root = self.memory.quad(inode.wrapping_add(size.dir_root().offset as u64))?;
        if !is_known && self.memory.word(inode)? as u16 & MODE_TYPE != MODE_DIRECTORY {
            return None;
        }
        if root == 0 {
            return Some(None);
        }
        let (block, form) = (root - root % BLOCK, root % BLOCK);
        let is = |root: DirRoot| form == root.word() % BLOCK;
        if is(DirRoot::Small(BLOCK)) {
            return self.find_small(inode, block, name);
        }
        let index = match () {
            () if is(DirRoot::Region(BLOCK)) => block,
            () if is_tree(root) => self.region_of(root, name.hash)?,
            () => return None,
        };
        if index == 0 { None } else { self.find_in_region(index, name) }
    }
}
