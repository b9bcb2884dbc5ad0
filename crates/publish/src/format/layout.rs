//! Every structure of a publication, declared once. All words are little-endian.

use lanefs::format::{Layout, layout};

/// `LaneTag\n` as a little-endian word.
pub(crate) const TAG_MAGIC: u64 = u64::from_le_bytes(*b"LaneTag\n");
/// `LaneRoot` as a little-endian word.
pub(crate) const ROOT_MAGIC: u64 = u64::from_le_bytes(*b"LaneRoot");
/// `LanePage` as a little-endian word.
pub(crate) const PAGE_MAGIC: u64 = u64::from_le_bytes(*b"LanePage");
/// `LanePack` as a little-endian word.
pub(crate) const PACK_MAGIC: u64 = u64::from_le_bytes(*b"LanePack");
/// `LaneGone` as a little-endian word.
pub(crate) const CONDEMNED_MAGIC: u64 = u64::from_le_bytes(*b"LaneGone");
/// Version of the publication format.
pub const VERSION: u32 = 4;
/// The version before pieces had frames, which is read, too.
pub(crate) const WHOLE: u32 = 3;
/// The one before that. Its references do not bind the content of blocks.
pub(crate) const UNBOUND: u32 = 2;

/// `KIND` of the root of a volume.
pub(crate) const VOLUME: u32 = 0;
/// `KIND` of the root of a join.
pub(crate) const JOIN: u32 = 1;

/// Bytes of a BLAKE3 hash.
pub(crate) const HASH_BYTES: usize = 32;
/// Bytes of a block's digest: the first of its BLAKE3 hash.
pub(crate) const DIGEST_BYTES: usize = 16;

/// Bytes of a window: 64 blocks of the volume.
pub(crate) const WINDOW_BYTES: u64 = 64 * lanefs::format::BLOCK;
/// Windows that a leaf page covers, and pages that a page above covers.
pub(crate) const FANOUT: u64 = 1024;
/// Pieces of one window at most, and those of them that are its own.
pub(crate) const MAX_PIECES: usize = 8;
pub(crate) const MAX_OWN_PIECES: usize = 4;
/// Levels of pages at most: enough for the largest volume.
pub(crate) const MAX_LEVEL: u32 = 3;
/// Bytes of stored pieces from which a pack is complete.
pub(crate) const PACK_BYTES: u64 = 32 << 20;
/// Bytes of a pack at most.
pub(crate) const MAX_PACK_BYTES: u64 = 1 << 30;
/// Bytes of a page before its compression at most: those with eight pieces for each window, each of another
/// pack, and with the smallest frames, have 1.5 MiB.
pub(crate) const MAX_PAGE_BYTES: usize = 2 << 20;
/// Largest size of a page as a multiple of its stored one, and so many bytes more. (Pages of zeros, whose
/// pieces have one hash and one content, reach some 30.)
pub(crate) const MAX_PAGE_RATIO: u64 = 256;
pub(crate) const PAGE_FLOOR: u64 = 4096;
/// Bytes of a root at most.
pub(crate) const MAX_ROOT_BYTES: usize = 1 << 20;
/// Bytes of the end of a pack at most.
pub(crate) const MAX_FOOTER_BYTES: usize = 64 << 20;
/// Bytes of a root that stands after its tag, too, at most: both come in the first flight of a connection.
pub(crate) const MAX_TAG_ROOT_BYTES: usize = 12 << 10;
/// Ranges of packs that a root names at most.
pub(crate) const MAX_RANGES: usize = 256;
/// Shards of a join at most, its frame included.
pub(crate) const MAX_SHARDS: usize = 4097;
/// Bytes of the prefix of a shard at most, as of a path in Linux.
pub(crate) const MAX_PREFIX_BYTES: usize = 4095;
/// Objects that one list condemns at most.
pub(crate) const MAX_CONDEMNED: usize = 1 << 18;

layout! {
    /// The object of a tag.
    tag, 128;
    /// `LaneTag\n`
    MAGIC: u64, 0;
    /// Version of the publication format
    VERSION: u32, 8;
    /// Bytes of the root
    ROOT_BYTES: u32, 12;
    /// BLAKE3 hash of the root: the version
    ROOT: u8, 16, HASH_BYTES;
    /// `UUID` of the volume
    UUID: u8, 48, 16;
    /// Time of the publication, in nanoseconds since 1970
    PUBLISHED: i64, 64;
    /// Zero
    RESERVED: u64, 72, 3;
    /// BLAKE3 hash of the 96 bytes before
    CHECK: u8, 96, HASH_BYTES;
}

