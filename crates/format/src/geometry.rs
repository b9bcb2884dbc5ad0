//! Sizes that shape a volume.

/// Size of a block, the unit of allocation, in bytes.
pub const BLOCK: u64 = 4096;
/// Size of a chunk in bytes: a 2 MiB-aligned run of 512 blocks, either file data or metadata.
pub const CHUNK: u64 = 2 << 20;
/// Blocks in a chunk.
pub const BLOCKS_PER_CHUNK: u64 = CHUNK / BLOCK;
/// Blocks at the start of a metadata chunk that hold its table (one 16 B entry a block).
pub const CHUNK_HEADER_BLOCKS: u64 = 2;
/// Chunks in a block group. 63 and not 64, so that a group's bitmap and its header share one block.
pub const CHUNKS_PER_GROUP: u64 = 63;
/// Blocks in a block group: 126 MiB.
pub const BLOCKS_PER_GROUP: u64 = CHUNKS_PER_GROUP * BLOCKS_PER_CHUNK;
/// Size of a block group in bytes.
pub const GROUP: u64 = BLOCKS_PER_GROUP * BLOCK;
/// Pointers in a pointer block.
pub const POINTERS_PER_BLOCK: u64 = 512;
/// Levels of pointer blocks that a file map may have: 512^5 blocks of 4 KiB are 2^57 bytes.
pub const MAX_MAP_DEPTH: u8 = 5;
/// Largest size of a file in bytes.
pub const MAX_FILE_SIZE: u64 = 1 << 57;
/// Longest name in bytes.
pub const MAX_NAME: usize = max_name!();
/// Longest target of a symbolic link in bytes.
pub const MAX_SYMLINK: usize = 4095;
/// Symbolic links followed in one resolution, as Linux has it.
pub const MAX_SYMLINKS_FOLLOWED: u32 = 40;
/// Largest link count of an inode.
pub const MAX_LINKS: u32 = u32::MAX - 1;
/// Positions are stored in units of 16 B in 47 bits, so a volume ends here: 2 PiB.
pub const MAX_VOLUME: u64 = 1 << 51;
/// Smallest volume in bytes: the system chunk, a metadata chunk and some room.
pub const MIN_VOLUME: u64 = 4 * CHUNK;
/// Where the second copy of the superblock lies: the last block of chunk 0, found without knowing the size.
pub const SUPERBLOCK_COPY: u64 = CHUNK - BLOCK;
/// Alignment of an entry in a leaf block, in bytes: one bit of the leaf's bitmap.
pub const UNIT: u64 = 16;
/// Units in a leaf block.
pub const UNITS_PER_LEAF: u64 = BLOCK / UNIT;
