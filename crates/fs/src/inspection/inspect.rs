//! Blocks as text, for people.
//!
//! The superblock, the group table and the tables of metadata chunks say what a block is. Its own first byte
//! does not: file data may begin with any.

use crate::files::inode::extent_count;
use crate::running::volume::Volume;
use crate::space;
use crate::vocabulary::error::{Error, ErrorKind, Result};
use lanefs_format::{
    BLOCK, BLOCKS_PER_CHUNK, BlockKind, CHUNK, CHUNK_HEADER_BLOCKS, GROUP, INODE_CORE, Layout, Pointer,
    SUPERBLOCK_COPY, chunk_entry, chunk_header, dir, extent, group, inode, journal_commit,
    journal_descriptor, journal_header, sums, superblock, xattr_block,
};
use std::fmt::Write;

/// The use of a block, as the tables of the volume have it.
enum BlockUse {
    /// A structure of this kind, with more words about it.
    Structure(BlockKind, String),
    /// None, and the words for that.
    Plain(&'static str),
}

/// # Blocks for people
impl Volume {
    /// Decodes the block at a byte position into lines of text: its kind, its fields, its list. The tables of
    /// the volume say what it is; the text says where they cannot be read, or the block contradicts them.
    ///
    /// # Errors
    /// [`Error::Image`] for a position outside the volume; the device's.
    pub fn inspect(&self, position: u64) -> Result<String> {
        let block = self.raw_block(position, || format!("position {position:#x}"))?;
        Ok(self.describe(position & !(BLOCK - 1), &block))
    }

    /// Decodes one inode, as [`inspect`](Self::inspect) does a block.
    ///
    /// # Errors
    /// [`Error::Image`] for a number where no inode lies; the device's.
    pub fn inspect_inode(&self, number: u64) -> Result<String> {
        let size = self.shared.state.store.inode_size();
        let (at, what) = (number.saturating_mul(size.bytes()), || format!("inode {number}"));
        let block = self.raw_block(at, what)?;
        let refuse = |why: String| Error::Image { kind: ErrorKind::InvalidInput, what: what(), why };
        match self.use_of(at & !(BLOCK - 1)) {
            BlockUse::Structure(BlockKind::Inodes, _) => {}
            BlockUse::Structure(kind, _) => {
                return Err(refuse(format!("no inode lies there, but a block of kind {kind:?}")));
            }
            BlockUse::Plain(what) => return Err(refuse(format!("no inode lies there: {what}"))),
        }
        let offset = (at % BLOCK) as usize;
        let one = &block[offset..offset + size.bytes() as usize];
        let mut text = format!("{at:#x}: inode {number}\n");
        match inode::MODE.read(one) {
            Some(0) => {
                let generation = inode::GENERATION.read(one).unwrap_or(0);
                let _ = writeln!(text, "  free; its last generation was {generation}");
            }
            _ => self.describe_inode(&mut text, at, one),
        }
        Ok(text)
    }

    /// Reads the block that a byte position is in.
    fn raw_block(&self, position: u64, what: impl Fn() -> String) -> Result<[u8; BLOCK as usize]> {
        let bytes = self.shared.state.store.bytes();
        if position >= bytes {
            let why = format!("outside the volume, which has {bytes} bytes");
            return Err(Error::Image { kind: ErrorKind::InvalidInput, what: what(), why });
        }
        self.refuse_join("has no blocks of its own")?;
        let mut block = [0; BLOCK as usize];
        self.shared.state.store.read_raw(position & !(BLOCK - 1), &mut block)?;
        Ok(block)
    }

