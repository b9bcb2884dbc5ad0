//! Ways to damage an image.

use super::editor::Editor;
use super::image::MetadataBlock;
use crate::seeded::Seeded;
use lanefs_format::{
    BLOCK, BlockKind, INODE_EXTENTS_MASK, INODE_EXTENTS_SHIFT, JOURNAL_COMMIT, JOURNAL_HEADER, Layout,
    STRUCTURES, SUPERBLOCK_COPY, chunk_entry, dir, extent, inode, journal_descriptor,
};

/// Damages an image once to four times and describes how. Half of the images get valid checksums.
pub fn mutate(editor: &mut Editor<'_>, numbers: &mut Seeded) -> Vec<String> {
    let times = if numbers.chance(60) { 1 } else { numbers.between(2, 4) };
    let mut told: Vec<String> = (0..times).map(|_| one(editor, numbers)).collect();
    let sealed = numbers.chance(50);
    if numbers.chance(50) {
        told.extend(copy_superblock(editor));
    }
    if sealed {
        editor.seal();
        told.push("sealed".to_owned());
    }
    told
}

/// Makes both copies of the superblock alike where one of them was damaged: otherwise a reader takes the
/// other.
fn copy_superblock(editor: &mut Editor<'_>) -> Option<String> {
    let copies = [0, SUPERBLOCK_COPY];
    let damaged = copies.into_iter().find(|at| editor.block(*at) != editor.base().block(*at))?;
    let block = editor.block(damaged).to_vec();
    for at in copies {
        editor.edit(at).copy_from_slice(&block);
    }
    Some("both superblocks alike".to_owned())
}

fn one(editor: &mut Editor<'_>, numbers: &mut Seeded) -> String {
    let block = pick(editor, numbers);
    match numbers.below(100) {
        0..12 => flip(editor, numbers, block),
        12..18 => overwrite(editor, numbers, block),
        18..24 => exchange(editor, numbers, block),
        24..50 => bend(editor, numbers, block),
        50..74 => field(editor, numbers, block),
        74..79 => map(editor, numbers),
        79..90 => link(editor, numbers),
        90..96 => entry_of_table(editor, numbers, block),
        _ => resize(editor, numbers),
    }
}

/// A block of metadata: first a kind, then one of that kind, so that rare kinds get their share.
fn pick(editor: &Editor<'_>, numbers: &mut Seeded) -> MetadataBlock {
    let metadata = &editor.base().metadata;
    for _ in 0..8 {
        let kind = *numbers.pick(&BlockKind::ALL);
        let count = metadata.iter().filter(|block| block.kind == kind).count() as u64;
        if count > 0 {
            let nth = numbers.below(count) as usize;
            if let Some(block) = metadata.iter().filter(|block| block.kind == kind).nth(nth) {
                return *block;
            }
        }
    }
    *numbers.pick(metadata)
}

fn flip(editor: &mut Editor<'_>, numbers: &mut Seeded, block: MetadataBlock) -> String {
    let count = numbers.between(1, 8);
    let mut offsets = Vec::new();
    for _ in 0..count {
        let bit = numbers.below(BLOCK * 8);
        editor.edit(block.at)[(bit / 8) as usize] ^= 1 << (bit % 8);
        offsets.push(bit / 8);
    }
    format!("bits flipped in {:?} {:#x} at {offsets:?}", block.kind, block.at)
}

fn overwrite(editor: &mut Editor<'_>, numbers: &mut Seeded, block: MetadataBlock) -> String {
    let from = numbers.below(BLOCK) as usize;
    let len = (numbers.length(BLOCK) as usize + 1).min(BLOCK as usize - from);
    let byte = *numbers.pick(&[0, 0xff, 0x41]);
    let noise = numbers.chance(50);
    for out in &mut editor.edit(block.at)[from..from + len] {
        *out = if noise { numbers.bits() as u8 } else { byte };
    }
    format!("{:?} {:#x}: {len} bytes at {from} overwritten", block.kind, block.at)
}

