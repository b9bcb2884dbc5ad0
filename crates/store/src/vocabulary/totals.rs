//! The counts of a volume that a commit carries.

/// Counts of a whole volume as of a commit. Without them each open after a crash would count in all groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Totals {
    /// Free blocks: those of the groups' counts.
    pub free_blocks: u64,
    /// Inodes in use, at least the root directory's.
    pub inodes: u64,
}

impl Totals {
    /// Decodes the fields of a header or a commit record; `None` where no inode is counted, as in those that
    /// do not know the counts.
    pub(crate) fn decode(free_blocks: Option<u64>, inodes: Option<u64>) -> Option<Self> {
        let (free_blocks, inodes) = (free_blocks?, inodes.filter(|inodes| *inodes > 0)?);
        Some(Totals { free_blocks, inodes })
    }

    /// Returns the fields, zero for counts that are not known.
    pub(crate) fn encode(totals: Option<Self>) -> (u64, u64) {
        totals.map_or((0, 0), |totals| (totals.free_blocks, totals.inodes))
    }
}
