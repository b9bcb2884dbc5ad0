//! Faults of directories: leaves, entries, the list of entries, regions and their trees and indexes.

use super::Fault;
use super::places::{
    add, entry_of, first_dummy, first_entry, first_index, first_leaf, flip, root_block, second_leaf,
};
use crate::check::image::Image;
use lanefs::FileKind;
use lanefs::format::dir::{Slot, entry, index, leaf, tree};
use lanefs::format::{BLOCK, CHUNK, DirRoot, Field, INODE_CORE, UNIT, dir_inode_128 as tail, inode};

pub(super) const FAULTS: &[Fault] = &[
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
