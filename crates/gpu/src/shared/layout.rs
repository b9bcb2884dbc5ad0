//! Constants that the host and the kernels share. `shaders/layout.glsl` is generated from the declarations
//! of the format, and a test proves that it is up to date.

use super::limits::{
    CACHE_HOMES, COMPONENT_FUEL, COPY_FUEL, DIR_HOMES, FUEL_SOFTWARE, MAX_DEPTH, MAX_PATH_BYTES, WORKGROUP,
};
use lanefs::Column;
use lanefs::format::dir::{self, Slot, entry, index, leaf, tree};
use lanefs::format::{
    BLOCK, BlockKind, BlockSize, CHUNK, Code, DirRoot, FileKind, INODE_ACCESS_ACL, INODE_INLINE, InodeSize,
    MAX_MAP_DEPTH, MAX_NAME, MAX_SYMLINKS_FOLLOWED, POINTERS_PER_BLOCK, Pointer, UNIT, inode,
};
use std::fmt::Write;

/// Longest name that the directory cache takes, in bytes and in words.
pub(crate) const CACHED_NAME_BYTES: usize = 24;
pub(crate) const CACHED_NAME_WORDS: usize = CACHED_NAME_BYTES / 4;

/// Words of a bucket of the directory cache. Its first sector of 32 bytes has for each of the two slots a
/// tag, the number and the version of the leaf block, and the last claim. A sector for each slot follows: a
/// packed quad (inode number, upper part of the directory's number, type, length of the name) and the name.
pub(crate) const CACHE_TAGS: usize = 0;
pub(crate) const CACHE_BLOCKS: usize = 2;
pub(crate) const CACHE_VERSIONS: usize = 4;
pub(crate) const CACHE_CLAIMS: usize = 6;
pub(crate) const CACHE_SLOTS: usize = 8;
pub(crate) const CACHE_SLOT_WORDS: usize = 2 + CACHED_NAME_WORDS;
pub(crate) const CACHE_BUCKET_WORDS: usize = CACHE_SLOTS + 2 * CACHE_SLOT_WORDS;

/// Overflow bit of a bucket, in the claim of its second slot: names went from there to a further home. Above
/// it a claim has the number of the dispatch, below it bits of the tag.
pub(crate) const CACHE_OVERFLOW: u32 = 1 << 19;

/// Bits by which the hash that leads to a home is turned for the next one: an odd number, so that each of 32
/// homes is turned by other bits.
pub(crate) const HOME_BITS: usize = 5;

/// Lowest bits of the fields of a slot's packed quad: directory, type (without its lowest bit, which no
/// type has), length.
pub(crate) const CACHE_DIR_SHIFT: usize = 44;
pub(crate) const CACHE_KIND_SHIFT: usize = 56;
pub(crate) const CACHE_LENGTH_SHIFT: usize = 59;

/// Bound of the inode numbers that the directory cache takes.
pub(crate) const CACHED_INO: u64 = 1 << CACHE_DIR_SHIFT;

/// Words of a bucket of the directory-path table: two slots of 16 bytes, each with the hash of the path, the
/// epoch, the last claim, and the unit of the record with the length of the path below it.
pub(crate) const DIR_HASH: usize = 0;
pub(crate) const DIR_EPOCH: usize = 1;
pub(crate) const DIR_CLAIM: usize = 2;
pub(crate) const DIR_WHERE: usize = 3;
pub(crate) const DIR_SLOT_WORDS: usize = 4;
pub(crate) const DIR_BUCKET_WORDS: usize = 2 * DIR_SLOT_WORDS;

/// Words of a record before the path (inode number, start), and of a unit of records: a sector.
pub(crate) const DIR_HEADER_WORDS: usize = 4;
pub(crate) const DIR_UNIT_WORDS: usize = 8;

/// Bits of a path's length in a slot; the longest path that is kept, in bytes.
pub(crate) const DIR_LENGTH_BITS: usize = 10;
pub(crate) const DIR_PATH_MAX: usize = 1008;

