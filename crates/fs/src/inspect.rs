//! Blocks as text, for people.

use crate::error::{Error, ErrorKind, Result};
use crate::inode::extent_count;
use crate::space;
use crate::volume::Volume;
use lanefs_format::{
    BLOCK, BlockKind, INODE_CORE, Layout, Pointer, chunk_entry, chunk_header, dir, extent, group, inode,
    journal_commit, journal_descriptor, journal_header, sums, superblock, xattr_block,
};
use std::fmt::Write;

/// # Blocks for people
impl Volume {
    /// Decodes the block at a byte position into lines of text: its kind, its fields, its list.
    ///
    /// # Errors
    /// [`Error::Image`] for a position outside the volume; the device's.
    pub fn inspect(&self, position: u64) -> Result<String> {
        let at = position & !(BLOCK - 1);
        if at >= self.shared.state.store.bytes() {
            let why = format!("outside the volume, which has {} bytes", self.shared.state.store.bytes());
            return Err(Error::Image {
                kind: ErrorKind::InvalidInput,
                what: format!("position {position:#x}"),
                why,
            });
        }
        let mut block = [0; BLOCK as usize];
        self.shared.state.store.read_raw(at, &mut block)?;
        Ok(self.describe(at, &block))
    }

    fn describe(&self, at: u64, block: &[u8]) -> String {
        let mut text = String::new();
        let table = self.view(|core| {
            let entry = space::table_entry(core, at)?;
            Ok((entry.get(chunk_entry::KIND), entry.get(chunk_entry::USED), entry.get(chunk_entry::OWNER)))
        });
        // The table entry counts only for blocks of metadata chunks; the other blocks begin with their kind.
        let (kind, note) = match table {
            Ok((kind, used, owner)) if BlockKind::from_number(kind).is_some() => {
                (BlockKind::from_number(kind), format!(" (in a metadata chunk: {used} used, owner {owner})"))
            }
            _ => (BlockKind::from_number(block[0]).filter(|kind| kind.has_header()), String::new()),
        };
        let Some(kind) = kind else {
            let _ = writeln!(text, "{at:#x}: no metadata block: file data or free");
            hex(&mut text, block);
            return text;
        };
        let _ = writeln!(text, "{at:#x}: {kind:?} block{note}");
        match kind {
            BlockKind::Superblock => fields(&mut text, superblock::fields::LAYOUT, block),
            BlockKind::Group => fields(&mut text, group::LAYOUT, block),
            BlockKind::ChunkHeader => {
                fields(&mut text, chunk_header::LAYOUT, block);
                for (i, entry) in block.chunks_exact(chunk_entry::SIZE).enumerate().skip(2) {
                    if let Some(kind) = BlockKind::from_number(entry[0]) {
                        let owner = chunk_entry::OWNER.read(entry).unwrap_or(0);
                        let _ = writeln!(text, "  [{i}] {kind:?} used {} owner {owner}", entry[1]);
                    }
                }
            }
            BlockKind::Inodes => self.inodes(&mut text, at, block),
            BlockKind::Pointers => {
                for (i, word) in block.as_chunks::<8>().0.iter().enumerate() {
                    let word = u64::from_le_bytes(*word);
                    match Pointer::decode(word) {
                        Ok(None) => {}
                        Ok(Some(p)) => {
                            let _ = writeln!(text, "  [{i}] {p:x?}");
                        }
                        Err(_) => {
                            let _ = writeln!(text, "  [{i}] invalid pointer {word:#x}");
                        }
                    }
                }
            }
            BlockKind::Leaf => leaf(&mut text, at, block),
            BlockKind::Tree => {
                fields(&mut text, dir::tree::LAYOUT, block);
                let count = dir::tree::COUNT.read(block).unwrap_or(0);
                for i in 0..usize::from(count).min(dir::TREE_MAX) {
                    let hash = dir::tree::HASHES.index(i).read(block).unwrap_or(0);
                    let form = dir::tree::FORMS.index(i).read(block).unwrap_or(0);
                    let to = dir::tree::POSITIONS.index(i).read(block).unwrap_or(0);
                    let _ = writeln!(text, "  [{i}] from hash {hash:#010x} form {form} at {to:#x}");
                }
            }
            BlockKind::Index => {
                fields(&mut text, dir::index::LAYOUT, block);
                for i in 0..dir::index::SLOTS.len {
                    let slot = dir::Slot(dir::index::SLOTS.index(i).read(block).unwrap_or(0));
                    if slot.position() != 0 {
                        let (bucket, tag, to) = (i / dir::BUCKET_SLOTS, slot.tag(), slot.position());
                        let _ = writeln!(text, "  bucket {bucket} tag {tag:#06x} entry at {to:#x}");
                    }
                }
            }
            BlockKind::Journal => match block[1] {
                lanefs_format::JOURNAL_HEADER => fields(&mut text, journal_header::LAYOUT, block),
                lanefs_format::JOURNAL_DESCRIPTOR | lanefs_format::JOURNAL_REVOCATION => {
                    fields(&mut text, journal_descriptor::LAYOUT, block);
                }
                _ => fields(&mut text, journal_commit::LAYOUT, block),
            },
            BlockKind::Sums => {
                fields(&mut text, sums::LAYOUT, block);
                for i in 0..sums::SUMS.len {
                    let sum = sums::SUMS.index(i).read(block).unwrap_or(0);
                    if sum != 0 {
                        let _ = writeln!(text, "  [{i}] {sum:#010x}");
                    }
                }
            }
            BlockKind::Xattr => {
                fields(&mut text, xattr_block::LAYOUT, block);
                hex(&mut text, &block[xattr_block::SIZE..]);
            }
        }
        text
    }