    /// Returns what the tables say that the block at `at` is.
    fn use_of(&self, at: u64) -> BlockUse {
        let superblock = self.superblock();
        let is_in = |first: u64, blocks: u64| at >= first && (at - first) / BLOCK < blocks;
        if at == 0 || at == SUPERBLOCK_COPY {
            return BlockUse::Structure(BlockKind::Superblock, String::new());
        }
        if is_in(superblock.groups, superblock.group_count) {
            return BlockUse::Structure(BlockKind::Group, String::new());
        }
        if is_in(superblock.journal, superblock.journal_blocks) {
            return BlockUse::Structure(BlockKind::Journal, " (in the journal)".into());
        }
        let group = self.view(|core| {
            let view = space::group(core, at / GROUP)?;
            let number = at % GROUP / BLOCK;
            let is_used = view.get(group::BITMAP.index(number as usize / 64)) >> (number % 64) & 1 != 0;
            Ok((view.get(group::METADATA) >> (number / BLOCKS_PER_CHUNK) & 1 != 0, is_used))
        });
        match group {
            Err(_) => BlockUse::Plain("of unknown use, since its group cannot be read"),
            Ok((false, true)) => BlockUse::Plain("file data, or kept for a use to come"),
            Ok((false, false)) => BlockUse::Plain("free"),
            Ok((true, _)) => self.use_in_chunk(at),
        }
    }

    /// Returns what the table of a metadata chunk says that the block at `at` is.
    fn use_in_chunk(&self, at: u64) -> BlockUse {
        if at % CHUNK / BLOCK < CHUNK_HEADER_BLOCKS {
            return BlockUse::Structure(BlockKind::ChunkHeader, " (the table of a metadata chunk)".into());
        }
        let entry = self.view(|core| {
            let entry = space::table_entry(core, at)?;
            Ok((entry.get(chunk_entry::KIND), entry.get(chunk_entry::USED), entry.get(chunk_entry::OWNER)))
        });
        let Ok((number, used, owner)) = entry else {
            return BlockUse::Plain("of unknown use, since the table of its metadata chunk cannot be read");
        };
        match BlockKind::from_number(number) {
            Some(BlockKind::Inodes) => BlockUse::Structure(BlockKind::Inodes, format!(" ({used} in use)")),
            Some(kind) => BlockUse::Structure(kind, format!(" (owner {owner})")),
            None if number == 0 => BlockUse::Plain("a free block of a metadata chunk"),
            None => BlockUse::Plain("of a kind that does not exist, by the table of its metadata chunk"),
        }
    }

    /// Words for a block that contradicts what the tables say that it is.
    fn doubt(&self, at: u64, kind: BlockKind, block: &[u8]) -> String {
        let size = self.shared.state.store.inode_size().bytes() as usize;
        let has_sum = kind == BlockKind::Inodes || kind.has_header() && kind != BlockKind::ChunkHeader;
        let home = if kind == BlockKind::Superblock { 0 } else { at };
        if !has_sum || self.superblock().sums().verify(kind, home, block, size, &[]) {
            return String::new();
        }
        match (kind, BlockKind::from_number(block[0])) {
            (BlockKind::Journal, _) => ", a copy of a block or unused".into(),
            (BlockKind::Inodes, _) => ", DAMAGED: the checksum of an inode is wrong".into(),
            (kind, Some(other)) if other == kind => ", DAMAGED: its checksum is wrong".into(),
            (_, Some(other)) => format!(", DAMAGED: it begins as a block of kind {other:?}"),
            (_, None) => ", DAMAGED: it begins as no block of metadata".into(),
        }
    }

    fn describe(&self, at: u64, block: &[u8]) -> String {
        let mut text = String::new();
        let (kind, note) = match self.use_of(at) {
            BlockUse::Structure(kind, note) => (kind, note),
            BlockUse::Plain(what) => {
                let _ = writeln!(text, "{at:#x}: {what}");
                hex(&mut text, block);
                return text;
            }
        };
        let doubt = self.doubt(at, kind, block);
        let _ = writeln!(text, "{at:#x}: {kind:?} block{note}{doubt}");
        if kind == BlockKind::Journal && !doubt.is_empty() {
            hex(&mut text, block);
            return text;
        }
        self.describe_as(&mut text, at, kind, block);
        text
    }

