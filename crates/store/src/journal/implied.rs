//! Blocks of checksums that a commit does without.
//!
//! A small file that is written and synced changes one block of data and one checksum. The log has the
//! data, and the checksum follows from them. So the commit marks the copy of the data as *summed*, and
//! recovery computes its checksum and puts it into the block of checksums. It needs that block as it was
//! before, whole: the one in its home position may be torn, where a checkpoint was writing it. So the first
//! commit after a checkpoint that changes a block of checksums has a copy of it, and later ones may do
//! without.

use super::{Copies, Pending};
use lanefs_format::{BLOCK, BlockKind, Checksummer, SumPlace, sums as s};

/// Checksums that are compared at once: those of a line of 64 bytes.
const LINE: usize = 16;
const LINE_BYTES: usize = LINE * size_of::<u32>();

/// The blocks of checksums that a commit leaves out, and the reasons. Both lists ascend.
#[derive(Default)]
pub(crate) struct Implied {
    /// Blocks of checksums that the log needs no copy of.
    pub(crate) left_out: Vec<u64>,
    /// Copies of file data that give these blocks all checksums that changed.
    pub(crate) summed: Vec<u64>,
}

impl Implied {
    /// Finds the blocks of checksums among the copies of a commit that the log need not have. `pending` has
    /// the blocks of the log: a checkpoint that frees a commit of the log takes all of them out.
    pub(crate) fn find(sums: &Checksummer, copies: &Copies, pending: &Pending) -> Self {
        let mut implied = Implied::default();
        for (at, new) in copies.iter() {
            let Some(first) = SumPlace::first_of(at) else { continue };
            if new[s::KIND.offset] != BlockKind::Sums as u8 {
                continue;
            }
            let Some(mut summed) = pending.get(at).and_then(|old| changes(sums, copies, first, old, new))
            else {
                continue;
            };
            implied.left_out.push(at);
            implied.summed.append(&mut summed);
        }
        debug_assert!(
            implied.summed.is_sorted_by(|a, b| a < b),
            "blocks of checksums ascend as their data do"
        );
        implied
    }
}

/// Returns the copies of file data whose checksums make the block `old` the block `new`; `None` where they do
/// not. `first` is the position of the data with the first checksum.
fn changes(sums: &Checksummer, copies: &Copies, first: u64, old: &[u8], new: &[u8]) -> Option<Vec<u64>> {
    let (sum, rest) = (s::CHECKSUM.offset, s::CHECKSUM.offset + 4);
    if old[..sum] != new[..sum] || old[rest..s::SUMS.offset] != new[rest..s::SUMS.offset] {
        return None;
    }
    let mut summed = Vec::new();
    // Few checksums change, so most lines are skipped whole.
    let lines = old[s::SUMS.offset..].chunks(LINE_BYTES).zip(new[s::SUMS.offset..].chunks(LINE_BYTES));
    let changed = lines.enumerate().filter(|(_, (old, new))| old != new);
    for index in changed.flat_map(|(line, _)| (LINE * line..).take(LINE)) {
        let field = s::SUMS.index(index);
        let sum = field.read(new)?;
        if field.read(old)? != sum {
            let at = first + index as u64 * BLOCK;
            if sums.of_data(at, copies.get(at)?) != sum {
                return None;
            }
            summed.push(at);
        }
    }
    Some(summed)
}
