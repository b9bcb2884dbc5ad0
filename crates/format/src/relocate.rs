//! Relocation: blocks of one volume, at home at position 0, as blocks of a larger volume that has it from a
//! base on. Every position, inode number and tagged pointer in a block is moved by the base.
//!
//! A block is relocated after it was verified at home. A value that leads out of the volume at home is
//! damage. So a structure that its kind describes leads to its own volume only, but for the parent of the
//! root directory, and the names that the larger volume gives other roots ([`RootAlias`]). A position inside
//! a leaf that is not the beginning of an entry has other bytes after it, which may lead anywhere in the
//! larger volume: its publishers trust one another. Bytes without a meaning in a leaf, such as free units,
//! become bytes that are not an inode number. The test at the end says of each field of each structure what
//! it has; a field that it does not know fails it.

use crate::checksum::Checksummer;
use crate::dir::{LEAF_HEADER_UNITS, Slot, TREE_MAX, entry, entry_units, index, leaf, tree};
use crate::geometry::{BLOCK, CHUNK, GROUP, UNIT, UNITS_PER_LEAF};
use crate::inodes::{
    INODE_CORE, INODE_DEPTH_MASK, INODE_EXTENTS_MASK, INODE_EXTENTS_SHIFT, INODE_INLINE, InodeSize,
    dir_inode_128, dir_inode_256, extent, inode,
};
use crate::kind::{BlockKind, FileKind};
use crate::layout::{Field, Word};
use crate::pointer::{DirRoot, Pointer};
use crate::space::{chunk_entry, chunk_header, group, sums};
use crate::xattr::xattr_block;

/// Byte of parts of a leaf that have no meaning: eight of them are not an inode number of any volume.
const MEANINGLESS: u8 = 0xff;

/// An empty directory whose names lead to the root directory of another volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RootAlias {
    /// Inode number of the empty directory, at home.
    pub placeholder: u64,
    /// Inode number of the root directory in the larger volume.
    pub root: u64,
}

/// The way of a volume's blocks into a larger volume.
#[derive(Clone, Copy, Debug)]
pub struct Relocation<'r> {
    /// Checksums of the volume at home.
    pub sums: Checksummer,
    /// Byte position in the larger volume at which the volume begins, a multiple of [`GROUP`].
    pub base: u64,
    /// Size of the volume in bytes.
    pub bytes: u64,
    /// Size of its inodes, which is that of the larger volume's.
    pub inode_size: InodeSize,
    /// Inode number of its root directory, at home.
    pub root: u64,
    /// Inode number of the directory above the root directory, in the larger volume.
    pub parent: u64,
    /// Names that lead to other volumes, in the order of the placeholders.
    pub aliases: &'r [RootAlias],
}

/// A block that leads out of its volume, or whose structure contradicts the format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeadsOut;

type Moved<T> = Result<T, LeadsOut>;

/// Reads a field of a structure that is as long as it should be.
fn get<T: Word>(field: Field<T>, bytes: &[u8]) -> Moved<T> {
    field.read(bytes).ok_or(LeadsOut)
}

/// Replaces the value of a field.
fn change(field: Field<u64>, bytes: &mut [u8], change: impl FnOnce(u64) -> Moved<u64>) -> Moved<()> {
    let value = change(get(field, bytes)?)?;
    field.write(bytes, value);
    Ok(())
}