fn exchange(editor: &mut Editor<'_>, numbers: &mut Seeded, block: MetadataBlock) -> String {
    let same: Vec<MetadataBlock> =
        editor.base().metadata.iter().filter(|other| other.kind == block.kind).copied().collect();
    let other = if numbers.chance(70) { *numbers.pick(&same) } else { pick(editor, numbers) };
    let (one, two) = (editor.block(block.at).to_vec(), editor.block(other.at).to_vec());
    editor.edit(block.at).copy_from_slice(&two);
    let both = numbers.chance(60);
    if both {
        editor.edit(other.at).copy_from_slice(&one);
    }
    format!(
        "{:?} {:#x} {} {:?} {:#x}",
        block.kind,
        block.at,
        if both { "swapped with" } else { "copied from" },
        other.kind,
        other.at
    )
}

/// A wrong number that might pass for a right one.
fn wrong(editor: &Editor<'_>, numbers: &mut Seeded, at: u64, old: u64) -> u64 {
    let size = editor.base().size;
    match numbers.below(16) {
        0 => 0,
        1 => u64::MAX,
        2 => old.wrapping_add(1),
        3 => old.wrapping_sub(1),
        4 => old ^ 1 << numbers.below(64),
        5 => at | old & 0xfff,
        6 => size | old & 0x7f,
        7 => (size - BLOCK) | old & 0x7f,
        8 => old.wrapping_add(*numbers.pick(&[16, 64, 128, 256, 4096, 2 << 20])),
        9 => old.wrapping_sub(*numbers.pick(&[16, 64, 128, 256, 4096, 2 << 20])),
        10 => numbers.bits(),
        11 => 1 << numbers.below(64),
        12 => numbers.below(4096),
        // The position of another structure, of the same kind or not; the low bits stay.
        13 => pick(editor, numbers).at | old & 0xfff,
        14 => pick(editor, numbers).at | numbers.below(4096),
        _ => {
            let other = pick(editor, numbers).at;
            let word = numbers.below(BLOCK / 8) as usize * 8;
            word_at(editor.block(other), word)
        }
    }
}

fn word_at(block: &[u8], offset: usize) -> u64 {
    block.get(offset..offset + 8).map_or(0, |eight| {
        let mut word = [0; 8];
        word.copy_from_slice(eight);
        u64::from_le_bytes(word)
    })
}

/// Changes any 64-bit word of metadata, preferably one that is set.
fn bend(editor: &mut Editor<'_>, numbers: &mut Seeded, block: MetadataBlock) -> String {
    let words: Vec<usize> =
        (0..BLOCK as usize).step_by(8).filter(|w| word_at(editor.block(block.at), *w) != 0).collect();
    let offset = if words.is_empty() || numbers.chance(10) {
        numbers.below(BLOCK / 8) as usize * 8
    } else {
        *numbers.pick(&words)
    };
    let old = word_at(editor.block(block.at), offset);
    let new = wrong(editor, numbers, block.at, old);
    editor.edit(block.at)[offset..offset + 8].copy_from_slice(&new.to_le_bytes());
    format!("{:?} {:#x}: word at {offset} is {new:#x}, was {old:#x}", block.kind, block.at)
}

