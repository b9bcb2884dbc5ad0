//! The answers to a batch, as columns of the caller: a column after the other for some rows, and large
//! batches by several threads, each of which has rows of its own.

use super::batch::PathBatch;
use super::packing::{EACH, Packers};
use lanefs::{ANSWER_BLOCK, ColumnsMut, Rows};
use std::ops::Range;

/// The paths with answers that name an inode, counted, and those that the device left open.
#[derive(Debug, Default)]
pub(super) struct AnswersWritten {
    pub(super) found: usize,
    pub(super) open: Vec<usize>,
}

impl Packers {
    /// Writes the answers to the first `count` paths of a batch, which has ended, to the rows from `first`
    /// on.
    pub(super) fn answer(
        &self,
        batch: &PathBatch,
        count: usize,
        first: usize,
        rows: &mut dyn Rows,
    ) -> AnswersWritten {
        // Threads share columns where each has whole words of bits.
        let columns = if first.is_multiple_of(ANSWER_BLOCK) { rows.as_columns() } else { None };
        let Some(columns) = columns else {
            return write(batch, 0..count, first, rows);
        };
        let (_, mut columns) = columns.split_at_row(first);
        self.share(count, |is_shared| match is_shared {
            true => write_halves(batch, 0..count, columns),
            false => write(batch, 0..count, 0, &mut columns),
        })
    }
}

/// Writes the answers to some paths to columns that begin with the row of the first, by halves that threads
/// share.
fn write_halves(batch: &PathBatch, part: Range<usize>, mut columns: ColumnsMut<'_>) -> AnswersWritten {
    if part.len() < 2 * EACH {
        return write(batch, part, 0, &mut columns);
    }
    let half = (part.len() / 2).next_multiple_of(ANSWER_BLOCK);
    let middle = part.start + half;
    let (before, after) = columns.split_at_row(half);
    let (mut written, mut more) = rayon::join(
        || write_halves(batch, part.start..middle, before),
        || write_halves(batch, middle..part.end, after),
    );
    written.found += more.found;
    written.open.append(&mut more.open);
    written
}

/// Writes the answers to some paths, of which the first is that of the row `first`.
fn write(batch: &PathBatch, part: Range<usize>, first: usize, rows: &mut dyn Rows) -> AnswersWritten {
    debug_assert!(part.start.is_multiple_of(ANSWER_BLOCK), "answers inside a block");
    let mut written = AnswersWritten::default();
    for at in part.clone().step_by(ANSWER_BLOCK) {
        let answers = batch.answers(at);
        written.found += answers.found();
        written.open.extend(answers.open().map(|i| at + i));
        rows.answered(first + at - part.start, &answers);
    }
    written
}
