//! Each field of each structure has a meaning here, and blocks with all of them are relocated.

use super::*;
use crate::STRUCTURES;
use crate::pointer::BlockSize;

/// The meaning of a field for a relocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Meaning {
    /// Moved by the base, or by as many inodes or groups.
    Moved,
    /// The same wherever the volume lies.
    Plain,
}
use Meaning::{Moved, Plain};

/// Structures that are never relocated: the larger volume has its own, or none.
const NEVER: [&str; 4] = ["fields", "journal_header", "journal_descriptor", "journal_commit"];

/// All fields of the others. `MAP` and so on are moved where they are not 0.
const FIELDS: &[(&str, &[(&str, Meaning)])] = &[
    (
        "group",
        &[
            ("KIND", Plain),
            ("RESERVED0", Plain),
            ("CHECKSUM", Plain),
            ("OWNER", Moved),
            ("FREE", Plain),
            ("METADATA", Plain),
            ("ROOM", Plain),
            ("INODE_ROOM", Plain),
            ("RESERVED1", Plain),
            ("BITMAP", Plain),
        ],
    ),
    (
        "chunk_header",
        &[
            ("KIND", Plain),
            ("RESERVED0", Plain),
            ("CHECKSUM", Plain),
            ("OWNER", Moved),
            ("USED", Plain),
            ("CHECKSUM2", Plain),
            ("RESERVED1", Plain),
        ],
    ),
    (
        "chunk_entry",
        &[("KIND", Plain), ("USED", Plain), ("RESERVED", Plain), ("CHECKSUM", Plain), ("OWNER", Moved)],
    ),
    (
        "sums",
        &[
            ("KIND", Plain),
            ("RESERVED0", Plain),
            ("CHECKSUM", Plain),
            ("OWNER", Moved),
            ("NUMBER", Plain),
            ("RESERVED1", Plain),
            ("SUMS", Plain),
        ],
    ),
    (
        "inode",
        &[
            ("MODE", Plain),
            ("FLAGS", Plain),
            ("LINKS", Plain),
            ("UID", Plain),
            ("GID", Plain),
            ("BYTES", Plain),
            ("MAP", Moved),
            ("PARENT_OR_DEVICE", Moved),
            ("XATTR", Moved),
            ("MTIME", Plain),
            ("CTIME", Plain),
            ("ATIME", Plain),
            ("BTIME", Plain),
            ("GENERATION", Plain),
            ("CHECKSUM", Plain),
            ("BLOCKS", Plain),
        ],
    ),
    ("extent", &[("POINTER", Moved), ("FIRST", Plain), ("BLOCKS", Plain)]),
    (
        "dir_inode_256",
        &[("ROOM", Moved), ("ATTRIBUTES", Plain), ("ROOT", Moved), ("TAGS", Plain), ("UNITS", Plain)],
    ),
    ("dir_inode_128", &[("ROOM", Moved), ("ROOT", Moved), ("TAGS", Plain), ("UNITS", Plain)]),
    (
        "leaf",
        &[
            ("KIND", Plain),
            ("LISTED", Plain),
            ("FREE", Plain),
            ("CHECKSUM", Plain),
            ("OWNER", Moved),
            ("NUMBER", Plain),
            ("NEXT", Moved),
            ("PREVIOUS", Moved),
            ("UNITS", Plain),
            ("RESERVED", Plain),
        ],
    ),
    (
        "entry",
        &[
            ("NEXT", Moved),
            ("PREVIOUS", Moved),
            ("INODE", Moved),
            ("HASH", Plain),
            ("NAME_LEN", Plain),
            ("KIND", Plain),
            ("COUNT", Plain),
        ],
    ),
    (
        "tree",
        &[
            ("KIND", Plain),
            ("LEVEL", Plain),
            ("COUNT", Plain),
            ("CHECKSUM", Plain),
            ("OWNER", Moved),
            ("HASHES", Plain),
            ("FORMS", Plain),
            ("POSITIONS", Moved),
        ],
    ),
    (
        "index",
        &[
            ("KIND", Plain),
            ("RESERVED0", Plain),
            ("CHECKSUM", Plain),
            ("OWNER", Moved),
            ("DUMMY", Moved),
            ("UNINDEXED", Plain),
            ("RESERVED1", Plain),
            ("SLOTS", Moved),
        ],
    ),
    (
        "xattr_block",
        &[
            ("KIND", Plain),
            ("RESERVED", Plain),
            ("CHECKSUM", Plain),
            ("OWNER", Moved),
            ("NEXT", Moved),
            ("LENGTH", Plain),
        ],
    ),
];

