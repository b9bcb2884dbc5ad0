//! Structures of the memory that the host exports, and the constants of `include/lanefs_device.h`: a header
//! for kernels of other programs, in CUDA C++, HIP and C++. A test compares the header with them.

use super::layout::{self, ANSWER_INO_SHIFT};
use super::limits::{FUEL, MAX_DISPATCHES};
use super::query::LookupQuery;
use super::structures::Field;
use super::structures::declare::structures;
use lanefs::format::{
    BLOCK, BlockSize, CHUNK, Code, INODE_DEPTH_MASK, INODE_DEPTH_SHIFT, INODE_EXTENTS_SHIFT, Pointer,
    UNITS_PER_LEAF, extent, inode,
};
use std::fmt::Write;

/// Words with which an exported mirror and a device file table begin, and the version of both.
pub(crate) const MIRROR_MAGIC: u64 = u64::from_le_bytes(*b"LANEFSMI");
pub(crate) const FILES_MAGIC: u64 = u64::from_le_bytes(*b"LANEFSFI");
pub(crate) const DEVICE_VERSION: u32 = 1;

/// Parts of an exported mirror begin at a multiple of this.
const PLACE_BYTES: u64 = 256;

/// State of a slot whose file is there; above it a code says why not, and below it the file was missed.
pub(crate) const FILE_PRESENT: u32 = 1;

/// Bit of a state beside the others: a kernel has listed the inode number as missed, for its mirror has
/// another generation of the inode.
pub(crate) const FILE_NOTED: u32 = 1 << 31;

structures! {
    /// Head of an exported mirror. Offsets count from its first byte.
    record MirrorHeader {
        /// `MIRROR_MAGIC`.
        magic: u64,
        /// `DEVICE_VERSION`.
        version: u32,
        /// Bytes of an inode.
        inode_size: u32,
        /// Bytes of all.
        bytes: u64,
        /// The mirror generation.
        generation: u64,
        /// Inode number of the root directory.
        root: u64,
        /// Bytes of the volume.
        volume_bytes: u64,
        /// Chunks of the volume.
        chunk_count: u64,
        /// Offset of the table: the offset of the copy of each chunk, 0 for a chunk without one.
        table: u64,
        /// Offset of the directory cache.
        cache: u64,
        /// Offset of the versions of blocks.
        versions: u64,
        /// Offset of the directory-path table.
        dir_table: u64,
        /// Offset of its records.
        dir_records: u64,
        /// Buckets of the directory cache; 0 without one.
        buckets: u32,
        /// Versions.
        version_count: u32,
        /// Buckets of the directory-path table; 0 without one.
        dir_buckets: u32,
        /// Units of 32 bytes of its records.
        dir_units: u32,
        /// Epoch of its entries that count.
        epoch: u32,
        /// Unused.
        spare: u32,
        /// Seed of the volume's hashes.
        seed: [u32; 4],
    }

    /// Head of a device file table. Offsets count from its first byte.
    record FilesHeader {
        /// `FILES_MAGIC`.
        magic: u64,
        /// `DEVICE_VERSION`.
        version: u32,
        /// Slots of the table, a power of two.
        slots: u32,
        /// Bytes of all.
        bytes: u64,
        /// Offset of the slots.
        table: u64,
        /// Offset of the contents of files.
        data: u64,
        /// Bytes of these.
        data_bytes: u64,
        /// Offset of the inode numbers of the files that were missed.
        misses: u64,
        /// Slots that a lookup looks at, at most.
        probes: u32,
        /// Room for inode numbers of missed files.
        miss_room: u32,
        /// Files that were missed; those beyond the room are not listed.
        miss_count: u32,
        /// Unused.
        spare: u32,
    }

    /// A file of the table.
    record FileSlot {
        /// Inode number; 0 in a free slot.
        ino: u64,
        /// First byte among the contents.
        start: u64,
        /// Bytes of the file.
        bytes: u64,
        /// Generation of the inode; 0 where it is unknown, of a file that cannot be read.
        generation: u32,
        /// 0 for a file that was missed; `FILE_PRESENT`, and above it the code of a file that cannot be read;
        /// and the bit `FILE_NOTED`.
        state: u32,
    }
}

