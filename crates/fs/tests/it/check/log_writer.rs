//! Writes the log of a volume, as long as one likes. (The tests of the program use it, too.)

use lanefs::format::superblock::Superblock;
use lanefs::format::{
    BLOCK, BlockKind, Checksummer, JOURNAL_COMMIT, SUPERBLOCK_COPY, journal_commit as c,
    journal_descriptor as d, journal_header as h,
};
use std::fs::File;
use std::os::unix::fs::FileExt;

/// Blocks that a descriptor or a revocation names at most.
pub(crate) const NAMES: u64 = d::POSITIONS.len as u64;

/// Writes superblocks that say that the volume was not closed.
pub(crate) fn leave_open(file: &File, superblock: &Superblock) {
    let superblock = Superblock { clean: false, sequence: superblock.sequence + 9, ..superblock.clone() };
    for at in [0, SUPERBLOCK_COPY] {
        file.write_all_at(&superblock.encode(), at).expect("write");
    }
}

/// The log of a volume, block by block.
pub(crate) struct Log<'f> {
    file: &'f File,
    sums: Checksummer,
    at: u64,
    /// Blocks of a commit before its record, at most.
    pub(crate) room: u64,
    pub(crate) sequence: u64,
    blocks: u64,
    content: u32,
}

impl<'f> Log<'f> {
    pub(crate) fn new(file: &'f File, superblock: &Superblock) -> Self {
        let mut header = [0; BLOCK as usize];
        file.read_exact_at(&mut header, superblock.journal).expect("read");
        // The commit of mkfs lies before the tail, so all blocks from there on are holes.
        let tail = h::TAIL.read(&header).expect("a header");
        Log {
            file,
            sums: superblock.sums(),
            at: superblock.journal + tail * BLOCK,
            room: superblock.journal_blocks - tail - 1,
            sequence: h::SEQUENCE.read(&header).expect("a header"),
            blocks: 0,
            content: 0,
        }
    }

    fn put(&mut self, block: &[u8]) {
        self.file.write_all_at(block, self.at + self.blocks * BLOCK).expect("write");
        self.content = Checksummer::append(self.content, block);
        self.blocks += 1;
    }

    /// Adds a descriptor or a revocation of as many blocks as it can name, from `first` on.
    pub(crate) fn name(&mut self, role: u8, first: u64) {
        let mut block = [0; BLOCK as usize];
        d::KIND.write(&mut block, BlockKind::Journal as u8);
        d::ROLE.write(&mut block, role);
        d::COUNT.write(&mut block, NAMES as u16);
        d::SEQUENCE.write(&mut block, self.sequence);
        for i in 0..NAMES {
            d::POSITIONS.index(i as usize).write(&mut block, first + i * BLOCK);
        }
        self.sums.seal(BlockKind::Journal, self.at + self.blocks * BLOCK, &mut block, 0);
        self.put(&block);
    }

    /// Adds copies that are holes of the image.
    pub(crate) fn holes(&mut self) {
        for _ in 0..NAMES {
            self.content = Checksummer::append(self.content, &[0; BLOCK as usize]);
        }
        self.blocks += NAMES;
    }

    pub(crate) fn end(mut self) {
        let mut block = [0; BLOCK as usize];
        c::KIND.write(&mut block, BlockKind::Journal as u8);
        c::ROLE.write(&mut block, JOURNAL_COMMIT);
        c::SEQUENCE.write(&mut block, self.sequence);
        c::BLOCKS.write(&mut block, self.blocks);
        c::CONTENT.write(&mut block, self.content);
        self.sums.seal(BlockKind::Journal, self.at + self.blocks * BLOCK, &mut block, 0);
        self.put(&block);
    }
}