const HOME_BYTES: u64 = 2 * GROUP + CHUNK;
const ROOT: u64 = 3 * CHUNK / 256;
const PARENT: u64 = 77;

fn relocation(aliases: &[RootAlias]) -> Relocation<'_> {
    Relocation {
        sums: Checksummer::new(7),
        base: 5 * GROUP,
        bytes: HOME_BYTES,
        inode_size: InodeSize::B256,
        root: ROOT,
        parent: PARENT,
        aliases,
    }
}

fn block() -> Vec<u8> {
    vec![0; BLOCK as usize]
}

/// Relocates a block, and returns the offsets of its words that changed.
fn moved(kind: BlockKind, home: u64, before: &[u8]) -> Vec<usize> {
    let mut after = before.to_vec();
    relocation(&[]).relocate(kind, home, &mut after).expect("relocated");
    let words = before.chunks_exact(8).zip(after.chunks_exact(8)).enumerate();
    words.filter(|(_, (before, after))| before != after).map(|(i, _)| 8 * i).collect()
}

/// Offsets of the words of a structure that are moved, as the table says.
fn moving(structure: &str) -> Vec<usize> {
    let layout = STRUCTURES.iter().find(|layout| layout.name == structure).expect("a structure");
    let (_, fields) = FIELDS.iter().find(|(name, _)| *name == structure).expect("fields");
    let moving = |name: &str| fields.iter().any(|(field, meaning)| *field == name && *meaning == Moved);
    let of = layout.fields.iter().filter(|field| moving(field.name));
    of.flat_map(|field| (0..field.len).map(|i| field.offset + i * field.bytes)).collect()
}

#[test]
fn every_field_of_the_format_has_a_meaning() {
    for layout in STRUCTURES.iter().filter(|layout| !NEVER.contains(&layout.name)) {
        let known = FIELDS.iter().find(|(name, _)| *name == layout.name);
        let (_, known) = known.unwrap_or_else(|| panic!("{} is not relocated", layout.name));
        let known: Vec<&str> = known.iter().map(|(name, _)| *name).collect();
        let there: Vec<&str> = layout.fields.iter().map(|field| field.name).collect();
        assert_eq!(known, there, "{}: say of each field whether it moves, and move it", layout.name);
    }
}

#[test]
fn whole_blocks_are_moved_by_the_table_and_nowhere_else() {
    let mut one = block();
    group::OWNER.write(&mut one, 2);
    group::FREE.write(&mut one, 5);
    assert_eq!(moved(BlockKind::Group, BLOCK, &one), moving("group"));

    let mut one = block();
    sums::OWNER.write(&mut one, 1);
    sums::NUMBER.write(&mut one, 3);
    assert_eq!(moved(BlockKind::Sums, BLOCK, &one), moving("sums"));

    let mut one = block();
    tree::OWNER.write(&mut one, ROOT);
    tree::COUNT.write(&mut one, TREE_MAX as u16);
    (0..TREE_MAX).for_each(|i| tree::POSITIONS.index(i).write(&mut one, CHUNK + i as u64 * BLOCK));
    assert_eq!(moved(BlockKind::Tree, BLOCK, &one), moving("tree"));

    let mut one = block();
    index::OWNER.write(&mut one, ROOT);
    index::DUMMY.write(&mut one, CHUNK + 80);
    (0..index::SLOTS.len)
        .for_each(|i| index::SLOTS.index(i).write(&mut one, Slot::new(i as u32, CHUNK + 16 * i as u64).0));
    assert_eq!(moved(BlockKind::Index, BLOCK, &one), moving("index"));

    let mut one = block();
    xattr_block::OWNER.write(&mut one, ROOT);
    xattr_block::NEXT.write(&mut one, CHUNK);
    one[xattr_block::SIZE..].fill(9);
    assert_eq!(moved(BlockKind::Xattr, BLOCK, &one), moving("xattr_block"));

    let mut one = block();
    for (i, word) in one.chunks_exact_mut(8).enumerate() {
        Field::at(0).write(word, Pointer::data(CHUNK + i as u64 * BLOCK, BlockSize::Small).word());
    }
    assert_eq!(moved(BlockKind::Pointers, BLOCK, &one), (0..4096).step_by(8).collect::<Vec<_>>());
}