/// Constants of the shaders that the header has, too.
const SHARED: &[&str] = &[
    "MAX_NAME",
    "MAX_PATH_BYTES",
    "MAX_DEPTH",
    "MAX_FOLLOWED",
    "COMPONENT_FUEL",
    "MAX_MAP_DEPTH",
    "MAX_TREE_LEVEL",
    "TREE_MAX",
    "REGION_MAX",
    "BUCKETS",
    "BUCKET_SLOTS",
    "SLOT_SHIFT",
    "SLOT_OVERFLOW",
    "ROOT_LEVEL_SHIFT",
    "ROOT_COUNT_SHIFT",
    "MODE_TYPE",
    "MODE_DIRECTORY",
    "MODE_SYMLINK",
    "INODE_SIZE",
    "INODE_INLINE",
    "INODE_LINKS",
    "INODE_UID",
    "INODE_GID",
    "INODE_BYTES",
    "INODE_MTIME",
    "INODE_CTIME",
    "INODE_ATIME",
    "INODE_BTIME",
    "INODE_GENERATION",
    "INODE_BLOCKS",
    "INODE_PARENT_OR_DEVICE",
    "LEAF_SIZE",
    "LEAF_OWNER",
    "LEAF_NUMBER",
    "LEAF_UNITS",
    "ENTRY_SIZE",
    "ENTRY_INODE",
    "ENTRY_HASH",
    "INDEX_SLOTS",
    "TREE_HASHES",
    "TREE_POSITIONS",
    "POINTER_SLOT_BITS",
    "CACHED_NAME_BYTES",
    "CACHED_NAME_WORDS",
    "CACHE_TAGS",
    "CACHE_BLOCKS",
    "CACHE_VERSIONS",
    "CACHE_CLAIMS",
    "CACHE_SLOTS",
    "CACHE_SLOT_WORDS",
    "CACHE_BUCKET_WORDS",
    "CACHE_OVERFLOW",
    "CACHE_HOMES",
    "HOME_BITS",
    "CACHE_DIR_SHIFT",
    "CACHE_KIND_SHIFT",
    "CACHE_LENGTH_SHIFT",
    "DIR_HASH",
    "DIR_EPOCH",
    "DIR_WHERE",
    "DIR_SLOT_WORDS",
    "DIR_BUCKET_WORDS",
    "DIR_HOMES",
    "DIR_HEADER_WORDS",
    "DIR_UNIT_WORDS",
    "DIR_LENGTH_BITS",
    "DIR_PATH_MAX",
    "BLOCK_LEAF",
    "BLOCK_TREE",
    "FORM_SMALL",
    "FORM_REGION",
    "FORM_TREE",
    "DIR_ROOT_128",
    "SMALL_TAGS_128",
    "SMALL_ENTRIES_128",
    "DIR_ROOT_256",
    "SMALL_TAGS_256",
    "SMALL_ENTRIES_256",
];

/// Returns the generated part of the header.
pub(crate) fn device_constants() -> String {
    let mut text =
        String::from("// Results, by the numbers of docs/format.md.\nenum lanefs_code : uint32_t {\n");
    for code in Code::ALL {
        let _ = writeln!(text, "    LANEFS_{} = {},", upper(&format!("{code:?}")), code.number());
    }
    text += "};\n\n// Types of files.\nenum lanefs_kind : uint32_t {\n";
    let words = layout::words();
    for (name, value) in words.iter().filter(|(name, _)| name.starts_with("KIND_")) {
        let _ = writeln!(text, "    LANEFS_{name} = {value},");
    }
    text += "};\n\nnamespace lanefs_detail {\n";
    let unwritten =
        Pointer { unwritten: true, ..Pointer::data(0, BlockSize::Small) }.word() & !layout::POINTER_BLOCK;
    let quads = layout::quads().into_iter().chain([
        ("POINTER_UNWRITTEN", unwritten),
        ("POINTER_MEDIUM", Pointer::data(0, BlockSize::Medium).word()),
        ("POINTER_LARGE", Pointer::data(0, BlockSize::Large).word()),
        ("MIRROR_MAGIC", MIRROR_MAGIC),
        ("FILES_MAGIC", FILES_MAGIC),
    ]);
    for (name, value) in quads {
        let _ = writeln!(text, "constexpr uint64_t L_{name} = {value}u;");
    }
    let is_shared = |(name, _): &(String, usize)| SHARED.contains(&name.as_str());
    let own = [
        ("FUEL", FUEL as usize),
        ("MAX_DISPATCHES", MAX_DISPATCHES),
        ("INO_BITS", 64 - ANSWER_INO_SHIFT as usize),
        ("INODE_MAP", inode::MAP.offset),
        ("INODE_DEPTH_MASK", INODE_DEPTH_MASK.into()),
        ("INODE_DEPTH_SHIFT", INODE_DEPTH_SHIFT as usize),
        ("INODE_EXTENTS_SHIFT", INODE_EXTENTS_SHIFT as usize),
        ("EXTENT_SIZE", extent::SIZE),
        ("EXTENT_POINTER", extent::POINTER.offset),
        ("EXTENT_FIRST", extent::FIRST.offset),
        ("EXTENT_BLOCKS", extent::BLOCKS.offset),
        ("LEAF_UNIT_COUNT", UNITS_PER_LEAF as usize),
        ("DEVICE_VERSION", DEVICE_VERSION as usize),
        ("FILE_PRESENT", FILE_PRESENT as usize),
        ("FILE_NOTED", FILE_NOTED as usize),
    ];
    let own = own.into_iter().map(|(name, value)| (name.to_string(), value));
    for (name, value) in words.iter().filter(|word| is_shared(word)).cloned().chain(own).chain(fields()) {
        let _ = writeln!(text, "constexpr uint32_t L_{name} = {value}u;");
    }
    text + "}  // namespace lanefs_detail\n"
}