layout! {
    /// The beginning of a root. Its packs, pages and ranges follow.
    root, 96;
    /// `LaneRoot`
    MAGIC: u64, 0;
    /// Version of the publication format
    VERSION: u32, 8;
    /// Level of the pages that the root names: 0 for leaf pages
    LEVEL: u32, 12;
    /// `UUID` of the volume
    UUID: u8, 16, 16;
    /// Size of the volume in bytes
    VOLUME_BYTES: u64, 32;
    /// `SEQUENCE` of the volume's superblock
    SEQUENCE: u64, 40;
    /// Blocks of the volume that are published
    BLOCKS: u64, 48;
    /// Stored bytes of the pieces of windows with metadata
    METADATA_BYTES: u64, 56;
    /// Stored bytes of all other pieces of windows
    DATA_BYTES: u64, 64;
    /// Number of packs
    PACKS: u32, 72;
    /// Number of pages
    PAGES: u32, 76;
    /// Number of ranges
    RANGES: u32, 80;
    /// 0: a volume; 1: a join. A reader refuses another kind
    KIND: u32, 84;
    /// Zero
    RESERVED: u32, 88, 2;
}

layout! {
    /// The second part of the root of a join. Its shards follow, and then their prefixes.
    join, 64;
    /// Number of shards, the frame included
    SHARDS: u32, 0;
    /// Size of an inode of each shard in bytes
    INODE_BYTES: u32, 4;
    /// `HASH_SEED` of each shard
    HASH_SEED: u32, 8, 4;
    /// Time of the superblock, in nanoseconds since 1970
    CREATED: i64, 24;
    /// Inode number of the frame's orphan directory
    ORPHANS: u64, 32;
    /// Zero
    RESERVED: u64, 40, 3;
}

layout! {
    /// A shard of a join. Inode numbers and positions are those in the volume of the shard.
    shard, 152;
    /// The version of the shard
    ROOT_HASH: u8, 0, HASH_BYTES;
    /// `UUID` of the shard
    UUID: u8, 32, 16;
    /// Byte position in the join at which the shard begins, a multiple of 126 MiB
    BASE: u64, 48;
    /// Size of the shard in bytes
    VOLUME_BYTES: u64, 56;
    /// Inode number of its root directory
    ROOT: u64, 64;
    /// Position of its group table
    GROUPS: u64, 72;
    /// Its free blocks
    FREE_BLOCKS: u64, 80;
    /// Its inodes in use
    INODES: u64, 88;
    /// Inode number in `TERRITORY` of the empty directory that the shard replaces; 0 for the frame
    PLACEHOLDER: u64, 96;
    /// Inode number in `TERRITORY` of the directory above; 0 for the frame
    PARENT: u64, 104;
    /// Number of the shard in which the prefix lies
    TERRITORY: u32, 112;
    /// `CHECKSUM_SEED` of the shard
    CHECKSUM_SEED: u32, 116;
    /// Bytes of the prefix
    PREFIX_BYTES: u32, 120;
    /// Zero
    RESERVED: u32, 124;
    /// `BLOCKS` of the root of the shard
    BLOCKS: u64, 128;
    /// `METADATA_BYTES` of the root of the shard
    METADATA_BYTES: u64, 136;
    /// `DATA_BYTES` of the root of the shard
    DATA_BYTES: u64, 144;
}

layout! {
    /// A pack that a page or a root refers to, by its index in the list.
    pack_name, 48;
    /// BLAKE3 hash of the pack's footer: the pack's name
    NAME: u8, 0, HASH_BYTES;
    /// Bytes of the pack
    BYTES: u64, 32;
    /// Bytes of its footer
    FOOTER: u32, 40;
    /// Zero
    RESERVED: u32, 44;
}

layout! {
    /// A page that a root or another page refers to.
    page_ref, 56;
    /// Number of the page among those of the referring page or root
    INDEX: u32, 0;
    /// Index of the pack
    PACK: u32, 4;
    /// Offset in the pack
    OFFSET: u32, 8;
    /// Bytes in the pack
    STORED: u32, 12;
    /// Bytes of the page
    BYTES: u32, 16;
    /// As that of a piece
    CODEC: u16, 20;
    /// Zero
    RESERVED: u16, 22;
    /// BLAKE3 hash of the bytes in the pack
    HASH: u8, 24, HASH_BYTES;
}

layout! {
    /// Consecutive bytes of a pack that have metadata.
    range, 16;
    /// Index of the pack
    PACK: u32, 0;
    /// Offset in the pack
    OFFSET: u32, 4;
    /// Bytes
    BYTES: u32, 8;
    /// Zero
    RESERVED: u32, 12;
}

layout! {
    /// The beginning of a page. Its packs follow, and then its pages, or its pieces (level 0) with the sizes
    /// of their frames.
    page, 32;
    /// `LanePage`
    MAGIC: u64, 0;
    /// Version of the publication format
    VERSION: u32, 8;
    /// Level: 0 for a leaf page
    LEVEL: u32, 12;
    /// Number of the page among those of its level
    NUMBER: u64, 16;
    /// Number of packs
    PACKS: u32, 24;
    /// Number of pieces or pages
    COUNT: u32, 28;
}