#[test]
fn tables_of_chunks_are_moved_row_by_row() {
    let mut one = block();
    chunk_header::OWNER.write(&mut one, 2 * CHUNK);
    for (i, row) in one.chunks_exact_mut(chunk_entry::SIZE).enumerate().skip(2) {
        let is_sums = i % 2 == 0;
        chunk_entry::KIND.write(row, if is_sums { BlockKind::Sums } else { BlockKind::Leaf } as u8);
        chunk_entry::OWNER.write(row, if is_sums { 2 } else { ROOT });
    }
    let rows = |from: usize| {
        let row = moving("chunk_entry")[0];
        (from..256).map(move |i| i * chunk_entry::SIZE + row)
    };
    let first: Vec<usize> = moving("chunk_header").into_iter().chain(rows(2)).collect();
    assert_eq!(moved(BlockKind::ChunkHeader, 2 * CHUNK, &one), first);
    one[..2 * chunk_entry::SIZE].fill(0);
    assert_eq!(moved(BlockKind::ChunkHeader, 2 * CHUNK + BLOCK, &one), rows(2).collect::<Vec<_>>());
}

fn an_inode(mode: FileKind, flags: u16) -> Vec<u8> {
    let mut one = block();
    inode::MODE.write(&mut one, mode.mode() | 0o644);
    inode::FLAGS.write(&mut one, flags);
    inode::XATTR.write(&mut one, 2 * CHUNK);
    one
}

#[test]
fn inodes_are_moved_as_their_types_ask_for() {
    let core: Vec<usize> = moving("inode");
    let mut dir = an_inode(FileKind::Directory, 0);
    inode::MAP.write(&mut dir, Pointer::data(CHUNK, BlockSize::Small).word());
    inode::PARENT_OR_DEVICE.write(&mut dir, ROOT);
    Field::<u64>::at(INODE_CORE + dir_inode_256::ROOM.offset).write(&mut dir, CHUNK);
    InodeSize::B256.dir_root().write(&mut dir, DirRoot::tree_word(CHUNK, 1, 9));
    let tail = moving("dir_inode_256").into_iter().map(|at| INODE_CORE + at);
    assert_eq!(moved(BlockKind::Inodes, CHUNK, &dir), core.iter().copied().chain(tail).collect::<Vec<_>>());
    // The root directory gets the parent that the larger volume says, whatever its own says.
    let mut root = dir.clone();
    inode::PARENT_OR_DEVICE.write(&mut root, u64::MAX);
    assert_eq!(relocation(&[]).relocate(BlockKind::Inodes, CHUNK, &mut root.clone()), Err(LeadsOut));
    relocation(&[]).relocate(BlockKind::Inodes, ROOT * 256, &mut root).expect("the root");
    assert_eq!(inode::PARENT_OR_DEVICE.read(&root), Some(PARENT));

    let mut file = an_inode(FileKind::File, 10 << INODE_EXTENTS_SHIFT);
    inode::XATTR.write(&mut file, 4095);
    for one in file[INODE_CORE..256].chunks_exact_mut(extent::SIZE) {
        extent::POINTER.write(one, Pointer::data(CHUNK, BlockSize::Small).word());
        extent::BLOCKS.write(one, 600);
    }
    let extents = (0..10).map(|i| INODE_CORE + i * extent::SIZE + moving("extent")[0]);
    assert_eq!(moved(BlockKind::Inodes, CHUNK, &file), extents.collect::<Vec<_>>());

    let mut device = an_inode(FileKind::CharDevice, 0);
    inode::PARENT_OR_DEVICE.write(&mut device, u64::MAX);
    assert_eq!(moved(BlockKind::Inodes, CHUNK, &device), [40], "a device number stays");
    let mut inline = an_inode(FileKind::Symlink, INODE_INLINE);
    inline[INODE_CORE..256].fill(b'x');
    assert_eq!(moved(BlockKind::Inodes, CHUNK, &inline), [40], "the content stays");
    let mut free = inline.clone();
    inode::MODE.write(&mut free, 0);
    inode::GENERATION.write(&mut free, 9);
    relocation(&[]).relocate(BlockKind::Inodes, CHUNK, &mut free).expect("a free inode");
    let mut expected = block();
    inode::GENERATION.write(&mut expected, 9);
    assert_eq!(free, expected, "nobody has verified the rest");
}

