//! One planted fault for each invariant.

use crate::check::image::Image;
use lanefs::format::dir::{Slot, entry, index, leaf, tree};
use lanefs::format::{
    Array, BLOCK, BlockKind, BlockSize, CHUNK, DirRoot, Field, GROUP, INODE_CORE, JOURNAL_COMMIT, Pointer,
    SUPERBLOCK_COPY, UNIT, chunk_entry, chunk_header, dir_inode_128 as tail, extent, group, inode,
    journal_commit, journal_header, sums, sums_chunk, superblock::fields, xattr_block,
};
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

const SLOTS: Array<u64> = Array::at(0, 512);

fn root_block(image: &Image<'_>, dir: u64) -> u64 {
    image.inode(dir, image.size().dir_root()) & !(BLOCK - 1)
}

/// Position of the last entry of a list that is the last attribute in a block.
fn list_block_end(image: &Image<'_>, ino: u64) -> u64 {
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
fn data_of(image: &Image<'_>, ino: u64) -> u64 {
    image.get(extent_at(image, ino, 0), extent::POINTER)
}

/// The first leaf of a directory whose map has one level or none.
fn first_leaf(image: &Image<'_>, dir: u64) -> u64 {
    let word = image.inode(dir, inode::MAP);
    let p = Pointer::decode(word).expect("a pointer").expect("a leaf");
    if p.indirect { image.get(p.offset, SLOTS.index(0)) & !(BLOCK - 1) } else { p.offset }
}

fn second_leaf(image: &Image<'_>, dir: u64) -> u64 {
    image.get(pointers(image, dir), SLOTS.index(1)) & !(BLOCK - 1)
}

/// The first region's index block in a tree of one level.
fn first_index(image: &Image<'_>, dir: u64) -> u64 {
    image.get(root_block(image, dir), tree::POSITIONS.index(0))
}

fn first_dummy(image: &Image<'_>, dir: u64) -> u64 {
    image.get(first_index(image, dir), index::DUMMY)
}

/// The entry after the first dummy.
fn first_entry(image: &Image<'_>, dir: u64) -> u64 {
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

fn group_at(image: &Image<'_>) -> u64 {
    image.good.superblock.groups
}

fn chunk(image: &Image<'_>) -> u64 {
    image.good.of_kind(BlockKind::ChunkHeader)[0]
}

fn add<T: lanefs::format::Word>(image: &mut Image<'_>, at: u64, field: Field<T>, by: u64) {
    let value = image.get(at, field).to_bits();
    image.put(at, field, T::from_bits(value.wrapping_add(by)));
}

fn flip(image: &mut Image<'_>, at: u64, field: Field<u64>, bit: u64) {
    let value = image.get(at, field);
    image.put(at, field, value ^ 1 << bit);
}

/// Bit of a block in its group's bitmap.
fn flip_block(image: &mut Image<'_>, at: u64) {
    let (number, block) = (at / GROUP, at % GROUP / BLOCK);
    let group = group_at(image) + number * BLOCK;
    flip(image, group, group::BITMAP.index((block / 64) as usize), block % 64);
}

fn superblock(image: &mut Image<'_>, change: impl Fn(&mut lanefs::format::superblock::Superblock)) {
    let mut new = image.good.superblock.clone();
    change(&mut new);
    for at in [0, SUPERBLOCK_COPY] {
        image.write(at, &new.encode());
    }
}

/// Changes a block of the journal, and seals it again.
fn forge(image: &mut Image<'_>, at: u64, change: impl Fn(&mut [u8])) {
    let mut block = image.block(at);
    change(&mut block);
    let sums = image.good.superblock.sums();
    sums.seal(BlockKind::Journal, at, &mut block, 0);
    image.write(at, &block);
}

/// Changes the journal's header.
fn header<T: lanefs::format::Word>(image: &mut Image<'_>, field: Field<T>, value: T) {
    let at = image.good.superblock.journal;
    forge(image, at, |block| field.write(block, value));
}

pub(crate) type Fault = (&'static str, fn(&mut Image<'_>, &FixtureInodes));

/// Invariants, and a fault for each. Some appear twice, with the fault in another structure.
pub(crate) const FAULTS: &[Fault] = &[
    ("superblock-copy", |i, _| i.write(SUPERBLOCK_COPY, &[0; BLOCK as usize])),
    ("superblock-copy", |i, _| {
        let mut other = i.good.superblock.clone();
        other.label[0] ^= 1;
        i.write(0, &other.encode());
    }),
    ("superblock-state", |i, _| {
        for at in [0, SUPERBLOCK_COPY] {
            let mut block = i.block(at);
            fields::STATE.write(&mut block, 5);
            let sums = i.good.superblock.sums();
            sums.seal(BlockKind::Superblock, 0, &mut block, 0);
            i.write(at, &block);
        }
    }),
    ("journal", |i, _| {
        let at = i.good.superblock.journal;
        let mut block = i.block(at);
        block[20] ^= 1;
        i.write(at, &block);
    }),
    ("journal", |i, _| header(i, journal_header::TAIL, 0)),
    ("journal", |i, _| header(i, journal_header::TAIL, i.good.superblock.journal_blocks)),
    ("journal", |i, _| header(i, journal_header::SEQUENCE, 0)),
    ("journal", |i, _| header(i, journal_header::SEQUENCE, (1 << 62) - 1)),
    ("journal", |i, _| header(i, journal_header::SEQUENCE, u64::MAX)),
    // A record with a number that leaves none above it.
    ("journal", |i, _| {
        forge(i, i.good.superblock.journal + 5 * BLOCK, |block| {
            block.fill(0);
            journal_commit::KIND.write(block, BlockKind::Journal as u8);
            journal_commit::ROLE.write(block, JOURNAL_COMMIT);
            journal_commit::SEQUENCE.write(block, (1 << 62) - 1);
        });
    }),
    ("journal", |i, _| superblock(i, |s| s.journal = s.groups)),
    ("journal", |i, _| superblock(i, |s| s.journal = SUPERBLOCK_COPY - BLOCK)),
    ("journal", |i, _| {
        let at = chunk(i);
        superblock(i, |s| s.journal = at + 9 * BLOCK);
    }),
    ("journal", |i, _| superblock(i, |s| s.journal_blocks = (s.volume_bytes - s.journal) / BLOCK)),
    ("journal", |i, _| superblock(i, |s| s.journal_blocks = 3)),
    ("journal", |i, p| {
        let Ok(Some(data)) = Pointer::decode(i.get(pointers(i, p.mapped), SLOTS.index(0))) else { return };
        superblock(i, |s| s.journal = data.offset);
    }),
    ("free-blocks", |i, _| superblock(i, |s| s.free_blocks += 1)),
    ("inode-count", |i, _| superblock(i, |s| s.inodes -= 1)),
    ("orphan-directory", |i, _| superblock(i, |s| s.orphans = 0)),
    ("orphan-directory", |i, _| superblock(i, |s| s.orphans = 77)),
    ("orphan-directory", |i, _| superblock(i, |s| s.orphans = s.root)),
    ("orphan-directory", |i, p| {
        let mut new = i.good.superblock.clone();
        new.orphans = p.inline;
        for at in [0, SUPERBLOCK_COPY] {
            i.write(at, &new.encode());
        }
    }),
    ("orphan-directory", |i, p| i.put_inode(p.orphans, inode::MODE, 0)),
    ("orphan-entry", |i, p| {
        // The root is not a directory, and the entries must not be lost.
        let mut new = i.good.superblock.clone();
        new.orphans = p.small;
        for at in [0, SUPERBLOCK_COPY] {
            i.write(at, &new.encode());
        }
    }),
    ("orphan-entry", |i, p| {
        let at = entry_of(i, p.orphans, p.gone);
        i.put(at, entry::INODE, p.gone_directory);
    }),
    ("orphan-entry", |i, p| {
        let at = entry_of(i, p.orphans, p.gone);
        i.put(at, entry::INODE, p.root);
    }),
    ("orphan-named", |i, p| i.put_inode(p.gone, inode::LINKS, 1)),
    ("orphan-named", |i, p| i.put_inode(p.gone_directory, inode::LINKS, 2)),
    ("orphan-named", |i, p| {
        let at = entry_of(i, p.root, p.short);
        i.put(at, entry::INODE, p.gone);
        i.put(at, entry::KIND, FileKind::File as u8);
    }),
    ("orphan-not-empty", |i, p| {
        // The two directories swap their inodes.
        let (one, two) = (i.inode_at(p.small), i.inode_at(p.gone_directory));
        for word in 0..i.size().bytes() as usize / 8 {
            let field = Field::<u64>::at(8 * word);
            let (a, b) = (i.get(one, field), i.get(two, field));
            i.put(one, field, b);
            i.put(two, field, a);
        }
        i.put_inode(p.small, inode::LINKS, 2);
        i.put_inode(p.gone_directory, inode::LINKS, 0);
    }),
    ("inode-unreachable", |i, p| {
        // A listed inode is removed from the list.
        let at = entry_of(i, p.orphans, p.gone);
        i.put(at, entry::INODE, p.gone_directory);
    }),
    ("link-count", |i, p| i.put_inode(p.orphans, inode::LINKS, 3)),
    ("parent", |i, p| i.put_inode(p.orphans, inode::PARENT_OR_DEVICE, p.root)),
    ("parent", |i, p| i.put_inode(p.gone_directory, inode::PARENT_OR_DEVICE, p.root)),
    ("directory-linked-twice", |i, p| {
        let at = entry_of(i, p.a, p.empty);
        i.put(at, entry::INODE, p.orphans);
    }),
    ("root-directory", |i, _| superblock(i, |s| s.root = 77)),
    ("root-directory", |i, p| i.put_inode(p.root, inode::MODE, 0)),
    ("root-directory", |i, p| i.put_inode(p.root, inode::MODE, 0o100_644)),
    ("group-checksum", |i, _| i.spoil(group_at(i))),
    ("group-owner", |i, _| i.put(group_at(i), group::OWNER, 3)),
    ("group-free", |i, _| add(i, group_at(i), group::FREE, 1)),
    ("group-end", |i, _| flip(i, group_at(i), group::BITMAP.index(503), 63)),
    ("group-metadata", |i, _| {
        let bit = chunk(i) / CHUNK;
        flip(i, group_at(i), group::METADATA, bit);
    }),
    ("group-metadata", |i, _| flip(i, group_at(i), group::METADATA, 7)),
    ("group-metadata", |i, _| flip(i, group_at(i), group::METADATA, 0)),
    ("group-room", |i, _| i.put(group_at(i), group::ROOM, 0)),
    ("group-room", |i, _| flip(i, group_at(i), group::ROOM, 7)),
    ("group-inode-room", |i, _| i.put(group_at(i), group::INODE_ROOM, 0)),
    ("block-not-marked", |i, p| {
        let at = data_of(i, p.block) & !0xfff;
        flip_block(i, at);
    }),
    ("block-not-marked", |i, _| flip_block(i, SUPERBLOCK_COPY)),
    ("block-leaked", |i, _| {
        let at = i.good.superblock.volume_bytes - 9 * BLOCK;
        flip_block(i, at);
    }),
    ("chunk-checksum", |i, _| i.spoil(chunk(i))),
    ("chunk-checksum", |i, _| i.spoil(chunk(i) + BLOCK)),
    ("sums-checksum", |i, _| i.spoil(sums_chunk(0) + 5 * BLOCK)),
    ("sums-owner", |i, _| i.put(sums_chunk(0) + 5 * BLOCK, sums::OWNER, 1)),
    ("sums-owner", |i, _| i.put(sums_chunk(0) + 5 * BLOCK, sums::NUMBER, 4)),
    ("group-metadata", |i, _| flip(i, group_at(i), group::METADATA, sums_chunk(0) / CHUNK)),
    // The second group has file data, and no metadata but their checksums.
    ("sums-missing", |i, _| flip(i, group_at(i) + BLOCK, group::METADATA, 0)),
    ("chunk-entry-kind", |i, _| {
        i.put(Image::entry_of(sums_chunk(0) + 5 * BLOCK), chunk_entry::KIND, BlockKind::Leaf as u8);
    }),
    ("chunk-entry-owner", |i, _| i.put(Image::entry_of(sums_chunk(0) + 5 * BLOCK), chunk_entry::OWNER, 7)),
    ("chunk-used", |i, _| add(i, chunk(i), chunk_header::USED, 1)),
    ("chunk-entry-kind", |i, p| {
        let at = Image::entry_of(first_leaf(i, p.tree));
        i.put(at, chunk_entry::KIND, BlockKind::Tree as u8);
    }),
    ("chunk-entry-kind", |i, p| {
        let at = Image::entry_of(pointers(i, p.mapped));
        i.put(at, chunk_entry::KIND, 0);
    }),
    ("chunk-entry-kind", |i, p| {
        let at = Image::entry_of(i.inode_at(p.mapped) & !(BLOCK - 1));
        i.put(at, chunk_entry::KIND, 0);
    }),
    ("chunk-entry-kind", |i, p| {
        let at = Image::entry_of(i.inode_at(p.mapped) & !(BLOCK - 1));
        i.put(at, chunk_entry::KIND, 77);
    }),
    ("chunk-entry-kind", |i, p| {
        let at = Image::entry_of(i.inode_at(p.mapped) & !(BLOCK - 1));
        i.put(at, chunk_entry::KIND, BlockKind::Leaf as u8);
    }),
    ("chunk-entry-owner", |i, p| {
        let at = Image::entry_of(first_leaf(i, p.tree));
        i.put(at, chunk_entry::OWNER, p.small);
    }),
    ("chunk-entry-owner", |i, p| {
        let at = Image::entry_of(i.inode_at(p.mapped) & !(BLOCK - 1));
        i.put(at, chunk_entry::OWNER, 5);
    }),
    ("chunk-entry-used", |i, p| {
        let at = Image::entry_of(i.inode_at(p.mapped) & !(BLOCK - 1));
        add(i, at, chunk_entry::USED, 255);
    }),
    ("chunk-entry-zero", |i, p| {
        let at = Image::entry_of(first_leaf(i, p.tree));
        i.put(at, chunk_entry::CHECKSUM, 5);
    }),
    ("chunk-entry-zero", |i, p| {
        let at = Image::entry_of(pointers(i, p.mapped));
        i.put(at, chunk_entry::USED, 5);
    }),
    ("chunk-entry-zero", |i, p| {
        let at = Image::entry_of(i.inode_at(p.mapped) & !(BLOCK - 1));
        i.put(at, chunk_entry::CHECKSUM, 5);
    }),
    ("metadata-leaked", |i, p| {
        let at = (2..512).map(|b| chunk(i) + b * BLOCK).find(|at| !i.good.kinds.contains_key(at));
        let at = Image::entry_of(at.expect("a free block"));
        i.put(at, chunk_entry::KIND, BlockKind::Leaf as u8);
        i.put(at, chunk_entry::OWNER, p.small);
        let header = at & !(CHUNK - 1);
        add(i, header, chunk_header::USED, 1);
    }),
    ("chunk-empty", |i, _| {
        // A free chunk that is marked as metadata, with an empty table that verifies.
        let at = 6 * CHUNK;
        i.put(at, chunk_header::KIND, BlockKind::ChunkHeader as u8);
        i.put(at, chunk_header::OWNER, at);
        i.put(at, chunk_header::USED, 2);
        let sums = i.good.superblock.sums();
        let second = sums.of(at + BLOCK, &[0; BLOCK as usize], None);
        i.put(at, chunk_header::CHECKSUM2, second);
        let sum = sums.of(at, &i.block(at), Some(chunk_header::CHECKSUM));
        i.put(at, chunk_header::CHECKSUM, sum);
        flip(i, group_at(i), group::METADATA, 6);
        for word in 0..8 {
            i.put(group_at(i), group::BITMAP.index(6 * 8 + word), u64::MAX);
        }
        add(i, group_at(i), group::FREE, 512u64.wrapping_neg());
    }),
    ("inode-checksum", |i, p| {
        i.seal();
        let at = i.inode_at(p.mapped);
        let mut block = i.block(at);
        block[(at % BLOCK) as usize + 9] ^= 1;
        lanefs::Device::write_slice(&i.device, at & !(BLOCK - 1), &block).expect("inside");
    }),
    ("inode-checksum", |i, p| i.spoil(i.inode_at(p.mapped))),
    ("inode-mode", |i, p| i.put_inode(p.mapped, inode::MODE, 0o170_644)),
    ("inode-mode", |i, p| i.put_inode(p.tree, inode::MODE, 0o644)),
    ("inode-flags", |i, p| i.put_inode(p.fifo, inode::FLAGS, 1)),
    ("inode-flags", |i, p| i.put_inode(p.tree, inode::FLAGS, 0x8000 | 1)),
    ("inode-flags", |i, p| i.put_inode(p.inline, inode::FLAGS, 0x1000 | 1)),
    ("inode-flags", |i, p| i.put_inode(p.mapped, inode::FLAGS, 0x1000 | 0x100)),
    // Only the orphan directory may have this one.
    ("inode-flags", |i, p| i.put_inode(p.empty, inode::FLAGS, 4)),
    ("inode-flags", |i, p| i.put_inode(p.short, inode::FLAGS, 16 | 1)),
    ("inode-flags", |i, p| i.put_inode(p.fifo, inode::FLAGS, 32)),
    ("acl-flag", |i, p| i.put_inode(p.fifo, inode::FLAGS, 16)),
    ("acl-flag", |i, p| i.put_inode(p.listed, inode::FLAGS, i.inode(p.listed, inode::FLAGS) & !16)),
    ("acl-flag", |i, p| i.put_inode(p.empty, inode::FLAGS, i.inode(p.empty, inode::FLAGS) | 32)),
    ("acl-flag", |i, p| i.put_inode(p.both, inode::FLAGS, i.inode(p.both, inode::FLAGS) & !32)),
    ("acl-mode", |i, p| i.put_inode(p.listed, inode::MODE, 0o100_777)),
    ("acl-mode", |i, p| i.put_inode(p.both, inode::MODE, 0o040_700)),
    // The tag of the last entry.
    ("acl-format", |i, p| {
        let end = i.inode_at(p.listed) + i.size().bytes();
        let last =
            if i.inode(p.listed, inode::XATTR) < BLOCK { end - 8 } else { list_block_end(i, p.listed) };
        i.put(last, Field::<u16>::at(0), 64);
    }),
    ("acl-format", |i, p| {
        let last = list_block_end(i, p.both);
        i.put(last, Field::<u16>::at(0), 64);
    }),
    ("inode-size", |i, p| i.put_inode(p.inline, inode::BYTES, 161)),
    ("inode-size", |i, p| i.put_inode(p.mapped, inode::BYTES, u64::MAX)),
    ("inode-size", |i, p| i.put_inode(p.long, inode::BYTES, 5000)),
    ("inode-size", |i, p| i.put_inode(p.fifo, inode::BYTES, 1)),
    ("inode-end", |i, p| i.put_inode(p.mapped, inode::BYTES, 1)),
    ("inode-end", |i, p| i.put_inode(p.extents, inode::BYTES, 0)),
    ("inode-end", |i, p| i.put(extent_at(i, p.extents, 1), extent::FIRST, u32::MAX)),
    ("inode-end", |i, p| i.put(extent_at(i, p.long, 0), extent::BLOCKS, 2)),
    ("inode-end", |i, p| i.put(extent_at(i, p.long, 0), extent::FIRST, 1)),
    ("inode-generation", |i, p| i.put_inode(p.short, inode::GENERATION, 0)),
    ("inode-map", |i, p| i.put_inode(p.fifo, inode::MAP, 0x0060_0005)),
    ("inode-map", |i, p| i.put_inode(p.mapped, inode::FLAGS, 0xf00)),
    ("inode-map", |i, p| i.put_inode(p.inline, inode::MAP, 0x0060_0005)),
    ("inode-map", |i, p| i.put_inode(p.mapped, inode::FLAGS, 0)),
    ("inode-map", |i, p| i.put_inode(p.block, inode::MAP, 0x0060_0005)),
    ("inode-rdev", |i, p| i.put_inode(p.short, inode::PARENT_OR_DEVICE, 1)),
    ("inode-blocks", |i, p| i.put_inode(p.mapped, inode::BLOCKS, 1)),
    ("inode-blocks", |i, p| i.put_inode(p.tree, inode::BLOCKS, u64::MAX)),
    ("inode-tail", |i, p| {
        let at = i.inode_at(p.inline) + INODE_CORE as u64;
        i.put(at, Field::<u8>::at(20), 1);
    }),
    ("inode-tail", |i, p| i.put(extent_at(i, p.block, 1), extent::BLOCKS, 1)),
    ("inode-tail", |i, p| i.put(extent_at(i, p.mapped, 0), extent::BLOCKS, 1)),
    ("link-count", |i, p| i.put_inode(p.sparse, inode::LINKS, 1)),
    ("link-count", |i, p| i.put_inode(p.b, inode::LINKS, 9)),
    ("parent", |i, p| {
        i.put_inode(p.c, inode::PARENT_OR_DEVICE, p.root);
    }),
    ("parent", |i, p| {
        i.put_inode(p.root, inode::PARENT_OR_DEVICE, p.a);
    }),
    ("inode-unreachable", |i, p| {
        // The entry of /short names /long instead.
        let at = entry_of(i, p.root, p.short);
        i.put(at, entry::INODE, p.long);
    }),
    ("directory-cycle", |i, p| {
        // /a/b/c replaces /a in /, and /a replaces /a/b/c.
        let (up, down) = (entry_of(i, p.root, p.a), entry_of(i, p.b, p.c));
        i.put(up, entry::INODE, p.c);
        i.put(down, entry::INODE, p.a);
    }),
    ("directory-linked-twice", |i, p| {
        let at = entry_of(i, p.a, p.empty);
        i.put(at, entry::INODE, p.region);
    }),
    ("directory-linked-twice", |i, p| {
        let at = entry_of(i, p.a, p.empty);
        i.put(at, entry::INODE, p.root);
    }),
    ("map-pointer", |i, p| i.put(pointers(i, p.mapped), SLOTS.index(2), 0x60)),
    ("map-pointer", |i, p| {
        let word = Pointer::data(8 * CHUNK, BlockSize::Medium).word();
        i.put(pointers(i, p.mapped), SLOTS.index(2), word);
    }),
    ("map-pointer", |i, p| {
        let word = Pointer::data(8 * CHUNK, BlockSize::Small).word();
        i.put_inode(p.mapped, inode::MAP, word);
    }),
    ("map-pointer", |i, p| i.put(extent_at(i, p.extents, 1), extent::POINTER, 0x0060_0004)),
    ("map-pointer", |i, p| {
        let word = Pointer::indirect(pointers(i, p.mapped)).word();
        i.put(extent_at(i, p.extents, 0), extent::POINTER, word);
    }),
    ("extent-range", |i, p| i.put(extent_at(i, p.extents, 0), extent::BLOCKS, 0)),
    // The second extent begins before the end of the first one.
    ("extent-range", |i, p| i.put(extent_at(i, p.extents, 1), extent::FIRST, 0)),
    ("extent-range", |i, p| i.put(extent_at(i, p.extents, 0), extent::FIRST, 100)),
    ("extent-count", |i, p| i.put_inode(p.extents, inode::FLAGS, 0xf000)),
    ("map-outside", |i, p| i.put(extent_at(i, p.extents, 1), extent::BLOCKS, u32::MAX)),
    ("block-owned-twice", |i, p| {
        let other = data_of(i, p.block);
        i.put(extent_at(i, p.extents, 0), extent::POINTER, other);
    }),
    ("block-owned-twice", |i, p| {
        // Two extents of one file.
        let other = data_of(i, p.extents);
        i.put(extent_at(i, p.extents, 1), extent::POINTER, other);
    }),
    ("data-in-metadata", |i, p| {
        let word = Pointer::data(chunk(i) + 300 * BLOCK, BlockSize::Small).word();
        i.put(extent_at(i, p.extents, 1), extent::POINTER, word);
    }),
    ("map-outside", |i, p| {
        let word = Pointer::data(1 << 40, BlockSize::Small).word();
        i.put(pointers(i, p.mapped), SLOTS.index(2), word);
    }),
    ("map-outside", |i, p| i.put_inode(p.sparse, inode::XATTR, (1 << 40) + 4095)),
    ("xattr-length", |i, p| i.put_inode(p.sparse, inode::XATTR, 4095)),
    ("xattr-length", |i, p| i.put_inode(p.inline, inode::XATTR, i.size().inline() as u64)),
    ("xattr-length", |i, p| i.put_inode(p.tree, inode::XATTR, i.size().inline() as u64)),
    // The first byte of the only attribute, which says how long its name is.
    ("xattr-format", |i, p| {
        let end = i.inode_at(p.fifo) + i.size().bytes();
        let at = end - i.inode(p.fifo, inode::XATTR);
        i.put(at, Field::<u8>::at(0), 200);
    }),
    ("map-empty", |i, p| {
        let top = pointers(i, p.sparse);
        let below = i.get(top, SLOTS.index(0)) & !0xfff;
        let mut at = below;
        for _ in 0..3 {
            let next = (0..512).map(|s| i.get(at, SLOTS.index(s))).find(|w| *w != 0).expect("a pointer");
            match Pointer::decode(next) {
                Ok(Some(p)) if p.indirect => at = p.offset,
                _ => break,
            }
        }
        for s in 0..512 {
            i.put(at, SLOTS.index(s), 0);
        }
    }),
    ("data-in-metadata", |i, p| {
        let word = Pointer::data(chunk(i) + 300 * BLOCK, BlockSize::Small).word();
        i.put(pointers(i, p.mapped), SLOTS.index(30), word);
    }),
    ("metadata-place", |i, p| {
        let word = Pointer::indirect(5 * CHUNK).word();
        i.put_inode(p.mapped, inode::MAP, word);
    }),
    ("metadata-place", |i, p| i.put_inode(p.tree, i.size().dir_root(), DirRoot::Tree(chunk(i)).word())),
    ("block-owned-twice", |i, p| {
        let other = data_of(i, p.block);
        i.put(pointers(i, p.mapped), SLOTS.index(0), other);
    }),
    ("block-owned-twice", |i, p| {
        let other = i.inode(p.mapped, inode::MAP);
        i.put_inode(p.big, inode::MAP, other);
        i.put_inode(p.big, inode::FLAGS, 0x100);
    }),
    ("block-owned-twice", |i, p| {
        let other = i.inode(p.region, inode::MAP);
        i.put_inode(p.tree, inode::MAP, other);
    }),
    // The other way round: in order of their numbers, the wrong directory comes first.
    ("block-owned-twice", |i, p| {
        let other = i.inode(p.tree, inode::MAP);
        i.put_inode(p.region, inode::MAP, other);
    }),
    ("block-owned-twice", |i, p| {
        let other = i.get(pointers(i, p.tree), SLOTS.index(2));
        i.put(pointers(i, p.region), SLOTS.index(1), other);
    }),
    ("block-owned-twice", |i, p| {
        let other = i.get(pointers(i, p.tree), SLOTS.index(2));
        i.put_inode(p.small, inode::MAP, other);
    }),
    ("block-owned-twice", |i, p| {
        let other = i.inode(p.tree, i.size().dir_root());
        i.put_inode(p.region, i.size().dir_root(), other);
    }),
    ("pointers-checksum", |i, p| i.spoil(pointers(i, p.mapped))),
    ("pointers-checksum", |i, p| i.spoil(pointers(i, p.tree))),
    ("xattr-checksum", |i, p| i.spoil(i.inode(p.sparse, inode::XATTR))),
    ("xattr-owner", |i, p| i.put(i.inode(p.sparse, inode::XATTR), xattr_block::OWNER, p.a)),
    ("xattr-length", |i, p| i.put(i.inode(p.sparse, inode::XATTR), xattr_block::LENGTH, 5000)),
    ("xattr-format", |i, p| i.put(i.inode(p.sparse, inode::XATTR) + 32, Field::<u16>::at(0), 999)),
    ("xattr-format", |i, p| i.put(i.inode(p.long, inode::XATTR) + 32, Field::<u16>::at(0), 0)),
    ("block-owned-twice", |i, p| {
        let first = i.inode(p.sparse, inode::XATTR);
        i.put(first, xattr_block::NEXT, first);
    }),
    ("directory-size", |i, p| i.put_inode(p.tree, inode::BYTES, BLOCK)),
    ("directory-size", |i, p| i.put_inode(p.tree, inode::BYTES, 1 << 40)),
    ("directory-size", |i, p| add(i, i.inode_at(p.tree), inode::BYTES, 1)),
    ("directory-root", |i, p| i.put_inode(p.small, i.size().dir_root(), 0)),
    ("directory-root", |i, p| i.put_inode(p.empty, i.size().dir_root(), DirRoot::Small(6 * CHUNK).word())),
    ("directory-root", |i, p| i.put_inode(p.tree, i.size().dir_root(), 4)),
    ("directory-root", |i, p| {
        let root = i.inode(p.tree, i.size().dir_root());
        i.put_inode(p.tree, i.size().dir_root(), root + (1 << DirRoot::COUNT_SHIFT));
    }),
    ("leaf-checksum", |i, p| i.spoil(second_leaf(i, p.tree))),
    ("leaf-checksum", |i, p| i.spoil(first_leaf(i, p.small))),
    ("leaf-owner", |i, p| i.put(second_leaf(i, p.tree), leaf::OWNER, p.small)),
    ("leaf-place", |i, p| i.put(second_leaf(i, p.tree), leaf::NUMBER, 7)),
    ("leaf-bitmap", |i, p| flip(i, first_leaf(i, p.tree), leaf::UNITS.index(0), 9)),
    ("leaf-bitmap", |i, p| flip(i, first_leaf(i, p.tree), leaf::UNITS.index(0), 1)),
    ("leaf-free", |i, p| add(i, first_leaf(i, p.tree), leaf::FREE, 1)),
    ("room-list", |i, p| i.put(i.inode_at(p.tree) + INODE_CORE as u64, tail::ROOM, 0)),
    ("room-list", |i, p| {
        let at = i.get(i.inode_at(p.tree) + INODE_CORE as u64, tail::ROOM);
        i.put(at, leaf::NEXT, at);
    }),
    ("entry-name", |i, p| i.put(first_entry(i, p.tree) + 32, Field::<u8>::at(0), b'/')),
    ("entry-name", |i, p| i.put(first_entry(i, p.tree) + 32, Field::<u8>::at(1), 0)),
    ("entry-hash", |i, p| add(i, first_entry(i, p.tree), entry::HASH, 1)),
    ("entry-count", |i, p| i.put(first_entry(i, p.tree), entry::COUNT, 1)),
    ("entry-count", |i, p| i.put(first_dummy(i, p.tree), entry::KIND, 4)),
    ("entry-duplicate", |i, p| {
        // /a/b/f2 is named f1 as well.
        let volume = i.reopen();
        let dir = volume.lookup(&lanefs::Caller::OWNER, lanefs::Ino(p.b), b"f2").expect("lookup").0;
        drop(volume);
        let (one, two) = (entry_of(i, p.b, p.inline), entry_of(i, p.b, dir.0));
        let (name, hash) = (i.get(one + 32, Field::<u16>::at(0)), i.get(one, entry::HASH));
        i.put(two + 32, Field::<u16>::at(0), name);
        i.put(two, entry::HASH, hash);
    }),
    ("entry-inode", |i, p| i.put(first_entry(i, p.tree), entry::INODE, 99_999_999)),
    ("entry-inode", |i, p| i.put(first_entry(i, p.tree), entry::INODE, u64::MAX)),
    ("entry-type", |i, p| i.put(first_entry(i, p.tree), entry::KIND, FileKind::Fifo as u8)),
    ("entry-type", |i, p| i.put(first_entry(i, p.tree), entry::KIND, 99)),
    ("list-link", |i, p| add(i, first_entry(i, p.tree), entry::PREVIOUS, 16)),
    ("list-link", |i, p| i.put(first_entry(i, p.tree), entry::NEXT, 3)),
    ("list-cycle", |i, p| {
        let (at, dummy) = (first_entry(i, p.tree), first_dummy(i, p.tree));
        i.put(at, entry::NEXT, dummy);
    }),
    ("list-missing", |i, p| i.put(first_entry(i, p.tree), entry::NEXT, 0)),
    ("region-order", |i, p| i.put(first_dummy(i, p.tree), entry::HASH, 1)),
    ("region-order", |i, p| {
        let second = i.get(i.get(root_block(i, p.tree), tree::POSITIONS.index(1)), index::DUMMY);
        i.put(second, entry::HASH, 0);
    }),
    ("region-hash", |i, p| {
        let second = i.get(i.get(root_block(i, p.tree), tree::POSITIONS.index(1)), index::DUMMY);
        i.put(second, entry::HASH, 16);
        i.put(root_block(i, p.tree), tree::HASHES.index(1), 16);
    }),
    ("region-count", |i, p| add(i, first_dummy(i, p.tree), entry::COUNT, 1)),
    ("region-size", |i, p| {
        // A dummy is unlinked, so that the two regions with the most entries become one.
        let root = root_block(i, p.tree);
        let dummy = |rank: usize| i.get(i.get(root, tree::POSITIONS.index(rank)), index::DUMMY);
        let entries = |rank: usize| i.get(dummy(rank), entry::COUNT);
        let regions = 1..usize::from(i.get(root, tree::COUNT));
        let second =
            regions.max_by_key(|rank| entries(rank - 1) + entries(*rank)).map(dummy).expect("two regions");
        let (before, after) = (i.get(second, entry::PREVIOUS), i.get(second, entry::NEXT));
        i.put(before, entry::NEXT, after);
        i.put(after, entry::PREVIOUS, before);
    }),
    ("region-index", |i, p| {
        let at = first_index(i, p.tree);
        i.put(first_dummy(i, p.tree), entry::INODE, at + BLOCK);
    }),
    ("region-index", |i, p| i.put(root_block(i, p.tree), tree::COUNT, 2)),
    ("region-index", |i, p| i.put(first_leaf(i, p.small) + 5 * UNIT, entry::INODE, 4096)),
    ("tree-checksum", |i, p| i.spoil(root_block(i, p.tree))),
    ("tree-owner", |i, p| i.put(root_block(i, p.tree), tree::OWNER, p.small)),
    ("tree-level", |i, p| i.put(root_block(i, p.tree), tree::LEVEL, 6)),
    ("tree-count", |i, p| i.put(root_block(i, p.tree), tree::COUNT, 0)),
    ("tree-count", |i, p| i.put(root_block(i, p.tree), tree::COUNT, 300)),
    ("tree-form", |i, p| i.put(root_block(i, p.tree), tree::FORMS.index(1), 3)),
    ("tree-order", |i, p| i.put(root_block(i, p.tree), tree::HASHES.index(1), 0)),
    ("tree-order", |i, p| i.put(root_block(i, p.tree), tree::HASHES.index(0), 5)),
    ("index-checksum", |i, p| i.spoil(first_index(i, p.tree))),
    ("index-checksum", |i, p| i.spoil(root_block(i, p.region))),
    ("index-owner", |i, p| i.put(first_index(i, p.tree), index::OWNER, p.small)),
    ("index-slots", |i, p| {
        let at = first_index(i, p.tree);
        let slot =
            (0..504).find(|s| Slot(i.get(at, index::SLOTS.index(*s))).position() != 0).expect("a slot");
        i.put(at, index::SLOTS.index(slot), 0);
    }),
    ("index-probe", |i, p| {
        // A slot moves to the bucket after its own, and no bit says so.
        let at = root_block(i, p.region);
        let find = |i: &Image<'_>, bucket: usize, used: bool| {
            (1..8).find(|s| (Slot(i.get(at, index::SLOTS.index(bucket * 8 + s))).position() != 0) == used)
        };
        let clear = |i: &Image<'_>, b: usize| i.get(at, index::SLOTS.index(b * 8)) & Slot::OVERFLOW == 0;
        let bucket =
            (0..62).find(|b| find(i, *b, true).is_some() && find(i, b + 1, false).is_some() && clear(i, *b));
        let bucket = bucket.expect("a bucket");
        let (from, to) =
            (find(i, bucket, true).expect("a slot"), find(i, bucket + 1, false).expect("a free slot"));
        let slot = i.get(at, index::SLOTS.index(bucket * 8 + from));
        i.put(at, index::SLOTS.index(bucket * 8 + from), 0);
        i.put(at, index::SLOTS.index((bucket + 1) * 8 + to), slot);
    }),
    ("index-unindexed", |i, p| i.put(first_index(i, p.tree), index::UNINDEXED, 1)),
    ("small-index", |i, p| {
        let at = i.inode_at(p.small) + i.size().small_tags() as u64;
        add(i, at, Field::<u8>::at(0), 1);
    }),
    ("small-index", |i, p| {
        let at = i.inode_at(p.region) + i.size().small_units() as u64;
        i.put(at, Field::<u8>::at(1), 9);
    }),
];
