//! Constants that depend on each other, checked when the crate is compiled.
//!
//! A structure's own fields are checked where it is declared ([`Layout::check`](crate::Layout::check)). This
//! module checks one constant against another. `tests/it/ties.rs` changes constants one by one and sees the
//! compiler refuse each.

use crate::dir::{self, Slot, entry, entry_units, index, leaf, tree};
use crate::*;

// Chunks and groups.
const _: () = assert!(CHUNK.is_multiple_of(BLOCK), "a chunk is whole blocks");
const _: () = assert!(
    CHUNK_HEADER_BLOCKS * BLOCK == BLOCKS_PER_CHUNK * chunk_entry::SIZE as u64,
    "a chunk's table has one entry for each of its blocks"
);
const _: () = assert!(
    chunk_header::SIZE as u64 == CHUNK_HEADER_BLOCKS * chunk_entry::SIZE as u64,
    "the header of a chunk's table takes the entries of the table's own blocks"
);
const _: () = assert!(
    group::BITMAP.len as u64 * 64 == BLOCKS_PER_GROUP,
    "a group's bitmap has one bit for each of its blocks"
);
const _: () = assert!(CHUNKS_PER_GROUP <= 64, "the words of a group have one bit for each of its chunks");
const _: () = assert!(group::SIZE as u64 == BLOCK, "a group's header and bitmap fill one block");
const _: () = assert!(SUPERBLOCK_COPY + BLOCK == CHUNK, "the superblock's copy is the last block of chunk 0");
const _: () = assert!(MIN_VOLUME.is_multiple_of(CHUNK) && MIN_VOLUME < MAX_VOLUME, "a volume has room");
const _: () = assert!(
    BLOCK / InodeSize::B128.bytes() <= u8::MAX as u64,
    "the count of a block's inodes fits its field in the chunk's table"
);

// Checksums of file data.
const _: () = assert!(sums::SIZE as u64 == BLOCK, "checksums and their header fill one block");
const _: () =
    assert!(sums::SUMS.len as u64 == BLOCKS_PER_SUMS, "a block of sums has one for each of its data blocks");
const _: () =
    assert!(SUMS_PER_GROUP * BLOCKS_PER_SUMS == BLOCKS_PER_GROUP, "each block of a group has a checksum");
const _: () =
    assert!(CHUNK_HEADER_BLOCKS + SUMS_PER_GROUP <= BLOCKS_PER_CHUNK, "a group's checksums lie in one chunk");
const _: () = assert!(sums_chunk(0) > SUPERBLOCK_COPY, "the system chunk holds no checksums of data");

// File maps.
const _: () = assert!(POINTERS_PER_BLOCK * 8 == BLOCK, "a pointer block is full of pointers");
const _: () = assert!(
    BlockSize::Medium.blocks() == POINTERS_PER_BLOCK
        && BlockSize::Large.blocks() == POINTERS_PER_BLOCK * POINTERS_PER_BLOCK,
    "a large data block replaces a pointer block and all below it"
);
const _: () = assert!(BlockSize::Medium.blocks() == BLOCKS_PER_CHUNK, "a medium data block is a chunk");
const _: () = assert!(
    POINTERS_PER_BLOCK.pow(MAX_MAP_DEPTH as u32).checked_mul(BLOCK).is_some()
        && POINTERS_PER_BLOCK.pow(MAX_MAP_DEPTH as u32) * BLOCK == MAX_FILE_SIZE,
    "a map of the largest depth reaches the end of the largest file"
);
const _: () = assert!(MAX_FILE_SIZE <= i64::MAX as u64, "the size of a file fits the interface of the host");
const _: () = assert!(
    MAX_MAP_DEPTH as u16 <= INODE_DEPTH_MASK >> INODE_DEPTH_SHIFT,
    "the depth of a map fits the flags of the inode"
);
const _: () = assert!(
    INODE_INLINE & INODE_DEPTH_MASK == 0
        && (INODE_INLINE | INODE_DEPTH_MASK) & INODE_EXTENTS_MASK == 0
        && INODE_NO_DATA_CHECKSUMS & (INODE_INLINE | INODE_DEPTH_MASK | INODE_EXTENTS_MASK) == 0
        && (INODE_ACCESS_ACL | INODE_DEFAULT_ACL)
            & (INODE_INLINE | INODE_NO_DATA_CHECKSUMS | INODE_DEPTH_MASK | INODE_EXTENTS_MASK)
            == 0,
    "flags of an inode do not overlap"
);
const _: () = assert!(
    InodeSize::B256.extents() as u16 <= INODE_EXTENTS_MASK >> INODE_EXTENTS_SHIFT,
    "the number of extents fits the flags of the inode"
);
const _: () = assert!(INODE_CORE.is_multiple_of(extent::SIZE), "an extent does not cross a cache line");