#[test]
fn inodes_of_128_bytes_have_their_own_tail() {
    let mut dir = an_inode(FileKind::Directory, 0);
    inode::PARENT_OR_DEVICE.write(&mut dir, 2 * ROOT);
    Field::<u64>::at(INODE_CORE + dir_inode_128::ROOM.offset).write(&mut dir, CHUNK);
    InodeSize::B128.dir_root().write(&mut dir, CHUNK | 1);
    let mut after = dir.clone();
    let small = Relocation { inode_size: InodeSize::B128, ..relocation(&[]) };
    small.relocate(BlockKind::Inodes, CHUNK, &mut after).expect("relocated");
    let tail: Vec<u64> = moving("dir_inode_128")
        .into_iter()
        .map(|at| Field::<u64>::at(INODE_CORE + at).read(&after).expect("a word"))
        .collect();
    assert_eq!(tail, [CHUNK + small.base, (CHUNK + small.base) | 1]);
}

/// A leaf with a dummy, and entries with these names and inode numbers.
fn a_leaf(names: &[(&[u8], u64)]) -> Vec<u8> {
    let mut one = block();
    leaf::OWNER.write(&mut one, ROOT);
    leaf::NEXT.write(&mut one, CHUNK);
    leaf::PREVIOUS.write(&mut one, 2 * CHUNK);
    let mut units = [0u64; leaf::UNITS.len];
    let mut unit = 0;
    let mut take = |count: usize| {
        (unit..unit + count).for_each(|unit| units[unit / 64] |= 1 << (unit % 64));
        unit += count;
        (unit - count) * UNIT as usize
    };
    take(LEAF_HEADER_UNITS);
    let entries = std::iter::once((&b""[..], 3 * CHUNK)).chain(names.iter().copied());
    for (name, number) in entries {
        let at = take(entry_units(name.len()));
        let bytes = &mut one[at..];
        entry::NEXT.write(bytes, CHUNK + 80);
        entry::PREVIOUS.write(bytes, CHUNK + 96);
        entry::INODE.write(bytes, number);
        entry::NAME_LEN.write(bytes, name.len() as u8);
        bytes[entry::SIZE..][..name.len()].copy_from_slice(name);
    }
    for (i, word) in units.into_iter().enumerate() {
        leaf::UNITS.index(i).write(&mut one, word);
    }
    one
}

#[test]
fn leaves_are_moved_entry_by_entry_and_keep_nothing_without_a_meaning() {
    let before = a_leaf(&[(b"name", ROOT), (b"placeholder-1234", ROOT + 1)]);
    let mut after = before.clone();
    let aliases = [RootAlias { placeholder: ROOT + 1, root: 99 }];
    let relocation = relocation(&aliases);
    relocation.relocate(BlockKind::Leaf, CHUNK, &mut after).expect("relocated");
    for at in moving("leaf") {
        let field = Field::<u64>::at(at);
        assert_ne!(field.read(&before), field.read(&after), "offset {at}");
    }
    let at = |bytes: &[u8], unit: usize, field: Field<u64>| field.read(&bytes[unit * 16..]).expect("a word");
    let (dummy, name, placeholder) = (5, 7, 10);
    for unit in [dummy, name, placeholder] {
        assert_eq!(at(&after, unit, entry::NEXT), CHUNK + 80 + relocation.base);
        assert_eq!(at(&after, unit, entry::PREVIOUS), CHUNK + 96 + relocation.base);
    }
    assert_eq!(at(&after, dummy, entry::INODE), 3 * CHUNK + relocation.base, "an index block");
    assert_eq!(at(&after, name, entry::INODE), ROOT + relocation.base / 256);
    assert_eq!(at(&after, placeholder, entry::INODE), 99, "the root of another volume");
    assert_eq!(&after[name * 16 + 32..][..16], [b"name", &[0xff; 12][..]].concat());
    assert!(after[13 * 16..].iter().all(|byte| *byte == 0xff), "free units");
}