/// Returns the offsets of the fields of the structures above.
fn fields() -> impl Iterator<Item = (String, usize)> {
    offsets().into_iter().flat_map(|(structure, size, fields)| {
        let prefix = match structure {
            "MirrorHeader" => "MIRROR",
            "FilesHeader" => "FILES",
            _ => "FILE_SLOT",
        };
        let size_name =
            if prefix == "FILE_SLOT" { format!("{prefix}_SIZE") } else { format!("{prefix}_HEADER_SIZE") };
        let skipped = |field: &str| field == "magic" || field == "spare";
        let fields = fields.into_iter().filter(move |(field, _)| !skipped(field));
        let offset = move |(field, at): (&str, usize)| (format!("{prefix}_{}", field.to_uppercase()), at);
        std::iter::once((size_name, size)).chain(fields.map(offset))
    })
}

/// Returns the name of a variant as C has it.
fn upper(name: &str) -> String {
    let mut text = String::new();
    for (i, letter) in name.chars().enumerate() {
        if letter.is_uppercase() && i > 0 {
            text.push('_');
        }
        text.push(letter.to_ascii_uppercase());
    }
    text
}

/// Sizes of the tables beside the copies of chunks in an exported mirror; all 0 without them.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct TableSizes {
    /// Buckets of the directory cache.
    pub(crate) buckets: u32,
    /// Versions of blocks.
    pub(crate) versions: u32,
    /// Buckets of the directory-path table.
    pub(crate) dir_buckets: u32,
    /// Units of its records.
    pub(crate) dir_units: u32,
    /// Its epoch.
    pub(crate) epoch: u32,
}

/// The places of everything in an exported mirror.
#[derive(Clone, Debug)]
pub(crate) struct MirrorPlan {
    pub(crate) header: MirrorHeader,
    /// Number of each chunk that has a copy, and the offset of the copy.
    pub(crate) copies: Vec<(u64, u64)>,
}

impl MirrorPlan {
    /// Lays out a mirror of the chunks with these numbers, for a volume of `volume_bytes`.
    pub(crate) fn new(
        query: &LookupQuery,
        (volume_bytes, generation): (u64, u64),
        chunks: impl Iterator<Item = u64>,
        sizes: &TableSizes,
    ) -> MirrorPlan {
        let mut end = MirrorHeader::SIZE as u64;
        let mut place = |count: u64, size: usize| {
            let at = end.next_multiple_of(PLACE_BYTES);
            end = at + count * size as u64;
            at
        };
        let chunk_count = volume_bytes.div_ceil(CHUNK).max(1);
        let header = MirrorHeader {
            magic: MIRROR_MAGIC,
            version: DEVICE_VERSION,
            inode_size: query.inode_size.bytes() as u32,
            generation,
            root: query.root,
            volume_bytes,
            chunk_count,
            table: place(chunk_count, 8),
            versions: place(sizes.versions.into(), 4),
            cache: place(sizes.buckets.into(), layout::CACHE_BUCKET_WORDS * 4),
            dir_table: place(sizes.dir_buckets.into(), layout::DIR_BUCKET_WORDS * 4),
            dir_records: place(sizes.dir_units.into(), layout::DIR_UNIT_WORDS * 4),
            buckets: sizes.buckets,
            version_count: sizes.versions,
            dir_buckets: sizes.dir_buckets,
            dir_units: sizes.dir_units,
            epoch: sizes.epoch,
            seed: query.seed.0,
            ..MirrorHeader::default()
        };
        let first = end.next_multiple_of(BLOCK);
        let copies: Vec<(u64, u64)> = chunks.zip((0..).map(|i| first + i * CHUNK)).collect();
        let bytes = first + copies.len() as u64 * CHUNK;
        MirrorPlan { header: MirrorHeader { bytes, ..header }, copies }
    }

    /// Returns the bytes of the head and of the table of chunks.
    pub(crate) fn head(&self) -> Vec<u8> {
        let table = self.header.table as usize;
        let mut bytes = vec![0; table + self.header.chunk_count as usize * 8];
        self.header.write(&mut bytes);
        for (chunk, offset) in &self.copies {
            let at = table + *chunk as usize * 8;
            debug_assert!(at + 8 <= bytes.len(), "a chunk outside the volume");
            if let Some(place) = bytes.get_mut(at..at + 8) {
                place.copy_from_slice(&offset.to_le_bytes());
            }
        }
        bytes
    }
}