layout! {
    /// A piece of a window, as a leaf page has it.
    piece_ref, 104;
    /// Number of the window among those of the page
    INDEX: u16, 0;
    /// Bit 0: the window has metadata. Bit 1: the blocks are borrowed. Bits 8 to 13: `FIRST`
    FLAGS: u16, 2;
    /// Index of the pack
    PACK: u32, 4;
    /// Bit i: block i of the window is read from this piece
    TAKEN: u64, 8;
    /// Bit i: the piece has block i of its window
    BLOCKS: u64, 16;
    /// Offset in the pack
    OFFSET: u32, 24;
    /// Bytes in the pack
    STORED: u32, 28;
    /// BLAKE3 hash of the bytes in the pack, of a piece in frames that of the root of their tree
    HASH: u8, 32, HASH_BYTES;
    /// BLAKE3 hash of the BLAKE3 hashes of the blocks of `TAKEN`, ascending, or of their tree of frames
    CONTENT: u8, 64, HASH_BYTES;
    /// 0: the bytes are as they are; 1: zstd; 2, 3, 4: frames of 4, 8, 16 blocks
    CODEC: u16, 96;
    /// Zero
    RESERVED: u16, 98, 3;
}

layout! {
    /// The beginning of a frame of a piece. Its neighbours follow, and then its stored bytes.
    frame, 32;
    /// BLAKE3 hash of the BLAKE3 hashes of its blocks, ascending
    CONTENT: u8, 0, HASH_BYTES;
}

layout! {
    /// A node beside a frame, or beside a node above it, in the tree of its piece.
    neighbour, 64;
    /// Of a frame the BLAKE3 hash of its stored bytes, of another node that of the four hashes of both below
    HASH: u8, 0, HASH_BYTES;
    /// Of a frame its `CONTENT`, of another node the BLAKE3 hash of those of both below
    CONTENT: u8, 32, HASH_BYTES;
}

layout! {
    /// A piece, as the footer of its pack has it. Pages are in no footer.
    pack_entry, 64;
    /// Byte position of the window on the volume
    POSITION: u64, 0;
    /// Bit i: the piece has block i of the window
    BLOCKS: u64, 8;
    /// Offset in the pack
    OFFSET: u32, 16;
    /// Bytes in the pack
    STORED: u32, 20;
    /// As that of a piece
    HASH: u8, 24, HASH_BYTES;
    /// As that of a piece
    CODEC: u16, 56;
    /// Zero
    RESERVED: u16, 58, 3;
}

layout! {
    /// The last bytes of a pack, and of its footer.
    pack_end, 72;
    /// `LanePack`
    MAGIC: u64, 0;
    /// Version of the publication format
    VERSION: u32, 8;
    /// Number of entries
    COUNT: u32, 12;
    /// Number of digests
    DIGESTS: u32, 16;
    /// Bytes of the footer: entries, digests, sizes of frames and this end
    FOOTER: u32, 20;
    /// BLAKE3 hash of the bytes before the footer
    CONTENT: u8, 24, HASH_BYTES;
    /// `UUID` of the volume
    UUID: u8, 56, 16;
}

layout! {
    /// The list of condemned objects. The hashes of its versions follow, and those of its packs.
    condemned, 96;
    /// `LaneGone`
    MAGIC: u64, 0;
    /// Version of the publication format
    VERSION: u32, 8;
    /// 0: the objects are deleted; 1: they wait; 2: they are being deleted
    STATE: u32, 12;
    /// Number of the list: each one is greater than those before
    SEQUENCE: u64, 16;
    /// Time at which the objects were condemned, in seconds since 1970 by the store's clock
    SINCE: i64, 24;
    /// Grace period in seconds
    GRACE: u64, 32;
    /// Number of versions
    VERSIONS: u32, 40;
    /// Number of packs
    PACKS: u32, 44;
    /// Random number of the prune that wrote the list
    WRITER: u8, 48, 16;
    /// BLAKE3 hash of the 64 bytes before and all hashes after
    CHECK: u8, 64, HASH_BYTES;
}

/// Bytes of the structures of [`UNBOUND`] that are shorter: they end before `CONTENT` and `CODEC`.
pub(crate) const UNBOUND_PIECE_BYTES: usize = piece_ref::CONTENT.offset;
pub(crate) const UNBOUND_ENTRY: usize = pack_entry::CODEC.offset;

/// Bytes of a reference to a piece by the version of the format.
pub(crate) fn size_of_piece(version: u32) -> usize {
    if version == UNBOUND { UNBOUND_PIECE_BYTES } else { piece_ref::SIZE }
}

/// Bytes of an entry of a pack by the version of the format.
pub(crate) fn size_of_entry(version: u32) -> usize {
    if version == UNBOUND { UNBOUND_ENTRY } else { pack_entry::SIZE }
}

/// All structures, for the document.
pub const STRUCTURES: &[Layout] = &[
    tag::LAYOUT,
    root::LAYOUT,
    join::LAYOUT,
    shard::LAYOUT,
    pack_name::LAYOUT,
    page_ref::LAYOUT,
    range::LAYOUT,
    page::LAYOUT,
    piece_ref::LAYOUT,
    frame::LAYOUT,
    neighbour::LAYOUT,
    pack_entry::LAYOUT,
    pack_end::LAYOUT,
    condemned::LAYOUT,
];
