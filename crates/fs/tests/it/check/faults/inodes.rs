//! Faults of inodes, their links, their maps and their attributes.

use super::Fault;
use super::places::{SLOTS, chunk, data_of, entry_of, extent_at, list_block_end, pointers};
use lanefs::format::dir::entry;
use lanefs::format::{
    BLOCK, BlockSize, CHUNK, DirRoot, Field, INODE_CORE, Pointer, extent, inode, xattr_block,
};

pub(super) const FAULTS: &[Fault] = &[
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
];