impl Relocation<'_> {
    /// Relocates a block of metadata that was verified; `home` is its position at home. After an error the
    /// bytes are worth nothing. Its checksum stays that of home.
    ///
    /// # Errors
    /// [`LeadsOut`]; also for kinds of blocks that nothing refers to: superblocks and those of the journal.
    pub fn relocate(&self, kind: BlockKind, home: u64, block: &mut [u8]) -> Result<(), LeadsOut> {
        if block.len() as u64 != BLOCK || !self.base.is_multiple_of(GROUP) {
            return Err(LeadsOut);
        }
        match kind {
            BlockKind::Group => change(group::OWNER, block, |number| self.group(number)),
            BlockKind::Sums => change(sums::OWNER, block, |number| self.group(number)),
            BlockKind::ChunkHeader => self.chunk_table(home, block),
            BlockKind::Inodes => self.inodes(home, block),
            BlockKind::Pointers => block
                .chunks_exact_mut(8)
                .try_for_each(|word| change(Field::at(0), word, |word| self.pointer(word, None))),
            BlockKind::Leaf => self.leaf(block),
            BlockKind::Tree => self.tree(block),
            BlockKind::Index => self.index(block),
            BlockKind::Xattr => {
                change(xattr_block::OWNER, block, |number| self.inode(number))?;
                change(xattr_block::NEXT, block, |at| self.optional(at, BLOCK))
            }
            BlockKind::Superblock | BlockKind::Journal => Err(LeadsOut),
        }
    }

    /// Moves the position of `len` bytes, which are aligned to `len` or to a block.
    fn position(&self, at: u64, len: u64) -> Moved<u64> {
        let is_inside = at.checked_add(len).is_some_and(|end| end <= self.bytes);
        let is_fine = at != 0 && is_inside && at.is_multiple_of(len.min(BLOCK));
        if is_fine { at.checked_add(self.base).ok_or(LeadsOut) } else { Err(LeadsOut) }
    }

    /// Moves a position that may be 0 for none.
    fn optional(&self, at: u64, len: u64) -> Moved<u64> {
        if at == 0 { Ok(0) } else { self.position(at, len) }
    }

    /// Moves the position of an entry, which may be 0 for none.
    fn entry(&self, at: u64) -> Moved<u64> {
        self.optional(at, UNIT)
    }

    fn group(&self, number: u64) -> Moved<u64> {
        let is_inside = number < self.bytes.div_ceil(GROUP);
        if is_inside { Ok(number + self.base / GROUP) } else { Err(LeadsOut) }
    }

    fn inode(&self, number: u64) -> Moved<u64> {
        let size = self.inode_size.bytes();
        let at = number.checked_mul(size).ok_or(LeadsOut)?;
        Ok(self.position(at, size)? / size)
    }

    /// Moves an inode number that may be 0 for none.
    fn owner(&self, number: u64) -> Moved<u64> {
        if number == 0 { Ok(0) } else { self.inode(number) }
    }

    /// Moves a tagged pointer; that of an extent names `blocks` blocks.
    fn pointer(&self, word: u64, blocks: Option<u64>) -> Moved<u64> {
        let Some(pointer) = Pointer::decode(word).map_err(|_| LeadsOut)? else { return Ok(word) };
        let blocks = blocks.unwrap_or(pointer.size.blocks());
        let len = blocks.checked_mul(BLOCK).ok_or(LeadsOut)?;
        self.position(pointer.offset, BLOCK)?;
        let end = pointer.offset.checked_add(len).ok_or(LeadsOut)?;
        if end <= self.bytes { word.checked_add(self.base).ok_or(LeadsOut) } else { Err(LeadsOut) }
    }

    /// Moves the rows of one of the two blocks of a chunk's table.
    fn chunk_table(&self, home: u64, block: &mut [u8]) -> Moved<()> {
        let is_first = home.is_multiple_of(CHUNK);
        if is_first {
            change(chunk_header::OWNER, block, |at| self.position(at, BLOCK))?;
        }
        let header = if is_first { chunk_header::SIZE } else { 0 };
        block[header..].chunks_exact_mut(chunk_entry::SIZE).try_for_each(|row| {
            let is_sums = get(chunk_entry::KIND, row)? == BlockKind::Sums as u8;
            change(
                chunk_entry::OWNER,
                row,
                |owner| {
                    if is_sums { self.group(owner) } else { self.owner(owner) }
                },
            )
        })
    }

    fn inodes(&self, home: u64, block: &mut [u8]) -> Moved<()> {
        let size = self.inode_size.bytes();
        let first = home / size;
        (first..).zip(block.chunks_exact_mut(size as usize)).try_for_each(|(number, one)| {
            if get(inode::MODE, one)? == 0 {
                // The rest of a free inode was not verified.
                let generation = get(inode::GENERATION, one)?;
                one.fill(0);
                inode::GENERATION.write(one, generation);
                return Ok(());
            }
            self.one_inode(number, one)
        })
    }

    fn one_inode(&self, number: u64, one: &mut [u8]) -> Moved<()> {
        let flags = get(inode::FLAGS, one)?;
        let extents = usize::from((flags & INODE_EXTENTS_MASK) >> INODE_EXTENTS_SHIFT);
        let is_directory = FileKind::from_mode(get(inode::MODE, one)?) == Some(FileKind::Directory);
        change(inode::MAP, one, |word| self.pointer(word, None))?;
        // Below a block it is the number of bytes in the inode.
        change(inode::XATTR, one, |at| if at < BLOCK { Ok(at) } else { self.position(at, BLOCK) })?;
        let has_extents = !is_directory && flags & (INODE_INLINE | INODE_DEPTH_MASK) == 0;
        if extents > if has_extents { self.inode_size.extents() } else { 0 } {
            return Err(LeadsOut);
        }
        if is_directory {
            let is_root = number == self.root;
            change(inode::PARENT_OR_DEVICE, one, |parent| match is_root {
                true => Ok(self.parent),
                false => self.inode(parent),
            })?;
            let room = match self.inode_size {
                InodeSize::B128 => dir_inode_128::ROOM.offset,
                InodeSize::B256 => dir_inode_256::ROOM.offset,
            };
            change(Field::at(INODE_CORE + room), one, |at| self.optional(at, BLOCK))?;
            return change(self.inode_size.dir_root(), one, |word| {
                DirRoot::decode(word).map_err(|_| LeadsOut)?;
                let at = word & !(BLOCK - 1);
                Ok(self.optional(at, BLOCK)? | word & (BLOCK - 1))
            });
        }
        let tail = &mut one[INODE_CORE..];
        tail.chunks_exact_mut(extent::SIZE).take(extents).try_for_each(|one| {
            let blocks = u64::from(get(extent::BLOCKS, one)?);
            change(extent::POINTER, one, |word| self.pointer(word, Some(blocks)))
        })
    }

    fn leaf(&self, block: &mut [u8]) -> Moved<()> {
        change(leaf::OWNER, block, |number| self.inode(number))?;
        change(leaf::NEXT, block, |at| self.optional(at, BLOCK))?;
        change(leaf::PREVIOUS, block, |at| self.optional(at, BLOCK))?;
        let mut used = [0; leaf::UNITS.len];
        for (i, word) in used.iter_mut().enumerate() {
            *word = get(leaf::UNITS.index(i), block)?;
        }
        let is_used = |unit: usize| used[unit / 64] >> (unit % 64) & 1 != 0;
        let (mut unit, end) = (LEAF_HEADER_UNITS, UNITS_PER_LEAF as usize);
        while unit < end {
            let at = unit * UNIT as usize;
            if !is_used(unit) {
                block[at..at + UNIT as usize].fill(MEANINGLESS);
                unit += 1;
                continue;
            }
            let units = self.one_entry(&mut block[at..])?;
            if unit + units > end || !(unit..unit + units).all(is_used) {
                return Err(LeadsOut);
            }
            unit += units;
        }
        Ok(())
    }

    /// Moves the entry at the beginning of `bytes`, and returns its units.
    fn one_entry(&self, bytes: &mut [u8]) -> Moved<usize> {
        let len = usize::from(get(entry::NAME_LEN, bytes)?);
        let units = entry_units(len);
        let one = bytes.get_mut(..units * UNIT as usize).ok_or(LeadsOut)?;
        change(entry::NEXT, one, |at| self.entry(at))?;
        change(entry::PREVIOUS, one, |at| self.entry(at))?;
        let (name, rest) = one[entry::SIZE..].split_at_mut(len);
        if name.iter().any(|byte| matches!(byte, 0 | b'/')) {
            return Err(LeadsOut);
        }
        rest.fill(MEANINGLESS);
        change(entry::INODE, one, |number| match len {
            0 => self.optional(number, BLOCK),
            _ => match self.aliases.binary_search_by_key(&number, |alias| alias.placeholder) {
                Ok(found) => Ok(self.aliases[found].root),
                Err(_) => self.inode(number),
            },
        })?;
        Ok(units)
    }

    fn tree(&self, block: &mut [u8]) -> Moved<()> {
        change(tree::OWNER, block, |number| self.inode(number))?;
        let count = usize::from(get(tree::COUNT, block)?);
        if !(1..=TREE_MAX).contains(&count) {
            return Err(LeadsOut);
        }
        (0..TREE_MAX).try_for_each(|child| {
            change(tree::POSITIONS.index(child), block, |at| match child < count {
                true => self.position(at, BLOCK),
                false => Ok(0),
            })
        })
    }

    fn index(&self, block: &mut [u8]) -> Moved<()> {
        change(index::OWNER, block, |number| self.inode(number))?;
        change(index::DUMMY, block, |at| self.position(at, UNIT))?;
        (0..index::SLOTS.len).try_for_each(|slot| {
            change(index::SLOTS.index(slot), block, |word| {
                let at = self.entry(Slot(word).position())?;
                Ok((at / UNIT) << Slot::SHIFT | word & ((1 << Slot::SHIFT) - 1))
            })
        })
    }
}

#[cfg(test)]
#[path = "relocate_tests.rs"]
mod tests;