    fn describe_as(&self, text: &mut String, at: u64, kind: BlockKind, block: &[u8]) {
        match kind {
            BlockKind::Superblock => fields(text, superblock::fields::LAYOUT, block),
            BlockKind::Group => fields(text, group::LAYOUT, block),
            BlockKind::ChunkHeader => table(text, at, block),
            BlockKind::Inodes => self.inodes(text, at, block),
            BlockKind::Pointers => pointers(text, block),
            BlockKind::Leaf => leaf(text, at, block),
            BlockKind::Tree => {
                fields(text, dir::tree::LAYOUT, block);
                let count = dir::tree::COUNT.read(block).unwrap_or(0);
                for i in 0..usize::from(count).min(dir::TREE_MAX) {
                    let hash = dir::tree::HASHES.index(i).read(block).unwrap_or(0);
                    let form = dir::tree::FORMS.index(i).read(block).unwrap_or(0);
                    let to = dir::tree::POSITIONS.index(i).read(block).unwrap_or(0);
                    let _ = writeln!(text, "  [{i}] from hash {hash:#010x} form {form} at {to:#x}");
                }
            }
            BlockKind::Index => {
                fields(text, dir::index::LAYOUT, block);
                for i in 0..dir::index::SLOTS.len {
                    let slot = dir::Slot(dir::index::SLOTS.index(i).read(block).unwrap_or(0));
                    if slot.position() != 0 {
                        let (bucket, tag, to) = (i / dir::BUCKET_SLOTS, slot.tag(), slot.position());
                        let _ = writeln!(text, "  bucket {bucket} tag {tag:#06x} entry at {to:#x}");
                    }
                }
            }
            BlockKind::Journal => match block[1] {
                lanefs_format::JOURNAL_HEADER => fields(text, journal_header::LAYOUT, block),
                lanefs_format::JOURNAL_DESCRIPTOR | lanefs_format::JOURNAL_REVOCATION => {
                    fields(text, journal_descriptor::LAYOUT, block);
                }
                _ => fields(text, journal_commit::LAYOUT, block),
            },
            BlockKind::Sums => {
                fields(text, sums::LAYOUT, block);
                for i in 0..sums::SUMS.len {
                    let sum = sums::SUMS.index(i).read(block).unwrap_or(0);
                    if sum != 0 {
                        let _ = writeln!(text, "  [{i}] {sum:#010x}");
                    }
                }
            }
            BlockKind::Xattr => {
                fields(text, xattr_block::LAYOUT, block);
                hex(text, &block[xattr_block::SIZE..]);
            }
        }
    }

    fn inodes(&self, text: &mut String, at: u64, block: &[u8]) {
        let size = self.shared.state.store.inode_size().bytes() as usize;
        for (i, one) in block.chunks_exact(size).enumerate() {
            if inode::MODE.read(one) != Some(0) {
                let _ = writeln!(text, "  inode {}:", (at as usize + i * size) / size);
                self.describe_inode(text, at + (i * size) as u64, one);
            }
        }
    }

    fn describe_inode(&self, text: &mut String, at: u64, one: &[u8]) {
        if inode::CHECKSUM.read(one) != Some(self.superblock().sums().of(at, one, Some(inode::CHECKSUM))) {
            let _ = writeln!(text, "  DAMAGED: its checksum is wrong");
        }
        fields(text, inode::LAYOUT, &one[..INODE_CORE]);
        extents(text, one);
    }
}

/// A block of a metadata chunk's table: the first one begins with its header.
fn table(text: &mut String, at: u64, block: &[u8]) {
    let is_first = at.is_multiple_of(CHUNK);
    let (skipped, before) = if is_first { (2, 0) } else { (0, block.len() / chunk_entry::SIZE) };
    if is_first {
        fields(text, chunk_header::LAYOUT, block);
    }
    for (i, entry) in block.chunks_exact(chunk_entry::SIZE).enumerate().skip(skipped) {
        if let Some(kind) = BlockKind::from_number(entry[0]) {
            let (number, owner) = (before + i, chunk_entry::OWNER.read(entry).unwrap_or(0));
            let _ = match kind {
                BlockKind::Inodes => writeln!(text, "  [{number}] {kind:?}, {} in use", entry[1]),
                _ => writeln!(text, "  [{number}] {kind:?} of {owner}"),
            };
        }
    }
}

fn pointers(text: &mut String, block: &[u8]) {
    for (i, word) in block.as_chunks::<8>().0.iter().enumerate() {
        let word = u64::from_le_bytes(*word);
        let _ = match Pointer::decode(word) {
            Ok(None) => Ok(()),
            Ok(Some(pointer)) => writeln!(text, "  [{i}] {pointer:x?}"),
            Err(_) => writeln!(text, "  [{i}] invalid pointer {word:#x}"),
        };
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