/// Lists that kernels fill for later kernels, by the index of their header.
pub(crate) const WALKS: usize = 0;
pub(crate) const FILLS: usize = 1;
pub(crate) const LEARNS: usize = 2;

/// State of an unfinished lookup: the lowest bit of the links followed, and flags. Slashes follow the
/// remaining text; an entry, or the host, has said that the directory is one; the walk began at the start of
/// the path and has met nothing but directories.
pub(crate) const STATE_FOLLOWED_SHIFT: usize = 8;
pub(crate) const STATE_HAS_SLASH: u32 = 1 << 16;
pub(crate) const STATE_IS_KNOWN: u32 = 1 << 17;
pub(crate) const STATE_IS_PLAIN: u32 = 1 << 18;

/// An answer as the host gets it: the code, and from a bit on the type and the inode number.
pub(crate) const ANSWER_KIND_SHIFT: u32 = 8;
pub(crate) const ANSWER_INO_SHIFT: u32 = 12;

/// Bytes in front of the answers as the host gets them.
pub(crate) const HOST_HEADER_BYTES: usize = 16;

/// Lowest bit of the depth in a request to `leaves`.
pub(crate) const LEAF_DEPTH_SHIFT: u32 = 56;

/// Bits of a pointer that are not its position, and bits of a pointer's slot in its block.
pub(crate) const POINTER_TAGS: u64 = 0x7f;
pub(crate) const POINTER_SLOT_BITS: u32 = POINTERS_PER_BLOCK.trailing_zeros();

/// Flags of a record of a search: the entry fulfils all conditions; the host must decide about its
/// attributes; the host must search the leaf block.
pub(crate) const ENTRY_MATCHES: u64 = 1;
pub(crate) const ENTRY_UNDECIDED: u64 = 2;
pub(crate) const LEAF_UNDECIDED: u64 = 4;

/// Flags of a search: it has conditions on attributes; it gives all directories, whatever the conditions.
pub(crate) const WANTS_ATTRIBUTES: u32 = 1;
pub(crate) const WANTS_DIRECTORIES: u32 = 2;

/// Tags of a pointer to a block of pointers, and of one to a block of 4 KiB.
pub(crate) const POINTER_INDIRECT: u64 = Pointer::indirect(0).word();
pub(crate) const POINTER_BLOCK: u64 = Pointer::data(0, BlockSize::Small).word();

/// Code of a lookup that another dispatch must resume.
pub(crate) const UNFINISHED: u32 = 255;

/// Machines of a search in texts, each of 64 states.
pub(crate) const MACHINES: usize = 4;

/// A text on the device: words of 16 bytes, of which as many make a strip as a result has bits, and strips
/// that lie woven into one another, word by word.
pub(crate) const TEXT_WORD: usize = 16;
pub(crate) const STRIP_WORDS: usize = u32::BITS as usize;
pub(crate) const WOVEN_STRIPS: usize = 32;

/// A portion of a text that is hashed, which BLAKE3 calls a chunk: a strip of 64 words, in bytes too.
pub(crate) const PORTION_WORDS: usize = 64;
pub(crate) const PORTION: usize = PORTION_WORDS * TEXT_WORD;

/// Flag of a portion, and of a pair of chaining values, whose value is the hash of the text.
pub(crate) const IS_ROOT: u32 = 1 << 16;

/// Words after a strip in which a match that begins in the strip is followed. A longer one counts as found.
pub(crate) const RUN_ON_WORDS: usize = 16;

/// Letters of all fuzzy terms of a query, each of which has a row.
pub(crate) const MAX_ROWS: usize = 32;

/// Paths on the device: a bundle of paths lies woven, word by word. Longer paths are left to the host; in
/// place of the length of a path that is left to it stands `PATH_UNDECIDED`.
pub(crate) const BUNDLE_PATHS: usize = 32;
pub(crate) const MAX_RANKED_PATH: usize = 1024;
pub(crate) const PATH_UNDECIDED: u32 = u32::MAX;