#[test]
fn blocks_that_lead_out_of_their_volume_are_refused() {
    let refused = |kind, home, block: &[u8]| {
        assert_eq!(relocation(&[]).relocate(kind, home, &mut block.to_vec()), Err(LeadsOut), "{kind:?}");
    };
    let with = |field: Field<u64>, value: u64, bytes: &[u8]| {
        let mut bytes = bytes.to_vec();
        field.write(&mut bytes, value);
        bytes
    };
    for number in [3, u64::MAX] {
        refused(BlockKind::Group, BLOCK, &with(group::OWNER, number, &block()));
    }
    let leaf = a_leaf(&[(b"a", ROOT)]);
    let entry_at = |field: Field<u64>| Field::<u64>::at(7 * 16 + field.offset);
    for (field, value) in [
        (leaf::OWNER, 0),
        (leaf::OWNER, HOME_BYTES / 256),
        (leaf::NEXT, HOME_BYTES),
        (leaf::PREVIOUS, CHUNK + 1),
        (entry_at(entry::NEXT), HOME_BYTES),
        (entry_at(entry::PREVIOUS), CHUNK + 8),
        (entry_at(entry::INODE), 0),
        (entry_at(entry::INODE), u64::MAX),
        (entry_at(entry::INODE), HOME_BYTES / 256),
        (leaf::UNITS.index(0), 1 << 63 | 0b1_1111),
        (leaf::UNITS.index(0), 0b1_1111 | 0b11 << 5 | 1 << 7),
    ] {
        refused(BlockKind::Leaf, CHUNK, &with(field, value, &leaf));
    }
    refused(BlockKind::Leaf, CHUNK, &a_leaf(&[(b"a/b", ROOT)]));
    refused(BlockKind::Leaf, CHUNK, &a_leaf(&[(b"a\0", ROOT)]));
    let large = Pointer::data(HOME_BYTES - BLOCK, BlockSize::Medium).word();
    for word in [Pointer::data(HOME_BYTES, BlockSize::Small).word(), large, 1 << 52 | 5, 0x60_0000] {
        refused(BlockKind::Pointers, CHUNK, &with(Field::at(8), word, &block()));
        refused(BlockKind::Inodes, CHUNK, &with(inode::MAP, word, &an_inode(FileKind::File, 1 << 8)));
    }
    let mut file = an_inode(FileKind::File, 1 << INODE_EXTENTS_SHIFT);
    let last = Pointer::data(HOME_BYTES - BLOCK, BlockSize::Small).word();
    extent::POINTER.write(&mut file[INODE_CORE..], last);
    extent::BLOCKS.write(&mut file[INODE_CORE..], 2);
    refused(BlockKind::Inodes, CHUNK, &file);
    refused(BlockKind::Inodes, CHUNK, &an_inode(FileKind::File, 11 << INODE_EXTENTS_SHIFT));
    refused(BlockKind::Inodes, CHUNK, &an_inode(FileKind::File, 1 << INODE_EXTENTS_SHIFT | INODE_INLINE));
    refused(BlockKind::Inodes, CHUNK, &with(inode::XATTR, HOME_BYTES, &an_inode(FileKind::File, 0)));
    let mut tree = block();
    tree::OWNER.write(&mut tree, ROOT);
    refused(BlockKind::Tree, CHUNK, &tree);
    tree::COUNT.write(&mut tree, 256);
    refused(BlockKind::Tree, CHUNK, &tree);
    tree::COUNT.write(&mut tree, 1);
    refused(BlockKind::Tree, CHUNK, &tree);
    let mut index = block();
    index::OWNER.write(&mut index, ROOT);
    refused(BlockKind::Index, CHUNK, &index);
    index::DUMMY.write(&mut index, CHUNK);
    refused(BlockKind::Index, CHUNK, &with(index::SLOTS.index(0), Slot::new(1, HOME_BYTES).0, &index));
    for kind in [BlockKind::Superblock, BlockKind::Journal] {
        refused(kind, CHUNK, &block());
    }
    let crooked = Relocation { base: CHUNK, ..relocation(&[]) };
    assert_eq!(crooked.relocate(BlockKind::Group, BLOCK, &mut block()), Err(LeadsOut));
}
