//! Sizes that shape a volume.

/// Size of a block, the unit of allocation, in bytes.
pub const BLOCK: u64 = 4096;
/// Size of a chunk in bytes: 512 consecutive blocks at a multiple of 2 MiB, either file data or metadata.
pub const CHUNK: u64 = 2 << 20;
/// Blocks in a chunk.
pub const BLOCKS_PER_CHUNK: u64 = CHUNK / BLOCK;
/// Blocks of a metadata chunk's table, which is at the start of the chunk (one 16 B entry a block).
pub const CHUNK_HEADER_BLOCKS: u64 = 2;
/// Chunks in a block group. 63 and not 64: so a group's bitmap and its header share one block.
pub const CHUNKS_PER_GROUP: u64 = 63;
/// Blocks in a block group: 126 MiB.
pub const BLOCKS_PER_GROUP: u64 = CHUNKS_PER_GROUP * BLOCKS_PER_CHUNK;
/// Size of a block group in bytes.
pub const GROUP: u64 = BLOCKS_PER_GROUP * BLOCK;
/// Data blocks whose checksums are in one block of kind `Sums`.
pub const BLOCKS_PER_SUMS: u64 = 1008;
/// Blocks of kind `Sums` in a group. They follow the table of the group's first chunk (group 0: second
/// chunk).
pub const SUMS_PER_GROUP: u64 = BLOCKS_PER_GROUP / BLOCKS_PER_SUMS;
/// Pointers in a pointer block.
pub const POINTERS_PER_BLOCK: u64 = 512;
/// Most levels of pointer blocks in a file map: 512^5 blocks of 4 KiB are 2^57 bytes.
pub const MAX_MAP_DEPTH: u8 = 5;
/// Largest size of a file in bytes.
pub const MAX_FILE_SIZE: u64 = 1 << 57;
/// Longest name in bytes.
pub const MAX_NAME: usize = max_name!();
/// Longest target of a symbolic link in bytes.
pub const MAX_SYMLINK: usize = 4095;
/// Most symbolic links in one resolution, as in Linux.
pub const MAX_SYMLINKS_FOLLOWED: u32 = 40;
/// Largest link count of an inode.
pub const MAX_LINKS: u32 = u32::MAX - 1;
/// Largest volume in bytes: 2 PiB. Slots store positions in units of 16 B in 47 bits.
pub const MAX_VOLUME: u64 = 1 << 51;
/// Smallest volume in bytes: the system chunk, a metadata chunk and some room.
pub const MIN_VOLUME: u64 = 4 * CHUNK;
/// Position of the superblock's second copy: the last block of chunk 0, which does not depend on the volume's
/// size.
pub const SUPERBLOCK_COPY: u64 = CHUNK - BLOCK;
/// Alignment of an entry in a leaf block, in bytes: one bit of the leaf's bitmap.
pub const UNIT: u64 = 16;
/// Units in a leaf block.
pub const UNITS_PER_LEAF: u64 = BLOCK / UNIT;