/// Score of a path that is left to the host. One that does not match has 0.
pub(crate) const SCORE_UNDECIDED: u32 = u32::MAX;

/// Paths of an invocation that counts or lists scores, and buckets of the count: one for each score, and
/// more.
pub(crate) const STRIDE_PATHS: usize = u32::BITS as usize;
pub(crate) const SCORE_BUCKETS: usize = 1152;

/// Scores of the crate `nucleo-matcher` for paths: of a letter that matches, the factor for the bonus of a
/// term's first letter, the cost of a gap's first character (each further one costs 1), the least bonus of a
/// letter after another match without a gap, the bonus at the beginning of a word, and the greatest one.
pub(crate) const SCORE_MATCH: u32 = 16;
pub(crate) const SCORE_FIRST: u32 = 2;
pub(crate) const GAP_START: u32 = 3;
pub(crate) const CONSECUTIVE: u32 = 4;
pub(crate) const BOUNDARY: u32 = 8;
pub(crate) const MAX_BONUS: u32 = BOUNDARY + 1;

/// A character of a path for `score`: its rows, then its bonus for each class of the character before it, its
/// own class on top. Before the first character counts the class of a slash.
pub(crate) const BONUS_BITS: u32 = 4;
pub(crate) const CLASS_SHIFT: u32 = 60;
pub(crate) const CLASS_SLASH: u32 = 2;

/// A cell of `score`: the bonus of a run, the score, and the potential from a bit on.
pub(crate) const CELL_RUN_BITS: u32 = 4;
pub(crate) const CELL_SCORE_BITS: u32 = 10;
pub(crate) const CELL_MOST_SHIFT: u32 = CELL_RUN_BITS + CELL_SCORE_BITS;

/// Forms of a directory's root that name one region.
pub(crate) const FORM_SMALL: u64 = DirRoot::Small(BLOCK).word() % BLOCK;
pub(crate) const FORM_REGION: u64 = DirRoot::Region(BLOCK).word() % BLOCK;

/// Type bits of a mode, and two types.
pub(crate) const MODE_TYPE: u16 = 0o170_000;
pub(crate) const MODE_DIRECTORY: u16 = 0o040_000;
pub(crate) const MODE_SYMLINK: u16 = 0o120_000;

/// Returns the text of `shaders/layout.glsl`.
pub(crate) fn glsl() -> String {
    let mut text = String::from(
        "// Written from the declarations of the format (UPDATE_SHADERS=1 cargo test -p lanefs-gpu shaders::).\n\n",
    );
    for (name, value) in quads() {
        let _ = writeln!(text, "const uint64_t {name} = {value}UL;");
    }
    for (name, value) in words() {
        let _ = writeln!(text, "const uint {name} = {value}u;");
    }
    text
}

