//! One planted fault for each invariant: the check must find it, name it, and repair it so that no finding is
//! left.
//!
//! Unless a row says otherwise, the checksums are made valid after the damage, so that the invariant is
//! broken and not the checksum.

use lanefs::{Access, MemoryDevice, Volume};
use lanefs_format::{
    BLOCK, BlockKind, CHUNK, CHUNK_HEADER_BLOCKS, FileKind, INODE_EXTENTS_SHIFT, Pointer, SUPERBLOCK_COPY,
    UNIT, chunk_entry, chunk_header, dir, dir_inode_256, extent, group, inode, superblock::CLEAN,
    superblock::fields, xattr_block,
};
use lanefs_testkit::mutate::{Editor, MutationBase, bases};
use lanefs_testkit::naive::Naive;
use lanefs_testkit::seeded::Seeded;

/// The names that the check gives to a block with a wrong checksum.
const CHECKSUMS: &[&str] = &[
    "inode-checksum",
    "pointers-checksum",
    "leaf-checksum",
    "tree-checksum",
    "index-checksum",
    "xattr-checksum",
    "group-checksum",
    "chunk-checksum",
    "superblock-copy",
];

/// A fault to plant.
struct Row {
    name: &'static str,
    base: &'static str,
    /// True where the checksums are made valid.
    seal: bool,
    plant: fn(&mut Editor<'_>),
    /// Names of invariants, one of which the check must report.
    named: &'static [&'static str],
}

const fn row(
    name: &'static str,
    base: &'static str,
    named: &'static [&'static str],
    plant: fn(&mut Editor<'_>),
) -> Row {
    Row { name, base, seal: true, plant, named }
}