    fn inodes(&self, text: &mut String, at: u64, block: &[u8]) {
        let size = self.shared.state.store.inode_size().bytes() as usize;
        for (i, one) in block.chunks_exact(size).enumerate() {
            if inode::MODE.read(one) != Some(0) {
                let _ = writeln!(text, "  inode {}:", (at as usize + i * size) / size);
                fields(text, inode::LAYOUT, &one[..INODE_CORE]);
                extents(text, one);
            }
        }
    }
}

/// The extents in an inode.
fn extents(text: &mut String, one: &[u8]) {
    let count = inode::FLAGS.read(one).map_or(0, extent_count);
    for (i, extent) in one[INODE_CORE..].chunks_exact(extent::SIZE).take(count).enumerate() {
        let first = extent::FIRST.read(extent).unwrap_or(0);
        let blocks = extent::BLOCKS.read(extent).unwrap_or(0);
        let word = extent::POINTER.read(extent).unwrap_or(0);
        let _ = match Pointer::decode(word) {
            Ok(Some(p)) => writeln!(text, "  extent [{i}] from block {first}, {blocks} blocks: {p:x?}"),
            _ => writeln!(text, "  extent [{i}] invalid pointer {word:#x}"),
        };
    }
}

/// All single fields that are not zero, and arrays up to 16 words.
fn fields(text: &mut String, layout: Layout, bytes: &[u8]) {
    for field in layout.fields {
        let words: Vec<u64> = (0..field.len)
            .map(|i| {
                let mut word = [0; 8];
                let at = field.offset + i * field.bytes;
                word[..field.bytes].copy_from_slice(&bytes[at..at + field.bytes]);
                u64::from_le_bytes(word)
            })
            .collect();
        if field.len <= 64 && words.iter().any(|word| *word != 0) {
            let _ = write!(text, "  {:<14}", field.name.to_lowercase());
            for word in words {
                let _ = write!(text, " {word:#x}");
            }
            let _ = writeln!(text, "  {}", field.doc.trim());
        }
    }
}

fn leaf(text: &mut String, at: u64, block: &[u8]) {
    fields(text, dir::leaf::LAYOUT, block);
    let mut unit = dir::LEAF_HEADER_UNITS;
    while unit < 256 {
        let word = dir::leaf::UNITS.index(unit / 64).read(block).unwrap_or(0);
        let offset = unit * 16;
        let entry = &block[offset..];
        let len = dir::entry::NAME_LEN.read(entry).map_or(0, usize::from);
        if word >> (unit % 64) & 1 == 0 || entry.len() < dir::entry::SIZE + len {
            unit += 1;
            continue;
        }
        let name = &entry[dir::entry::SIZE..dir::entry::SIZE + len];
        let hash = dir::entry::HASH.read(entry).unwrap_or(0);
        let ino = dir::entry::INODE.read(entry).unwrap_or(0);
        let next = dir::entry::NEXT.read(entry).unwrap_or(0);
        let count = dir::entry::COUNT.read(entry).unwrap_or(0);
        let position = at as usize + offset;
        let _ = if len == 0 {
            writeln!(
                text,
                "  {position:#x} dummy from hash {hash:#010x}, {count} entries, index {ino:#x}, next {next:#x}"
            )
        } else {
            let name = name.escape_ascii();
            writeln!(text, "  {position:#x} hash {hash:#010x} inode {ino} next {next:#x} \"{name}\"")
        };
        unit += dir::entry_units(len);
    }
}

/// The first 256 bytes, 32 a line.
fn hex(text: &mut String, bytes: &[u8]) {
    for (i, line) in bytes.chunks(32).take(8).enumerate() {
        let words: Vec<String> = line.iter().map(|b| format!("{b:02x}")).collect();
        let _ = writeln!(text, "  {:04x}  {}", i * 32, words.join(" "));
    }
}