/// Returns the constants of 8 bytes.
pub(crate) fn quads() -> [(&'static str, u64); 7] {
    [
        ("BLOCK", BLOCK),
        ("CHUNK", CHUNK),
        ("UNIT", UNIT),
        ("POINTER_INDIRECT", POINTER_INDIRECT),
        ("POINTER_BLOCK", POINTER_BLOCK),
        ("POINTER_TAGS", POINTER_TAGS),
        ("CACHED_INO", CACHED_INO),
    ]
}

/// Returns the constants of 4 bytes.
pub(crate) fn words() -> Vec<(String, usize)> {
    let form = |root: DirRoot| root.word() % BLOCK;
    let words = [
        ("MAX_NAME", MAX_NAME),
        ("MAX_PATH_BYTES", MAX_PATH_BYTES),
        ("MAX_DEPTH", MAX_DEPTH),
        ("MAX_FOLLOWED", MAX_SYMLINKS_FOLLOWED as usize),
        ("COMPONENT_FUEL", COMPONENT_FUEL as usize),
        ("MAX_MAP_DEPTH", MAX_MAP_DEPTH.into()),
        ("MAX_TREE_LEVEL", dir::MAX_TREE_LEVEL.into()),
        ("TREE_MAX", dir::TREE_MAX),
        ("REGION_MAX", dir::REGION_MAX),
        ("BUCKETS", dir::BUCKETS),
        ("BUCKET_SLOTS", dir::BUCKET_SLOTS),
        ("SLOT_SHIFT", Slot::SHIFT as usize),
        ("SLOT_OVERFLOW", Slot::OVERFLOW as usize),
        ("ROOT_LEVEL_SHIFT", DirRoot::LEVEL_SHIFT as usize),
        ("ROOT_COUNT_SHIFT", DirRoot::COUNT_SHIFT as usize),
        ("MODE_TYPE", MODE_TYPE.into()),
        ("MODE_DIRECTORY", MODE_DIRECTORY.into()),
        ("MODE_SYMLINK", MODE_SYMLINK.into()),
        ("INODE_SIZE", inode::SIZE),
        ("INODE_INLINE", INODE_INLINE.into()),
        ("INODE_ACCESS_ACL", INODE_ACCESS_ACL.into()),
        ("INODE_LINKS", inode::LINKS.offset),
        ("INODE_UID", inode::UID.offset),
        ("INODE_GID", inode::GID.offset),
        ("INODE_BYTES", inode::BYTES.offset),
        ("INODE_MTIME", inode::MTIME.offset),
        ("INODE_CTIME", inode::CTIME.offset),
        ("INODE_ATIME", inode::ATIME.offset),
        ("INODE_BTIME", inode::BTIME.offset),
        ("INODE_GENERATION", inode::GENERATION.offset),
        ("INODE_BLOCKS", inode::BLOCKS.offset),
        ("INODE_PARENT_OR_DEVICE", inode::PARENT_OR_DEVICE.offset),
        ("ANSWER_KIND_SHIFT", ANSWER_KIND_SHIFT as usize),
        ("ANSWER_INO_SHIFT", ANSWER_INO_SHIFT as usize),
        ("HOST_HEADER_BYTES", HOST_HEADER_BYTES),
        ("COLUMN_MODE", Column::Mode as usize),
        ("COLUMN_LINKS", Column::Links as usize),
        ("COLUMN_UID", Column::Uid as usize),
        ("COLUMN_GID", Column::Gid as usize),
        ("COLUMN_SIZE", Column::Size as usize),
        ("COLUMN_BLOCKS", Column::Blocks as usize),
        ("COLUMN_RDEV", Column::Rdev as usize),
        ("COLUMN_MTIME", Column::Mtime as usize),
        ("COLUMN_CTIME", Column::Ctime as usize),
        ("COLUMN_ATIME", Column::Atime as usize),
        ("COLUMN_BTIME", Column::Btime as usize),
        ("COLUMN_GENERATION", Column::Generation as usize),
        ("LEAF_SIZE", leaf::SIZE),
        ("LEAF_OWNER", leaf::OWNER.offset),
        ("LEAF_NUMBER", leaf::NUMBER.offset),
        ("LEAF_UNITS", leaf::UNITS.offset),
        ("ENTRY_SIZE", entry::SIZE),
        ("ENTRY_INODE", entry::INODE.offset),
        ("ENTRY_HASH", entry::HASH.offset),
        ("INDEX_DUMMY", index::DUMMY.offset),
        ("INDEX_UNINDEXED", index::UNINDEXED.offset),
        ("INDEX_SLOTS", index::SLOTS.offset),
        ("TREE_HASHES", tree::HASHES.offset),
        ("TREE_POSITIONS", tree::POSITIONS.offset),
        ("ENTRY_NEXT", entry::NEXT.offset),
        ("ENTRY_PREVIOUS", entry::PREVIOUS.offset),
        ("POINTER_SLOT_BITS", POINTER_SLOT_BITS as usize),
        ("LEAF_DEPTH_SHIFT", LEAF_DEPTH_SHIFT as usize),
        ("CACHED_NAME_BYTES", CACHED_NAME_BYTES),
        ("CACHED_NAME_WORDS", CACHED_NAME_WORDS),
        ("CACHE_TAGS", CACHE_TAGS),
        ("CACHE_BLOCKS", CACHE_BLOCKS),
        ("CACHE_VERSIONS", CACHE_VERSIONS),
        ("CACHE_CLAIMS", CACHE_CLAIMS),
        ("CACHE_SLOTS", CACHE_SLOTS),
        ("CACHE_SLOT_WORDS", CACHE_SLOT_WORDS),
        ("CACHE_BUCKET_WORDS", CACHE_BUCKET_WORDS),
        ("CACHE_OVERFLOW", CACHE_OVERFLOW as usize),
        ("CACHE_HOMES", CACHE_HOMES),
        ("HOME_BITS", HOME_BITS),
        ("CACHE_DIR_SHIFT", CACHE_DIR_SHIFT),
        ("CACHE_KIND_SHIFT", CACHE_KIND_SHIFT),
        ("CACHE_LENGTH_SHIFT", CACHE_LENGTH_SHIFT),
        ("DIR_HASH", DIR_HASH),
        ("DIR_EPOCH", DIR_EPOCH),
        ("DIR_CLAIM", DIR_CLAIM),
        ("DIR_WHERE", DIR_WHERE),
        ("DIR_SLOT_WORDS", DIR_SLOT_WORDS),
        ("DIR_BUCKET_WORDS", DIR_BUCKET_WORDS),
        ("DIR_HOMES", DIR_HOMES),
        ("DIR_HEADER_WORDS", DIR_HEADER_WORDS),
        ("DIR_UNIT_WORDS", DIR_UNIT_WORDS),
        ("DIR_LENGTH_BITS", DIR_LENGTH_BITS),
        ("DIR_PATH_MAX", DIR_PATH_MAX),
        ("WALKS", WALKS),
        ("FILLS", FILLS),
        ("LEARNS", LEARNS),
        ("STATE_FOLLOWED_SHIFT", STATE_FOLLOWED_SHIFT),
        ("STATE_HAS_SLASH", STATE_HAS_SLASH as usize),
        ("STATE_IS_KNOWN", STATE_IS_KNOWN as usize),
        ("STATE_IS_PLAIN", STATE_IS_PLAIN as usize),
        ("COPY_FUEL", COPY_FUEL as usize),
        ("STRIP_WORDS", STRIP_WORDS),
        ("WOVEN_STRIPS", WOVEN_STRIPS),
        ("RUN_ON_WORDS", RUN_ON_WORDS),
        ("PORTION_WORDS", PORTION_WORDS),
        ("IS_ROOT", IS_ROOT as usize),
        ("ENTRY_MATCHES", ENTRY_MATCHES as usize),
        ("ENTRY_UNDECIDED", ENTRY_UNDECIDED as usize),
        ("LEAF_UNDECIDED", LEAF_UNDECIDED as usize),
        ("WANTS_ATTRIBUTES", WANTS_ATTRIBUTES as usize),
        ("WANTS_DIRECTORIES", WANTS_DIRECTORIES as usize),
        ("BLOCK_LEAF", BlockKind::Leaf as usize),
        ("BLOCK_INDEX", BlockKind::Index as usize),
        ("BLOCK_TREE", BlockKind::Tree as usize),
        ("FORM_SMALL", FORM_SMALL as usize),
        ("FORM_REGION", FORM_REGION as usize),
        ("FORM_TREE", form(DirRoot::Tree(BLOCK)) as usize),
        ("MAX_ROWS", MAX_ROWS),
        ("BUNDLE_PATHS", BUNDLE_PATHS),
        ("MAX_RANKED_PATH", MAX_RANKED_PATH),
        ("SCORE_UNDECIDED", SCORE_UNDECIDED as usize),
        ("STRIDE_PATHS", STRIDE_PATHS),
        ("SCORE_BUCKETS", SCORE_BUCKETS),
        ("SCORE_MATCH", SCORE_MATCH as usize),
        ("SCORE_FIRST", SCORE_FIRST as usize),
        ("GAP_START", GAP_START as usize),
        ("CONSECUTIVE", CONSECUTIVE as usize),
        ("BOUNDARY", BOUNDARY as usize),
        ("BONUS_BITS", BONUS_BITS as usize),
        ("CLASS_SHIFT", CLASS_SHIFT as usize),
        ("CLASS_SLASH", CLASS_SLASH as usize),
        ("CELL_RUN_BITS", CELL_RUN_BITS as usize),
        ("CELL_SCORE_BITS", CELL_SCORE_BITS as usize),
        ("CELL_MOST_SHIFT", CELL_MOST_SHIFT as usize),
    ];
    let sizes = [(InodeSize::B128, 128), (InodeSize::B256, 256)].into_iter().flat_map(|(size, bytes)| {
        [
            (format!("DIR_ROOT_{bytes}"), size.dir_root().offset),
            (format!("SMALL_TAGS_{bytes}"), size.small_tags()),
            (format!("SMALL_ENTRIES_{bytes}"), size.small_entries()),
        ]
    });
    let kinds = [
        ("FIFO", FileKind::Fifo),
        ("CHAR_DEVICE", FileKind::CharDevice),
        ("DIRECTORY", FileKind::Directory),
        ("BLOCK_DEVICE", FileKind::BlockDevice),
        ("FILE", FileKind::File),
        ("SYMLINK", FileKind::Symlink),
        ("SOCKET", FileKind::Socket),
    ];
    let kinds = kinds.into_iter().map(|(name, kind)| (format!("KIND_{name}"), kind as usize));
    let codes = [
        ("SUCCESS", Code::Success),
        ("NOT_FOUND", Code::NotFound),
        ("COMPONENT_NOT_FOUND", Code::ComponentNotFound),
        ("NOT_DIRECTORY", Code::NotDirectory),
        ("NOT_RESIDENT", Code::NotResident),
        ("ACCESS_DENIED", Code::AccessDenied),
        ("SYMLINK_LOOP", Code::SymlinkLoop),
    ];
    let codes = codes.into_iter().map(|(name, code)| (format!("CODE_{name}"), usize::from(code.number())));
    let codes = codes.chain([("CODE_UNFINISHED".to_string(), UNFINISHED as usize)]);
    let words = words.into_iter().map(|(name, value)| (name.to_string(), value));
    words.chain(sizes).chain(kinds).chain(codes).collect()
}

// A code is a byte of an unfinished lookup's state, and none is `UNFINISHED`.
const _: () = assert!(Code::ALL.len() <= UNFINISHED as usize && UNFINISHED < 256);

// A bucket of the cache has three sectors: one with all that is needed to choose a slot, in two vectors of
// four words, and one for each slot.
const _: () = {
    const SECTOR: usize = 8;
    assert!(CACHE_SLOTS == SECTOR && CACHE_SLOT_WORDS == SECTOR && CACHE_BUCKET_WORDS == 3 * SECTOR);
    assert!(CACHE_TAGS / 4 == CACHE_BLOCKS / 4 && CACHE_VERSIONS / 4 == CACHE_CLAIMS / 4);
    assert!(CACHED_NAME_WORDS == 6, "the kernel compares six words");
    assert!(CACHED_NAME_BYTES < 1 << (64 - CACHE_LENGTH_SHIFT) && CACHE_DIR_SHIFT + 12 == CACHE_KIND_SHIFT);
    assert!(CACHE_KIND_SHIFT + 3 == CACHE_LENGTH_SHIFT, "a type has three bits without its lowest one");
};

// The kernel reads slots and records 16 bytes at a time; a slot has room for the length of any path kept.
const _: () = {
    assert!(DIR_SLOT_WORDS == 4 && DIR_HEADER_WORDS == 4 && DIR_UNIT_WORDS.is_multiple_of(4));
    assert!(DIR_PATH_MAX < 1 << DIR_LENGTH_BITS && DIR_PATH_MAX.is_multiple_of(16));
};

// A match is followed into the next strip, and no further; the kernel reads a word as four words of 4 bytes.
const _: () = assert!(RUN_ON_WORDS < STRIP_WORDS && TEXT_WORD == 16);

// A strip of a text, with the words after it: a round for each word, and one for each quarter of it.
const _: () = assert!((STRIP_WORDS + RUN_ON_WORDS) * 5 < FUEL_SOFTWARE as usize);

// A portion: a round for each block of four words. Its flag is above its length.
const _: () = assert!(PORTION_WORDS / 4 < FUEL_SOFTWARE as usize && PORTION < IS_ROOT as usize);

// An answer has a bit for each code and type, and an attribute has a bit of `Parameters::wanted`.
const _: () = {
    assert!(Code::ALL.len() <= 1 << ANSWER_KIND_SHIFT && ANSWER_INO_SHIFT - ANSWER_KIND_SHIFT == 4);
    assert!(Column::ALL.len() <= u32::BITS as usize);
};

// The flags of an unfinished lookup are above its code and the number of links.
const _: () = assert!(STATE_HAS_SLASH == 1 << (STATE_FOLLOWED_SHIFT + 8));

// The bits of a pointer that are not its position are below a block; a request to `leaves` has room for any
// block of a map.
const _: () = {
    assert!(POINTER_TAGS < BLOCK && POINTER_INDIRECT <= POINTER_TAGS && POINTER_BLOCK <= POINTER_TAGS);
    assert!(POINTER_SLOT_BITS * (MAX_MAP_DEPTH as u32) < LEAF_DEPTH_SHIFT);
};

// A cell has room for the best score of a term and its potential; each sum of scores has a bucket; each gap
// costs what it is long and a little more.
const _: () = {
    const FIRST: u32 = SCORE_MATCH + SCORE_FIRST * MAX_BONUS;
    const MOST_SCORE: u32 = FIRST + (SCORE_MATCH + MAX_BONUS) * (MAX_ROWS as u32 - 1);
    assert!(MAX_BONUS < 1 << CELL_RUN_BITS && MOST_SCORE < 1 << CELL_SCORE_BITS && GAP_START >= 2);
    assert!(MOST_SCORE as u64 + (MAX_RANKED_PATH as u64) < 1 << (u32::BITS - CELL_MOST_SHIFT));
    assert!((FIRST as usize) * MAX_ROWS < SCORE_BUCKETS);
    assert!(PATH_UNDECIDED as usize > MAX_RANKED_PATH && SCORE_UNDECIDED as usize > SCORE_BUCKETS);
    assert!(BUNDLE_PATHS == 32 && STRIDE_PATHS == 32 && MAX_RANKED_PATH.is_multiple_of(TEXT_WORD));
};

// The paths of an invocation of `tally` or `best`, and the buckets of the smallest workgroup; a path of the
// greatest length has fuel left for letters that match. The cells of a workgroup fit into shared memory.
const _: () = {
    assert!(STRIDE_PATHS * 2 + 2 * SCORE_BUCKETS < FUEL_SOFTWARE as usize);
    assert!(2 * MAX_RANKED_PATH + MAX_ROWS < FUEL_SOFTWARE as usize);
    assert!(MAX_ROWS * 4 * WORKGROUP as usize <= 16_384 && SCORE_BUCKETS * 4 <= 16_384);
};
