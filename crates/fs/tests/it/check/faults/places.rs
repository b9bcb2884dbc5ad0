//! Places in the fixture's image where a fault is planted: its inodes, and positions of structures.

use crate::check::image::Image;
use lanefs::format::dir::{entry, index, tree};
use lanefs::format::{Array, BLOCK, BlockKind, Field, INODE_CORE, Pointer, UNIT, extent, inode, xattr_block};
use lanefs::{FileKind, Volume};

/// Numbers of the inodes in the fixture's volume.
pub(crate) struct FixtureInodes {
    pub(crate) root: u64,
    pub(crate) a: u64,
    pub(crate) b: u64,
    pub(crate) c: u64,
    pub(crate) empty: u64,
    pub(crate) inline: u64,
    pub(crate) block: u64,
    pub(crate) extents: u64,
    pub(crate) mapped: u64,
    pub(crate) big: u64,
    pub(crate) sparse: u64,
    pub(crate) fifo: u64,
    pub(crate) listed: u64,
    pub(crate) both: u64,
    pub(crate) short: u64,
    pub(crate) long: u64,
    pub(crate) small: u64,
    pub(crate) region: u64,
    pub(crate) tree: u64,
    pub(crate) orphans: u64,
    pub(crate) gone: u64,
    pub(crate) gone_directory: u64,
}

impl FixtureInodes {
    pub(crate) fn of(volume: &Volume) -> Self {
        let ino = |path: &str| {
            let (dir, name) = volume.resolve_parent(path.as_bytes()).expect("parent");
            volume.lookup(&lanefs::Caller::OWNER, dir, name).expect("lookup").0.0
        };
        let orphans = volume.superblock().orphans;
        let listed = volume.readdir(&lanefs::Caller::OWNER, lanefs::Ino(orphans), 0, 9).expect("readdir");
        let gone = |kind, which: usize| {
            let mut of_kind = listed.iter().filter(|entry| entry.kind == kind && entry.ino.0 != orphans);
            of_kind.nth(which).expect("an orphan").ino.0
        };
        FixtureInodes {
            root: volume.root().0,
            a: ino("/a"),
            b: ino("/a/b"),
            c: ino("/a/b/c"),
            empty: ino("/a/empty"),
            inline: ino("/a/b/f1"),
            block: ino("/a/b/f6"),
            extents: ino("/extents"),
            mapped: ino("/mapped"),
            big: ino("/big"),
            sparse: ino("/sparse"),
            fifo: ino("/fifo"),
            listed: ino("/listed"),
            both: ino("/passes/both"),
            short: ino("/short"),
            long: ino("/long"),
            small: ino("/small"),
            region: ino("/region"),
            tree: ino("/tree"),
            orphans,
            gone: gone(FileKind::File, 0),
            gone_directory: gone(FileKind::Directory, 0),
        }
    }
}

pub(crate) const SLOTS: Array<u64> = Array::at(0, 512);

pub(crate) fn root_block(image: &Image<'_>, dir: u64) -> u64 {
    image.inode(dir, image.size().dir_root()) & !(BLOCK - 1)
}

/// Position of the last entry of a list that is the last attribute in a block.
pub(crate) fn list_block_end(image: &Image<'_>, ino: u64) -> u64 {
    let block = image.inode(ino, inode::XATTR);
    block + xattr_block::SIZE as u64 + image.get(block, xattr_block::LENGTH) - 8
}

pub(crate) fn pointers(image: &Image<'_>, ino: u64) -> u64 {
    image.inode(ino, inode::MAP) & !(BLOCK - 1)
}

/// Position of an extent in an inode.
pub(crate) fn extent_at(image: &Image<'_>, ino: u64, index: usize) -> u64 {
    image.inode_at(ino) + (INODE_CORE + index * extent::SIZE) as u64
}

/// The pointer of the one extent of a small file.
pub(crate) fn data_of(image: &Image<'_>, ino: u64) -> u64 {
    image.get(extent_at(image, ino, 0), extent::POINTER)
}

/// The first leaf of a directory whose map has one level or none.
pub(crate) fn first_leaf(image: &Image<'_>, dir: u64) -> u64 {
    let word = image.inode(dir, inode::MAP);
    let p = Pointer::decode(word).expect("a pointer").expect("a leaf");
    if p.indirect { image.get(p.offset, SLOTS.index(0)) & !(BLOCK - 1) } else { p.offset }
}

pub(crate) fn second_leaf(image: &Image<'_>, dir: u64) -> u64 {
    image.get(pointers(image, dir), SLOTS.index(1)) & !(BLOCK - 1)
}

/// The first region's index block in a tree of one level.
pub(crate) fn first_index(image: &Image<'_>, dir: u64) -> u64 {
    image.get(root_block(image, dir), tree::POSITIONS.index(0))
}

pub(crate) fn first_dummy(image: &Image<'_>, dir: u64) -> u64 {
    image.get(first_index(image, dir), index::DUMMY)
}

/// The entry after the first dummy.
pub(crate) fn first_entry(image: &Image<'_>, dir: u64) -> u64 {
    image.get(first_dummy(image, dir), entry::NEXT)
}

/// The entry with this inode number in a directory of one leaf.
pub(crate) fn entry_of(image: &Image<'_>, dir: u64, ino: u64) -> u64 {
    let mut at = first_leaf(image, dir) + 5 * UNIT;
    while image.get(at, entry::INODE) != ino || image.get(at, entry::NAME_LEN) == 0 {
        at = image.get(at, entry::NEXT);
        assert_ne!(at, 0, "no entry for inode {ino}");
    }
    at
}

pub(crate) fn chunk(image: &Image<'_>) -> u64 {
    image.good.of_kind(BlockKind::ChunkHeader)[0]
}

pub(crate) fn add<T: lanefs::format::Word>(image: &mut Image<'_>, at: u64, field: Field<T>, by: u64) {
    let value = image.get(at, field).to_bits();
    image.put(at, field, T::from_bits(value.wrapping_add(by)));
}

pub(crate) fn flip(image: &mut Image<'_>, at: u64, field: Field<u64>, bit: u64) {
    let value = image.get(at, field);
    image.put(at, field, value ^ 1 << bit);
}