// Inodes.
const _: () = assert!(
    INODE_CORE + dir_inode_128::SIZE == InodeSize::B128.bytes() as usize
        && INODE_CORE + dir_inode_256::SIZE == InodeSize::B256.bytes() as usize,
    "the part of a directory fills the inode"
);
const _: () = assert!(
    InodeSize::B128.inline() == dir_inode_128::SIZE && InodeSize::B256.inline() == dir_inode_256::SIZE,
    "inline data have the bytes that a directory uses"
);
const _: () = assert!(
    BLOCK.is_multiple_of(InodeSize::B128.bytes()) && BLOCK.is_multiple_of(InodeSize::B256.bytes()),
    "no inode crosses the end of its block"
);
const _: () = assert!(
    dir_inode_128::TAGS.len == dir_inode_128::UNITS.len
        && dir_inode_256::TAGS.len == dir_inode_256::UNITS.len,
    "a small index has a unit for each tag"
);
const _: () = assert!(
    dir_inode_128::UNITS.offset == dir_inode_128::TAGS.offset + dir_inode_128::TAGS.len
        && dir_inode_256::UNITS.offset == dir_inode_256::TAGS.offset + dir_inode_256::TAGS.len,
    "the units of a small index follow its tags"
);
const _: () = assert!(
    InodeSize::B128.small_tags().is_multiple_of(8) && InodeSize::B256.small_tags().is_multiple_of(8),
    "lookups read the tags by words"
);
const _: () = assert!(
    InodeSize::B256.dir_root().offset >= InodeSize::B256.bytes() as usize - 64,
    "a lookup in a small directory reads one cache line of the inode"
);
const _: () = assert!(MAX_SYMLINK < BLOCK as usize, "the target of a symbolic link fits one block");

// Leaf blocks and entries.
const _: () = assert!(
    leaf::UNITS.len as u64 * 64 == UNITS_PER_LEAF,
    "a leaf's bitmap has one bit for each of its units"
);
const _: () =
    assert!(UNITS_PER_LEAF <= u8::MAX as u64 + 1, "a small index has one byte for each unit number");
const _: () = assert!(leaf::SIZE.is_multiple_of(UNIT as usize), "a leaf's header is whole units");
const _: () = assert!(entry::SIZE.is_multiple_of(8), "a name begins at a word");
const _: () = assert!(MAX_NAME <= u8::MAX as usize, "the length of a name fits its field");
const _: () = assert!(
    dir::LEAF_ROOM >= entry_units(MAX_NAME) && dir::LEAF_ROOM <= dir::LEAF_UNITS,
    "a leaf with room takes the longest name"
);

// Regions and trees.
const _: () = assert!(
    dir::BUCKETS * dir::BUCKET_SLOTS == index::SLOTS.len,
    "the buckets of a region index are all of its slots"
);
const _: () = assert!(
    dir::BUCKET_SLOTS * 8 == 64 && index::SLOTS.offset.is_multiple_of(64),
    "a bucket is one cache line"
);
const _: () = assert!(
    dir::REGION_MAX < dir::BUCKETS * dir::BUCKET_SLOTS,
    "a full region leaves free slots, which end the search of a bucket that overflowed"
);
const _: () = assert!(
    dir::REGION_MAX > InodeSize::B256.small_entries() && dir::REGION_MAX > InodeSize::B128.small_entries(),
    "a small directory becomes one region"
);
const _: () = assert!(
    dir::REGION_LOW < dir::REGION_MERGED && dir::REGION_MERGED < dir::REGION_MAX,
    "a merged region does not divide again at once"
);
const _: () =
    assert!(2 * dir::REGION_LOW <= dir::REGION_MERGED, "two regions that are low on entries become one");
const _: () =
    assert!(dir::REGION_LOW <= dir::REGION_MAX / 2, "half of a divided region does not merge again at once");
const _: () = assert!(dir::REGION_MAX <= u16::MAX as usize, "the count of a region fits its dummy entry");
const _: () = assert!(
    MAX_VOLUME / UNIT == 1 << (u64::BITS - Slot::SHIFT),
    "the position in a slot reaches the end of the largest volume"
);
const _: () = assert!(
    Slot::OVERFLOW > u16::MAX as u64 && Slot::OVERFLOW < 1 << Slot::SHIFT,
    "the overflow bit is between the tag and the position"
);
const _: () = assert!(
    tree::HASHES.len == dir::TREE_MAX
        && tree::FORMS.len == dir::TREE_MAX
        && tree::POSITIONS.len == dir::TREE_MAX,
    "a tree block has a hash, a form and a position for each child"
);
const _: () = assert!(dir::TREE_MERGED < dir::TREE_MAX, "a merged tree block does not divide again at once");
const _: () = assert!(
    dir::TREE_MAX < 1 << (BLOCK.trailing_zeros() - DirRoot::COUNT_SHIFT),
    "the number of children fits the low bits of a directory's root"
);
const _: () = assert!(
    (dir::TREE_MAX as u64).pow(dir::MAX_TREE_LEVEL as u32) > 1 << u32::BITS,
    "a tree of the largest height has a region for each hash"
);

// The journal.
const _: () = assert!(
    journal_header::SIZE as u64 == BLOCK
        && journal_descriptor::SIZE as u64 == BLOCK
        && journal_commit::SIZE as u64 == BLOCK,
    "each of the journal's own structures is one block"
);
const _: () = assert!(
    journal_descriptor::SEQUENCE.offset == journal_commit::SEQUENCE.offset
        && journal_descriptor::ROLE.offset == journal_commit::ROLE.offset,
    "the number of a commit has one position in all blocks of the journal"
);
const _: () = assert!(
    journal_descriptor::POSITIONS.len <= u16::MAX as usize,
    "the number of positions fits its field in a descriptor"
);
