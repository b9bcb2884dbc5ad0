//! Faults of the structures that a volume has once or in tables: superblock, journal, orphan directory,
//! groups and chunks.

use super::Fault;
use super::places::{SLOTS, add, chunk, data_of, entry_of, first_leaf, flip, pointers};
use crate::check::image::Image;
use lanefs::FileKind;
use lanefs::format::dir::entry;
use lanefs::format::{
    BLOCK, BlockKind, CHUNK, Field, GROUP, JOURNAL_COMMIT, Pointer, SUPERBLOCK_COPY, chunk_entry,
    chunk_header, group, inode, journal_commit, journal_header, sums, sums_chunk, superblock::fields,
};

fn group_at(image: &Image<'_>) -> u64 {
    image.good.superblock.groups
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

pub(super) const FAULTS: &[Fault] = &[
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
];