const fn unsealed(name: &'static str, base: &'static str, plant: fn(&mut Editor<'_>)) -> Row {
    Row { name, base, seal: false, plant, named: CHECKSUMS }
}

const ROWS: &[Row] = &[
    // Inodes.
    row("a file has a link too many", "small-256", &["link-count"], |e| {
        with_inode(e, is_file, |one| inode::LINKS.write(one, 9));
    }),
    row("a directory has a link too few", "small-128", &["link-count"], |e| {
        with_inode(e, is_directory, |one| {
            let links = inode::LINKS.read(one).unwrap_or(0);
            inode::LINKS.write(one, links - 1);
        });
    }),
    row("an inode's number of blocks is wrong", "small-256", &[], |e| {
        with_inode(e, is_file, |one| inode::BLOCKS.write(one, 77));
    }),
    row("an inode has an impossible type", "small-256", &[], |e| {
        with_inode(e, is_file, |one| inode::MODE.write(one, 0x3000));
    }),
    row("a directory names another parent", "small-256", &[], |e| {
        let root = e.base().superblock.root;
        with_inode(
            e,
            |one| is_directory(one) && parent(one) == root && root_word(one) != 0,
            |one| {
                inode::PARENT_OR_DEVICE.write(one, root + 1);
            },
        );
    }),
    row("an inode is used and no name leads to it", "small-256", &[], |e| {
        let (at, entry) = some_entry(e, |entry| entry_kind(entry) == FileKind::File as u8);
        let other = some_entry(e, |entry| entry_kind(entry) == FileKind::Fifo as u8).1;
        let _ = entry;
        let stolen = dir::entry::INODE.read(&other).unwrap_or(0);
        dir::entry::INODE.write(&mut e.edit(at & !(BLOCK - 1))[(at % BLOCK) as usize..], stolen);
    }),
    // Names.
    row("an entry's type is not its inode's", "small-256", &[], |e| {
        let (at, _) = some_entry(e, |entry| entry_kind(entry) == FileKind::File as u8);
        dir::entry::KIND.write(&mut e.edit(at & !(BLOCK - 1))[(at % BLOCK) as usize..], FileKind::Fifo as u8);
    }),
    row("an entry's inode is not in use", "small-256", &[], |e| {
        let (at, _) = some_entry(e, |entry| entry_kind(entry) == FileKind::File as u8);
        dir::entry::INODE.write(&mut e.edit(at & !(BLOCK - 1))[(at % BLOCK) as usize..], 3);
    }),
    row("an entry's hash is not its name's", "region-256", &[], |e| {
        let (at, entry) = some_entry(e, is_entry);
        let hash = dir::entry::HASH.read(&entry).unwrap_or(0);
        dir::entry::HASH.write(&mut e.edit(at & !(BLOCK - 1))[(at % BLOCK) as usize..], hash ^ 1);
    }),
    row("an entry's name holds a slash", "region-256", &[], |e| {
        let (at, _) = some_entry(e, is_entry);
        e.edit(at & !(BLOCK - 1))[(at % BLOCK) as usize + dir::entry::SIZE] = b'/';
    }),
    row("a name is there twice", "small-256", &["entry-duplicate"], name_twice),
    row("an entry does not lead back", "tree-256", &[], |e| {
        let (at, _) = some_entry(e, is_entry);
        dir::entry::PREVIOUS.write(&mut e.edit(at & !(BLOCK - 1))[(at % BLOCK) as usize..], 0);
    }),
    row("the list of entries ends early", "tree-256", &["list-link", "list-missing"], |e| {
        let (at, _) = some_entry(e, |entry| is_entry(entry) && dir::entry::NEXT.read(entry) != Some(0));
        dir::entry::NEXT.write(&mut e.edit(at & !(BLOCK - 1))[(at % BLOCK) as usize..], 0);
    }),
    row("the list of entries leads back into itself", "tree-256", &[], |e| {
        let (at, _) = some_entry(e, is_entry);
        dir::entry::NEXT.write(&mut e.edit(at & !(BLOCK - 1))[(at % BLOCK) as usize..], at);
    }),
    row("a region counts an entry too many", "tree-256", &[], |e| {
        let (at, entry) = some_entry(e, |entry| !is_entry(entry));
        let count = dir::entry::COUNT.read(&entry).unwrap_or(0);
        dir::entry::COUNT.write(&mut e.edit(at & !(BLOCK - 1))[(at % BLOCK) as usize..], count + 1);
    }),
    // Leaf blocks.
    row("a leaf counts its free units wrong", "tree-256", &[], |e| {
        let at = first(e, BlockKind::Leaf);
        let free = dir::leaf::FREE.read(e.block(at)).unwrap_or(0);
        dir::leaf::FREE.write(e.edit(at), free + 1);
    }),
    row("a leaf's bitmap shows a free unit as used", "tree-256", &[], |e| {
        let at = with(e, BlockKind::Leaf, |block| dir::leaf::FREE.read(block).unwrap_or(0) > 0);
        let free = (dir::LEAF_HEADER_UNITS..256).find(|unit| {
            dir::leaf::UNITS.index(unit / 64).read(e.block(at)).unwrap_or(0) >> (unit % 64) & 1 == 0
        });
        let unit = free.expect("the leaf has room");
        let word = dir::leaf::UNITS.index(unit / 64);
        let bits = word.read(e.block(at)).unwrap_or(0);
        word.write(e.edit(at), bits | 1 << (unit % 64));
    }),
    row("a leaf belongs to another directory", "tree-256", &[], |e| {
        let at = first(e, BlockKind::Leaf);
        let owner = dir::leaf::OWNER.read(e.block(at)).unwrap_or(0);
        dir::leaf::OWNER.write(e.edit(at), owner + 1);
    }),
    row("a leaf has another index in the map", "tree-256", &[], |e| {
        let at = first(e, BlockKind::Leaf);
        dir::leaf::NUMBER.write(e.edit(at), 999);
    }),
    row("a leaf with room is not on the list of those", "tree-256", &[], |e| {
        let at = with(e, BlockKind::Leaf, |block| dir::leaf::LISTED.read(block) == Some(1));
        dir::leaf::LISTED.write(e.edit(at), 0);
    }),
    // Trees and indexes.
    row("a pivot is too high", "tree-256", &[], |e| {
        let at = first(e, BlockKind::Tree);
        let pivot = dir::tree::HASHES.index(1);
        let hash = pivot.read(e.block(at)).unwrap_or(0);
        pivot.write(e.edit(at), hash + 1);
    }),
    row("two children of a tree block are exchanged", "tree-256", &[], |e| {
        let at = first(e, BlockKind::Tree);
        let (one, two) = (dir::tree::POSITIONS.index(0), dir::tree::POSITIONS.index(1));
        let (a, b) = (one.read(e.block(at)).unwrap_or(0), two.read(e.block(at)).unwrap_or(0));
        one.write(e.edit(at), b);
        two.write(e.edit(at), a);
    }),
    row("a tree block has lost its last child", "tree-256", &[], |e| {
        let at = first(e, BlockKind::Tree);
        let count = dir::tree::COUNT.read(e.block(at)).unwrap_or(0);
        dir::tree::COUNT.write(e.edit(at), count - 1);
    }),
    row("a tree block has the wrong level", "tree-256", &[], |e| {
        let at = first(e, BlockKind::Tree);
        dir::tree::LEVEL.write(e.edit(at), 3);
    }),
    row("a region index has lost an entry", "tree-256", &[], |e| {
        let (at, slot) = used_slot(e);
        dir::index::SLOTS.index(slot).write(e.edit(at), 0);
    }),
    row("a region index has an entry twice", "tree-256", &[], |e| {
        let (at, slot) = used_slot(e);
        let word = dir::index::SLOTS.index(slot).read(e.block(at)).unwrap_or(0);
        let free =
            (0..dir::index::SLOTS.len).find(|i| dir::index::SLOTS.index(*i).read(e.block(at)) == Some(0));
        dir::index::SLOTS.index(free.expect("the index has room")).write(e.edit(at), word);
    }),
    row("a region index names another dummy", "tree-256", &[], |e| {
        let at = first(e, BlockKind::Index);
        let dummy = dir::index::DUMMY.read(e.block(at)).unwrap_or(0);
        dir::index::DUMMY.write(e.edit(at), dummy + UNIT);
    }),
    row("a small index has lost an entry", "small-256", &[], |e| {
        let size = e.base().superblock.inode_size;
        with_inode(
            e,
            |one| is_directory(one) && one[size.small_units()] != 0,
            |one| {
                one[size.small_units()] = 0;
            },
        );
    }),
    row("a tree stands beside a small index", "tree-256", &["small-index"], |e| {
        let size = e.base().superblock.inode_size;
        with_inode(
            e,
            |one| is_directory(one) && root_word(one) & 3 == 3,
            |one| one[size.small_units()] = dir::LEAF_HEADER_UNITS as u8,
        );
    }),
    row("a directory's root does not exist", "tree-256", &[], |e| {
        with_inode(
            e,
            |one| is_directory(one) && root_word(one) & 3 == 3,
            |one| {
                dir_inode_256::ROOT.write(&mut one[inode::SIZE..], 0x5003);
            },
        );
    }),
    // File maps.
    row("a pointer leads out of the volume", "maps-256", &[], |e| {
        let at = first(e, BlockKind::Pointers);
        let word = Pointer::indirect(1 << 50).word();
        e.edit(at)[..8].copy_from_slice(&word.to_le_bytes());
    }),
    row("a pointer has bits that no writer sets", "maps-256", &[], |e| {
        let at = first(e, BlockKind::Pointers);
        e.edit(at)[0] |= 0x60;
    }),
    row("two files have one block of pointers", "maps-256", &["block-owned-twice"], |e| {
        let mut maps = Vec::new();
        with_inode(
            e,
            |one| {
                if is_file(one) {
                    maps.extend(inode::MAP.read(one).filter(|m| *m != 0));
                }
                false
            },
            |_| {},
        );
        let stolen = maps[0];
        with_inode(
            e,
            |one| is_file(one) && inode::MAP.read(one).is_some_and(|m| m != 0 && m != stolen),
            |one| {
                inode::MAP.write(one, stolen);
            },
        );
    }),
    row("two files own one block", "maps-256", &["block-owned-twice"], |e| {
        let mut stolen = 0;
        let mut take = |one: &[u8]| {
            if extents_of(one) > 0 && stolen == 0 {
                stolen = first_extent(one);
            }
            false
        };
        with_inode(e, &mut take, |_| {});
        with_inode(
            e,
            |one| extents_of(one) > 0 && first_extent(one) != stolen,
            |one| extent::POINTER.write(&mut one[inode::SIZE..], stolen),
        );
    }),
    row("two extents of a file overlap", "maps-256", &["extent-range"], |e| {
        with_inode(
            e,
            |one| extents_of(one) > 1,
            |one| {
                let second = inode::SIZE + extent::SIZE;
                extent::FIRST.write(&mut one[second..], 0);
            },
        );
    }),
    row("an extent has no block", "maps-256", &["extent-range"], |e| {
        with_inode(e, |one| extents_of(one) > 0, |one| extent::BLOCKS.write(&mut one[inode::SIZE..], 0));
    }),
    row("an extent ends past the volume", "maps-256", &["map-outside"], |e| {
        with_inode(
            e,
            |one| extents_of(one) > 0,
            |one| extent::BLOCKS.write(&mut one[inode::SIZE..], 1 << 31),
        );
    }),
    row("an inode has more extents than room", "small-128", &["extent-count"], |e| {
        with_inode(e, |one| extents_of(one) > 0, |one| inode::FLAGS.write(one, 15 << INODE_EXTENTS_SHIFT));
    }),
    row("bytes after the extents of an inode are set", "maps-256", &["inode-tail"], |e| {
        with_inode(e, |one| (1..9).contains(&extents_of(one)), |one| one[255] = 1);
    }),
    // Extended attributes.
    row("an attribute block belongs to another inode", "small-256", &[], |e| {
        let at = first(e, BlockKind::Xattr);
        xattr_block::OWNER.write(e.edit(at), 1);
    }),
    row("an attribute block is longer than a block", "small-256", &[], |e| {
        let at = first(e, BlockKind::Xattr);
        xattr_block::LENGTH.write(e.edit(at), 5000);
    }),
    row("attribute blocks go in a circle", "small-256", &[], |e| {
        let at = first(e, BlockKind::Xattr);
        xattr_block::NEXT.write(e.edit(at), at);
    }),
    // Space.
    row("a group counts a free block too many", "small-256", &[], |e| {
        let at = first(e, BlockKind::Group);
        let free = group::FREE.read(e.block(at)).unwrap_or(0);
        group::FREE.write(e.edit(at), free + 1);
    }),
    row("a used block is free in the bitmap", "small-256", &[], |e| {
        let at = first(e, BlockKind::Group);
        let word = group::BITMAP.index(0);
        let bits = word.read(e.block(at)).unwrap_or(0);
        word.write(e.edit(at), bits & !1);
    }),
    row("a free block is used in the bitmap", "small-256", &[], |e| {
        let at = first(e, BlockKind::Group);
        let free = (0..group::BITMAP.len).find(|i| group::BITMAP.index(*i).read(e.block(at)) == Some(0));
        group::BITMAP.index(free.expect("the group has room")).write(e.edit(at), 1 << 13);
        let count = group::FREE.read(e.block(at)).unwrap_or(0);
        group::FREE.write(e.edit(at), count - 1);
    }),
    row("a chunk counts a used block too many", "small-256", &[], |e| {
        let at = table(e);
        let used = chunk_header::USED.read(e.block(at)).unwrap_or(0);
        chunk_header::USED.write(e.edit(at), used + 1);
    }),
    row("a block of metadata that nothing uses", "small-256", &[], |e| {
        let at = table(e);
        let free = (CHUNK_HEADER_BLOCKS as usize..256).find(|i| e.block(at)[i * chunk_entry::SIZE] == 0);
        let start = free.expect("the chunk has room") * chunk_entry::SIZE;
        e.edit(at)[start] = BlockKind::Leaf as u8;
        let used = chunk_header::USED.read(e.block(at)).unwrap_or(0);
        chunk_header::USED.write(e.edit(at), used + 1);
    }),
    row("a block of metadata is owned by another", "small-256", &[], |e| {
        let entry = entry_of(e, BlockKind::Leaf);
        chunk_entry::OWNER.write(&mut e.edit(entry)[(entry % BLOCK) as usize..], 12_345);
    }),
    row("a block of inodes counts one too many", "small-256", &[], |e| {
        let entry = entry_of(e, BlockKind::Inodes);
        let used = chunk_entry::USED.read(&e.block(entry)[(entry % BLOCK) as usize..]).unwrap_or(0);
        chunk_entry::USED.write(&mut e.edit(entry)[(entry % BLOCK) as usize..], used + 1);
    }),
    row("a group forgets that a metadata chunk has room", "small-256", &[], |e| {
        let at = first(e, BlockKind::Group);
        group::ROOM.write(e.edit(at), 0);
    }),
    // The counts of a volume that was not closed mean nothing, so this one says that it was.
    row("the superblock counts its inodes wrong", "small-256", &["inode-count"], |e| {
        for at in [0, SUPERBLOCK_COPY] {
            fields::INODES.write(e.edit(at), 4711);
            fields::STATE.write(e.edit(at), CLEAN);
        }
    }),
    // Inodes without a name.
    row("the superblock names no orphan directory", "small-256", &["orphan-directory"], |e| {
        for at in [0, SUPERBLOCK_COPY] {
            fields::ORPHANS.write(e.edit(at), 0);
        }
    }),
    row("the orphan directory is the root", "region-256", &["orphan-directory"], |e| {
        let root = e.base().superblock.root;
        for at in [0, SUPERBLOCK_COPY] {
            fields::ORPHANS.write(e.edit(at), root);
        }
    }),
    row("what is listed as an orphan has a link", "small-128", &["orphan-named"], |e| {
        with_inode(
            e,
            |one| is_file(one) && inode::LINKS.read(one) == Some(0),
            |one| inode::LINKS.write(one, 1),
        );
    }),
    row("an orphan's entry is not named by its number", "small-256", &["orphan-entry"], |e| {
        let (at, _) = some_entry(e, is_of_an_orphan);
        let root = e.base().superblock.root;
        dir::entry::INODE.write(&mut e.edit(at & !(BLOCK - 1))[(at % BLOCK) as usize..], root);
    }),
    row("an orphan is not listed", "small-256", &["inode-unreachable"], |e| {
        let (at, _) = some_entry(e, is_of_an_orphan);
        dir::entry::INODE.write(&mut e.edit(at & !(BLOCK - 1))[(at % BLOCK) as usize..], 3);
    }),
    row("a removed directory names another parent", "small-256", &["parent"], |e| {
        let root = e.base().superblock.root;
        with_inode(
            e,
            |one| is_directory(one) && inode::LINKS.read(one) == Some(0),
            |one| inode::PARENT_OR_DEVICE.write(one, root),
        );
    }),
    // Checksums.
    unsealed("an inode is changed", "small-256", |e| e.edit(first(e, BlockKind::Inodes))[8] ^= 1),
    unsealed("a pointer block is changed", "maps-256", |e| e.edit(first(e, BlockKind::Pointers))[4090] ^= 1),
    unsealed("a leaf block is changed", "tree-256", |e| e.edit(first(e, BlockKind::Leaf))[4090] ^= 1),
    unsealed("a tree block is changed", "tree-256", |e| e.edit(first(e, BlockKind::Tree))[20] ^= 1),
    unsealed("a region index is changed", "tree-256", |e| e.edit(first(e, BlockKind::Index))[4090] ^= 1),
    unsealed("an attribute block is changed", "small-256", |e| e.edit(first(e, BlockKind::Xattr))[4090] ^= 1),
    unsealed("one copy of the superblock is changed", "small-256", |e| e.edit(SUPERBLOCK_COPY)[100] ^= 1),
];

fn is_file(one: &[u8]) -> bool {
    FileKind::from_mode(inode::MODE.read(one).unwrap_or(0)) == Some(FileKind::File)
}

/// Number of extents in an inode.
fn extents_of(one: &[u8]) -> u16 {
    inode::FLAGS.read(one).unwrap_or(0) >> INODE_EXTENTS_SHIFT
}

fn first_extent(one: &[u8]) -> u64 {
    extent::POINTER.read(&one[inode::SIZE..]).unwrap_or(0)
}

fn is_directory(one: &[u8]) -> bool {
    FileKind::from_mode(inode::MODE.read(one).unwrap_or(0)) == Some(FileKind::Directory)
}

fn parent(one: &[u8]) -> u64 {
    inode::PARENT_OR_DEVICE.read(one).unwrap_or(0)
}

/// Root of the hash tree in a directory's inode of 256 B.
fn root_word(one: &[u8]) -> u64 {
    dir_inode_256::ROOT.read(&one[inode::SIZE..]).unwrap_or(0)
}

fn is_entry(entry: &[u8]) -> bool {
    dir::entry::NAME_LEN.read(entry) != Some(0)
}

/// True for a file's entry in the orphan directory: its name is its inode's number. (So is the directory's
/// own.)
fn is_of_an_orphan(entry: &[u8]) -> bool {
    let ino = dir::entry::INODE.read(entry).unwrap_or(0);
    let name = &entry[dir::entry::SIZE..][..dir::entry::NAME_LEN.read(entry).unwrap_or(0).into()];
    name == format!("{ino:x}").as_bytes() && entry_kind(entry) == FileKind::File as u8
}

fn entry_kind(entry: &[u8]) -> u8 {
    dir::entry::KIND.read(entry).unwrap_or(0)
}

/// Position of a block of this kind that fits.
fn with(e: &Editor<'_>, kind: BlockKind, fits: impl Fn(&[u8]) -> bool) -> u64 {
    let found = e.base().metadata.iter().find(|block| block.kind == kind && fits(e.block(block.at)));
    found.unwrap_or_else(|| panic!("the base has such a {kind:?} block")).at
}

fn first(e: &Editor<'_>, kind: BlockKind) -> u64 {
    with(e, kind, |_| true)
}

/// Position of the first chunk's table.
fn table(e: &Editor<'_>) -> u64 {
    with(e, BlockKind::ChunkHeader, |_| true) & !(CHUNK - 1)
}

/// Position of the table entry of the first block of this kind.
fn entry_of(e: &Editor<'_>, kind: BlockKind) -> u64 {
    e.base().metadata.iter().find(|block| block.kind == kind).map_or(0, |block| block.entry)
}

/// Changes the first inode that fits.
fn with_inode(e: &mut Editor<'_>, mut fits: impl FnMut(&[u8]) -> bool, change: impl FnOnce(&mut [u8])) {
    let size = e.base().superblock.inode_size.bytes() as usize;
    let blocks: Vec<u64> =
        e.base().metadata.iter().filter(|m| m.kind == BlockKind::Inodes).map(|m| m.at).collect();
    for at in blocks {
        for start in (0..BLOCK as usize).step_by(size) {
            let one = e.block(at)[start..start + size].to_vec();
            if inode::MODE.read(&one) != Some(0) && fits(&one) {
                change(&mut e.edit(at)[start..start + size]);
                return;
            }
        }
    }
}

/// Position and bytes of the first entry or dummy that fits.
fn some_entry(e: &Editor<'_>, fits: impl Fn(&[u8]) -> bool) -> (u64, Vec<u8>) {
    for block in e.base().metadata.iter().filter(|block| block.kind == BlockKind::Leaf) {
        let bytes = e.block(block.at);
        let mut unit = dir::LEAF_HEADER_UNITS;
        while unit < 254 {
            let used = dir::leaf::UNITS.index(unit / 64).read(bytes).unwrap_or(0) >> (unit % 64) & 1 == 1;
            let entry = &bytes[unit * UNIT as usize..];
            if used && fits(entry) {
                return (block.at + unit as u64 * UNIT, entry.to_vec());
            }
            let len = dir::entry::NAME_LEN.read(entry).unwrap_or(0);
            unit += if used { dir::entry_units(len.into()) } else { 1 };
        }
    }
    panic!("the base has such an entry");
}

/// Gives a name of a small directory to another entry of it, with all that finds the entry.
fn name_twice(e: &mut Editor<'_>) {
    let is_short = |entry: &[u8]| dir::entry::NAME_LEN.read(entry) == Some(2);
    let hash_of = |entry: &[u8]| dir::entry::HASH.read(entry).unwrap_or(0);
    let (first, one) = some_entry(e, is_short);
    let (second, _) = some_entry(e, |entry| is_short(entry) && hash_of(entry) != hash_of(&one));
    let (leaf, inside) = (second & !(BLOCK - 1), (second % BLOCK) as usize);
    assert_eq!(first & !(BLOCK - 1), leaf, "both entries lie in one leaf");
    let size = e.base().superblock.inode_size;
    let at = dir::leaf::OWNER.read(e.block(leaf)).unwrap_or(0) * size.bytes();
    let other = &mut e.edit(leaf)[inside..];
    dir::entry::HASH.write(other, hash_of(&one));
    other[dir::entry::SIZE..][..2].copy_from_slice(&one[dir::entry::SIZE..][..2]);
    let node = &mut e.edit(at)[(at % BLOCK) as usize..];
    let unit = (inside as u64 / UNIT) as u8;
    let slot = (0..size.small_entries()).find(|slot| node[size.small_units() + slot] == unit);
    node[size.small_tags() + slot.expect("the directory is small")] = dir::small_tag(hash_of(&one));
}

/// A region index block and the number of a slot in use.
fn used_slot(e: &Editor<'_>) -> (u64, usize) {
    let at = first(e, BlockKind::Index);
    let used = (0..dir::index::SLOTS.len).find(|i| {
        dir::index::SLOTS.index(*i).read(e.block(at)).is_some_and(|word| dir::Slot(word).position() != 0)
    });
    (at, used.expect("an index in use has entries"))
}

/// Faults that do no harm to a reader, who therefore does not look for them.
const UNSEEN_BY_READER: &[&str] = &["one copy of the superblock is changed"];

fn examine(row: &Row, base: &MutationBase) -> Result<(), String> {
    let mut editor = Editor::new(&base.image);
    (row.plant)(&mut editor);
    if editor.differs().is_none() {
        return Err("nothing was planted".to_owned());
    }
    if row.seal {
        editor.seal();
    }
    let bytes = editor.into_bytes(&mut Seeded::new(0));
    let read = Naive::open(&&bytes[..]).and_then(|reader| reader.tree());
    if read.is_ok() != UNSEEN_BY_READER.contains(&row.name) {
        return Err(format!("the second reader says {:?}", read.map(|_| ())));
    }
    // Opened for repair, so that nothing changes it before the check.
    let volume = Volume::open_device(Box::new(MemoryDevice::new(bytes)), Access::Repair)
        .map_err(|error| format!("does not open: {error}"))?;
    let report = volume.check(false, &|_, _| {}).map_err(|error| format!("the check fails: {error}"))?;
    let names: Vec<&str> = report.findings.iter().map(|finding| finding.invariant).collect();
    let told =
        if row.named.is_empty() { !names.is_empty() } else { names.iter().any(|n| row.named.contains(n)) };
    if !told {
        return Err(format!("the check finds {names:?}, not one of {:?}", row.named));
    }
    volume.check(true, &|_, _| {}).map_err(|error| format!("the repair fails: {error}"))?;
    let left = volume.check(false, &|_, _| {}).map_err(|error| format!("the second check fails: {error}"))?;
    match left.findings.first() {
        None => Ok(()),
        Some(finding) => Err(format!("{} remains after the repair: {}", finding.invariant, finding.text)),
    }
}

#[test]
fn the_check_finds_and_mends_every_planted_fault() {
    let bases = bases().expect("sound volumes can be made");
    let mut failures = Vec::new();
    for row in ROWS {
        let base = bases.iter().find(|base| base.name == row.base).expect("the row's base exists");
        if let Err(text) = examine(row, base) {
            failures.push(format!("{} ({}): {text}", row.name, row.base));
        }
    }
    assert!(failures.is_empty(), "{} of {} rows:\n{}", failures.len(), ROWS.len(), failures.join("\n"));
}
