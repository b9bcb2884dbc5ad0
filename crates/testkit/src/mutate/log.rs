//! The commits in the journal of an image, and their checksums.

use lanefs_format::superblock::Superblock;
use lanefs_format::{
    BLOCK, BlockKind, Checksummer, JOURNAL_COMMIT, JOURNAL_DESCRIPTOR, JOURNAL_HEADER, JOURNAL_REVOCATION,
    JOURNAL_SUMMED, journal_commit as c, journal_descriptor as d,
};

/// A commit in the journal.
#[derive(Clone, Debug, Default)]
pub struct LoggedCommit {
    /// Positions of its blocks before the record, in order.
    pub blocks: Vec<u64>,
    /// Position of the record.
    pub record: u64,
}

/// The content of a journal.
#[derive(Clone, Debug, Default)]
pub struct JournalLog {
    /// Positions of the header, and of all descriptors, revocations and records.
    pub own: Vec<u64>,
    /// Copies of other blocks in these commits: position in the journal, and home position.
    pub copies: Vec<(u64, u64)>,
    /// Whole commits that do not wrap around the end. One that wraps keeps its bytes.
    pub commits: Vec<LoggedCommit>,
}

impl JournalLog {
    /// Reads the journal of a sound image.
    pub fn read<'b>(superblock: &Superblock, block: impl Fn(u64) -> &'b [u8]) -> Self {
        let mut log = JournalLog::default();
        let sums = superblock.sums();
        let mut open = LoggedCommit::default();
        let mut copies_left: Vec<u64> = Vec::new();
        let mut copies = Vec::new();
        for slot in 0..superblock.journal_blocks {
            let at = superblock.journal + slot * BLOCK;
            let bytes = block(at);
            if let Some(home) = copies_left.pop() {
                copies.push((at, home));
                open.blocks.push(at);
                continue;
            }
            let role = d::ROLE.read(bytes).unwrap_or(0);
            if !sums.verify(BlockKind::Journal, at, bytes, 0, &[]) {
                (open, copies) = Default::default();
                continue;
            }
            log.own.push(at);
            match role {
                JOURNAL_HEADER => {}
                JOURNAL_COMMIT => {
                    open.record = at;
                    let (whole, copies) = (std::mem::take(&mut open), std::mem::take(&mut copies));
                    if c::CONTENT.read(bytes) == Some(whole.content(&block)) {
                        log.commits.push(whole);
                        log.copies.extend(copies);
                    }
                }
                JOURNAL_DESCRIPTOR | JOURNAL_REVOCATION => {
                    open.blocks.push(at);
                    let count = usize::from(d::COUNT.read(bytes).unwrap_or(0));
                    if role == JOURNAL_DESCRIPTOR {
                        let home = |i| d::POSITIONS.index(i).read(bytes).unwrap_or(0) & !JOURNAL_SUMMED;
                        copies_left = (0..count).rev().map(home).collect();
                    }
                }
                _ => {}
            }
        }
        log
    }
}

impl LoggedCommit {
    /// The checksum over the blocks before the record.
    pub fn content<'b>(&self, block: impl Fn(u64) -> &'b [u8]) -> u32 {
        self.blocks.iter().fold(0, |sum, at| Checksummer::append(sum, block(*at)))
    }

    /// Writes that checksum into the record, and seals it.
    pub fn seal(&self, sums: &Checksummer, record: &mut [u8], content: u32) {
        c::CONTENT.write(record, content);
        sums.seal(BlockKind::Journal, self.record, record, 0);
    }
}
