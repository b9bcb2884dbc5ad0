//! Directories: leaf blocks, entries, tree blocks and region index blocks.

use crate::geometry::{BLOCK, UNIT};
use crate::layout;

layout! {
    /// Header of a leaf block; 16 B units of entries follow, counted from the block's start.
    leaf, 80;
    /// `BlockKind::Leaf`
    KIND: u8, 0;
    /// 1 while the leaf is on the list of leaves with room
    LISTED: u8, 1;
    /// Free units
    FREE: u16, 2;
    /// CRC-32C of the block
    CHECKSUM: u32, 4;
    /// Inode number of the directory
    OWNER: u64, 8;
    /// Number of the leaf: its index in the directory's file map
    NUMBER: u64, 16;
    /// Next leaf with room, 0 at the end
    NEXT: u64, 24;
    /// Previous leaf with room, 0 at the start
    PREVIOUS: u64, 32;
    /// Bitmap of used units, bit u of word u / 64; the header's five are always set
    UNITS: u64, 40, 4;
    /// Zero
    RESERVED: u64, 72;
}

layout! {
    /// A directory entry; its name follows. An entry with a name of length 0 is a dummy, which opens a hash
    /// region.
    entry, 32;
    /// Position of the next entry in the hash-ordered list, 0 at the end
    NEXT: u64, 0;
    /// Position of the previous entry, 0 at the start
    PREVIOUS: u64, 8;
    /// Inode number; of a dummy: position of the region's index block, 0 in a small directory
    INODE: u64, 16;
    /// Hash of the name; of a dummy: lowest hash of its region
    HASH: u32, 24;
    /// Length of the name in bytes, 0 for a dummy
    NAME_LEN: u8, 28;
    /// Type of the file (`d_type`); 0 in a dummy
    KIND: u8, 29;
    /// Of a dummy: entries in its region, without those that have no slot; else 0
    COUNT: u16, 30;
}

layout! {
    /// A tree block: children in order of their lowest hash.
    tree, 4096;
    /// `BlockKind::Tree`
    KIND: u8, 0;
    /// Height above the regions: 1 for a block whose children are regions
    LEVEL: u8, 1;
    /// Number of children, 1 to 255
    COUNT: u16, 2;
    /// CRC-32C of the block
    CHECKSUM: u32, 4;
    /// Inode number of the directory
    OWNER: u64, 8;
    /// Lowest hash below each child
    HASHES: u32, 16, 255;
    /// Form of each child: 2 a region, 3 a tree block
    FORMS: u32, 1036, 255;
    /// Position of each child: a tree block or a region's index block
    POSITIONS: u64, 2056, 255;
}

layout! {
    /// A region index block: a hash table of 63 buckets, each a cache line of 8 slots.
    index, 4096;
    /// `BlockKind::Index`
    KIND: u8, 0;
    /// Zero
    RESERVED0: u8, 1, 3;
    /// CRC-32C of the block
    CHECKSUM: u32, 4;
    /// Inode number of the directory
    OWNER: u64, 8;
    /// Position of the region's dummy entry
    DUMMY: u64, 16;
    /// Number of the region's entries without a slot
    UNINDEXED: u32, 24;
    /// Zero
    RESERVED1: u32, 28, 9;
    /// Slots, see [`Slot`]; bucket b is slots 8 b to 8 b + 7
    SLOTS: u64, 64, 504;
}

/// Most entries of one region with a slot in its index. Only names with one hash can be more.
pub const REGION_MAX: usize = 256;
/// A region with fewer entries than this merges with a neighbour if it can.
pub const REGION_LOW: usize = 48;
/// Most entries of two neighbours that merge. It is far enough below [`REGION_MAX`] that a few more names do
/// not split the merged region again.
pub const REGION_MERGED: usize = 160;
/// Most children of a tree block.
pub const TREE_MAX: usize = 255;
/// Most children of two neighbouring tree blocks that merge.
pub const TREE_MERGED: usize = 160;
/// Most levels of tree blocks: [`TREE_MAX`]^5 regions are more than 2^32 hashes need.
pub const MAX_TREE_LEVEL: u8 = 5;
/// Buckets in a region index block.
pub const BUCKETS: usize = 63;
/// Slots in a bucket: one cache line.
pub const BUCKET_SLOTS: usize = 8;
/// Units of a leaf block for its header.
pub const LEAF_HEADER_UNITS: usize = leaf::SIZE / UNIT as usize;
/// Units of a leaf block for entries.
pub const LEAF_UNITS: usize = (BLOCK / UNIT) as usize - LEAF_HEADER_UNITS;
/// Free units from which a leaf is on the list of leaves with room.
pub const LEAF_ROOM: usize = 64;

/// Returns the units of an entry with a name of this length.
#[inline(always)]
pub const fn entry_units(name_len: usize) -> usize {
    (entry::SIZE + name_len).div_ceil(UNIT as usize)
}

/// A slot of a region index. Bits 0 to 15 are the tag (low 16 bits of the hash). Bit 16, in a bucket's first
/// slot only, says that entries of the bucket overflowed into the next one. Bits 17 to 63 are the entry's
/// position in units of 16 B. A slot whose position is 0 is free.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot(pub u64);

impl Slot {
    /// The overflow bit.
    pub const OVERFLOW: u64 = 1 << 16;
    /// Shift of the position.
    pub const SHIFT: u32 = 17;

    /// Creates a used slot.
    #[inline(always)]
    pub const fn new(hash: u32, position: u64) -> Self {
        Slot((position / UNIT) << Self::SHIFT | (hash & 0xffff) as u64)
    }

    /// Returns the byte position of the entry, 0 for a free slot.
    #[inline(always)]
    pub const fn position(self) -> u64 {
        (self.0 >> Self::SHIFT) * UNIT
    }

    /// Returns the tag.
    #[inline(always)]
    pub const fn tag(self) -> u16 {
        self.0 as u16
    }

    /// Returns the home bucket of a name with this tag.
    #[inline(always)]
    pub const fn home(tag: u16) -> usize {
        (tag as usize * BUCKETS) >> 16
    }
}

/// Returns the tag of a hash in the small index of a directory's inode.
#[inline(always)]
pub const fn small_tag(hash: u32) -> u8 {
    (hash >> 24) as u8
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::geometry::MAX_VOLUME;

    #[test]
    fn slots_hold_the_highest_position_and_every_tag_has_a_bucket() {
        let at = MAX_VOLUME - UNIT;
        let slot = Slot::new(0xdead_beef, at);
        assert_eq!((slot.position(), slot.tag(), slot.0 & Slot::OVERFLOW), (at, 0xbeef, 0));
        assert!((0..=u16::MAX).all(|tag| Slot::home(tag) < BUCKETS));
        assert_eq!(Slot::home(u16::MAX), BUCKETS - 1);
    }

    #[test]
    fn the_longest_name_fits_a_leaf() {
        assert_eq!(entry_units(255), 18);
        assert_eq!(entry_units(1), 3);
        assert!(LEAF_UNITS == 251 && LEAF_UNITS >= 2 + 13 * entry_units(255));
    }
}