/// Returns the structure that fills a kind of block, and where copies of it may start.
fn structure(editor: &Editor<'_>, numbers: &mut Seeded, block: MetadataBlock) -> (Layout, usize) {
    let named = |name: &str| STRUCTURES.iter().find(|s| s.name == name).copied().unwrap_or(STRUCTURES[0]);
    match block.kind {
        BlockKind::Superblock => (named("fields"), 0),
        BlockKind::Group => (named("group"), 0),
        BlockKind::ChunkHeader => (named("chunk_entry"), numbers.below(256) as usize * chunk_entry::SIZE),
        BlockKind::Pointers => (named("chunk_entry"), numbers.below(256) as usize * 16),
        BlockKind::Tree => (named("tree"), 0),
        BlockKind::Index => (named("index"), 0),
        BlockKind::Xattr => (named("xattr_block"), 0),
        BlockKind::Sums => (named("sums"), 0),
        BlockKind::Journal => match journal_descriptor::ROLE.read(editor.block(block.at)) {
            Some(JOURNAL_HEADER) => (named("journal_header"), 0),
            Some(JOURNAL_COMMIT) => (named("journal_commit"), 0),
            _ => (named("journal_descriptor"), 0),
        },
        BlockKind::Inodes => {
            let size = editor.base().superblock.inode_size.bytes() as usize;
            let used: Vec<usize> = (0..BLOCK as usize / size)
                .map(|i| i * size)
                .filter(|start| inode::MODE.read(&editor.block(block.at)[*start..]) != Some(0))
                .collect();
            let start = if used.is_empty() { 0 } else { *numbers.pick(&used) };
            let one = &editor.block(block.at)[start..];
            let flags = inode::FLAGS.read(one).unwrap_or(0);
            let extents = u64::from((flags & INODE_EXTENTS_MASK) >> INODE_EXTENTS_SHIFT);
            let tail = if size == 128 { "dir_inode_128" } else { "dir_inode_256" };
            match () {
                () if extents > 0 && numbers.chance(50) => {
                    let index = numbers.below(extents) as usize;
                    (named("extent"), start + inode::SIZE + index * extent::SIZE)
                }
                () if numbers.chance(25) => (named(tail), start + inode::SIZE),
                () => (named("inode"), start),
            }
        }
        _ => {
            let is_leaf = block.kind == BlockKind::Leaf;
            let entries = if is_leaf { entries_of(editor.block(block.at)) } else { Vec::new() };
            if entries.is_empty() || numbers.chance(25) {
                (named("leaf"), 0)
            } else {
                (named("entry"), *numbers.pick(&entries))
            }
        }
    }
}

/// Offsets of the entries that a leaf block's bitmap shows: where a run of used units starts, an entry
/// starts, and the next one after its units.
fn entries_of(block: &[u8]) -> Vec<usize> {
    let used = |unit: usize| {
        let word = dir::leaf::UNITS.index(unit / 64).read(block).unwrap_or(0);
        word >> (unit % 64) & 1 == 1
    };
    let mut entries = Vec::new();
    let mut unit = dir::LEAF_HEADER_UNITS;
    while unit + dir::entry_units(0) <= dir::LEAF_HEADER_UNITS + dir::LEAF_UNITS {
        if used(unit) {
            entries.push(unit * 16);
            let len = dir::entry::NAME_LEN.read(&block[unit * 16..]).unwrap_or(0);
            unit += dir::entry_units(len.into());
        } else {
            unit += 1;
        }
    }
    entries
}

/// Sets one field of a structure to a wrong value.
fn field(editor: &mut Editor<'_>, numbers: &mut Seeded, block: MetadataBlock) -> String {
    let (layout, start) = structure(editor, numbers, block);
    let field = *numbers.pick(layout.fields);
    // Of an array, the elements in use are mostly the first ones.
    let within = if numbers.chance(70) {
        numbers.below(field.len.min(8) as u64)
    } else {
        numbers.below(field.len as u64)
    };
    let offset = (start + field.offset + within as usize * field.bytes).min(BLOCK as usize - field.bytes);
    let mut old = [0; 8];
    old[..field.bytes].copy_from_slice(&editor.block(block.at)[offset..offset + field.bytes]);
    let old = u64::from_le_bytes(old);
    let new = wrong(editor, numbers, block.at, old);
    editor.edit(block.at)[offset..offset + field.bytes].copy_from_slice(&new.to_le_bytes()[..field.bytes]);
    format!(
        "{:?} {:#x}: {}.{}[{within}] at {start} is {new:#x}, was {old:#x}",
        block.kind, block.at, layout.name, field.name
    )
}

/// Bends an extent of a file so that it may still look right: it overlaps another one, ends past the
/// volume, is another file's, lies in metadata, or is one of more than the inode has room for.
fn map(editor: &mut Editor<'_>, numbers: &mut Seeded) -> String {
    let size = editor.base().superblock.inode_size.bytes() as usize;
    let room = (size - inode::SIZE) / extent::SIZE;
    let count = |one: &[u8]| {
        usize::from((inode::FLAGS.read(one).unwrap_or(0) & INODE_EXTENTS_MASK) >> INODE_EXTENTS_SHIFT)
    };
    let all: Vec<u64> = (editor.base().metadata.iter().filter(|m| m.kind == BlockKind::Inodes))
        .flat_map(|m| (0..BLOCK as usize).step_by(size).map(|start| m.at + start as u64))
        .filter(|at| (1..=room).contains(&count(&editor.block(*at)[(at % BLOCK) as usize..])))
        .collect();
    if all.is_empty() {
        return "nothing: no file with extents".to_owned();
    }
    let (at, other) = (*numbers.pick(&all), *numbers.pick(&all));
    let of = |at: u64, index: usize| (at % BLOCK) as usize + inode::SIZE + index * extent::SIZE;
    let have = count(&editor.block(at)[(at % BLOCK) as usize..]);
    let index = numbers.below(have as u64) as usize;
    let theirs = editor.block(other)[of(other, 0)..][..extent::SIZE].to_vec();
    let metadata = pick(editor, numbers).at;
    let (volume, kind) = (editor.base().size, numbers.below(6));
    let block = editor.edit(at);
    let one = &mut block[of(at, index)..][..extent::SIZE];
    let pointer = extent::POINTER.read(one).unwrap_or(0);
    let told = match kind {
        0 => {
            let more = 1 << numbers.below(32);
            extent::BLOCKS.write(one, extent::BLOCKS.read(one).unwrap_or(0) | more);
            "is longer"
        }
        1 => {
            one.copy_from_slice(&theirs);
            "is another file's"
        }
        2 => {
            extent::POINTER.write(one, metadata | pointer & (BLOCK - 1));
            "lies in metadata"
        }
        3 => {
            extent::POINTER.write(one, (volume - BLOCK) | pointer & (BLOCK - 1));
            extent::BLOCKS.write(one, 2);
            "ends past the volume"
        }
        4 => {
            let first = if numbers.chance(50) { 0 } else { u32::MAX };
            extent::FIRST.write(one, first);
            "begins elsewhere"
        }
        _ => {
            let start = (at % BLOCK) as usize;
            let flags = inode::FLAGS.read(&block[start..]).unwrap_or(0) & !INODE_EXTENTS_MASK;
            let count = numbers.below(16) as u16;
            inode::FLAGS.write(&mut block[start..], flags | count << INODE_EXTENTS_SHIFT);
            "is one of another number"
        }
    };
    format!("inode at {at:#x}: extent {index} {told}")
}

/// Makes a list or a tree lead back into itself, or two of them join.
fn link(editor: &mut Editor<'_>, numbers: &mut Seeded) -> String {
    let of = |kind| -> Vec<u64> {
        editor.base().metadata.iter().filter(|m| m.kind == kind).map(|m| m.at).collect()
    };
    let (leaves, trees, pointers, xattrs) =
        (of(BlockKind::Leaf), of(BlockKind::Tree), of(BlockKind::Pointers), of(BlockKind::Xattr));
    let inodes = of(BlockKind::Inodes);
    match numbers.below(5) {
        0 if !leaves.is_empty() => {
            let (from, to) = (*numbers.pick(&leaves), *numbers.pick(&leaves));
            let (ours, theirs) = (entries_of(editor.block(from)), entries_of(editor.block(to)));
            if ours.is_empty() || theirs.is_empty() {
                return "nothing: an empty leaf".to_owned();
            }
            let (at, target) = (*numbers.pick(&ours), to + *numbers.pick(&theirs) as u64);
            let back = numbers.chance(30);
            let direction = if back { dir::entry::PREVIOUS } else { dir::entry::NEXT };
            direction.write(&mut editor.edit(from)[at..], target);
            format!("entry {:#x} leads {} to {target:#x}", from + at as u64, if back { "back" } else { "on" })
        }
        1 if !leaves.is_empty() => {
            let (from, to) = (*numbers.pick(&leaves), *numbers.pick(&leaves));
            dir::leaf::NEXT.write(editor.edit(from), to);
            format!("leaf {from:#x} is followed by {to:#x} in the list of those with room")
        }
        2 if !trees.is_empty() => {
            let (from, to) = (*numbers.pick(&trees), *numbers.pick(&trees));
            let count = u64::from(dir::tree::COUNT.read(editor.block(from)).unwrap_or(1).clamp(1, 255));
            let child = numbers.below(count) as usize;
            dir::tree::POSITIONS.index(child).write(editor.edit(from), to);
            dir::tree::FORMS.index(child).write(editor.edit(from), 3);
            format!("tree block {from:#x} has {to:#x} as its child {child}")
        }
        3 if !pointers.is_empty() => {
            let (from, to) = (*numbers.pick(&pointers), *numbers.pick(&pointers));
            let slot = numbers.below(8) as usize * 8;
            let word = lanefs_format::Pointer::indirect(to).word();
            editor.edit(from)[slot..slot + 8].copy_from_slice(&word.to_le_bytes());
            format!("pointer block {from:#x} has {to:#x} in slot {}", slot / 8)
        }
        4 if !xattrs.is_empty() => {
            let (from, to) = (*numbers.pick(&xattrs), *numbers.pick(&xattrs));
            lanefs_format::xattr_block::NEXT.write(editor.edit(from), to);
            format!("attribute block {from:#x} is followed by {to:#x}")
        }
        _ => {
            // Two inodes share a map, extents or a tree, or one is a copy of the other.
            let size = editor.base().superblock.inode_size.bytes() as usize;
            let per_block = BLOCK / size as u64;
            let (from, to) = (*numbers.pick(&inodes), *numbers.pick(&inodes));
            let (a, b) = (numbers.below(per_block) as usize * size, numbers.below(per_block) as usize * size);
            let other = editor.block(to)[b..b + size].to_vec();
            let (range, told) = match numbers.below(10) {
                0..3 => (0..size, "all"),
                3..6 => (inode::SIZE..size, "the tail"),
                _ => (inode::MAP.offset..inode::XATTR.offset + 8, "the roots"),
            };
            let target = &mut editor.edit(from)[a..a + size];
            target[range.clone()].copy_from_slice(&other[range]);
            if told == "the tail" {
                // Extents, or inline content, come with their flags.
                inode::FLAGS.write(target, inode::FLAGS.read(&other).unwrap_or(0));
            }
            format!("inode at {:#x} gets {told} of {:#x}", from + a as u64, to + b as u64)
        }
    }
}

/// Falsifies a block's entry in its chunk's table.
fn entry_of_table(editor: &mut Editor<'_>, numbers: &mut Seeded, block: MetadataBlock) -> String {
    if block.entry == 0 {
        return field(editor, numbers, block);
    }
    let start = (block.entry % BLOCK) as usize;
    let field = *numbers.pick(chunk_entry::LAYOUT.fields);
    let offset = start + field.offset;
    let new =
        if field.name == "KIND" { numbers.below(11) } else { wrong(editor, numbers, block.at, block.at) };
    editor.edit(block.entry)[offset..offset + field.bytes].copy_from_slice(&new.to_le_bytes()[..field.bytes]);
    format!("table entry of {:?} {:#x}: {} is {new:#x}", block.kind, block.at, field.name)
}

/// Truncates the image, or appends bytes to it.
fn resize(editor: &mut Editor<'_>, numbers: &mut Seeded) -> String {
    let size = editor.base().size;
    let new = match numbers.below(5) {
        0 => numbers.below(size),
        1 => numbers.below(size / BLOCK) * BLOCK,
        2 => numbers.below(8192),
        3 => size - 1 - numbers.below(8192),
        _ => size + numbers.below(8192),
    };
    editor.resize(new);
    format!("resized from {size} to {new}")
}
