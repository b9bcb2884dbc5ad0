//! The thread that finds the files of the next batches.

use super::hand_over::FoundBatch;
use super::work::EpochWork;
use crate::batches::read_files::{FileBatch, FileList};
use crate::vocabulary::error::Result;
use crate::vocabulary::path_set::PathSet;
use std::ops::Range;
use std::sync::Arc;

/// Files that are looked up together: enough for the lookups and their misses to overlap.
const TOGETHER: usize = 4096;

/// Finds all files, batch after batch, until nobody wants more.
pub(super) fn find(work: &EpochWork) {
    let (mut start, mut together) = (work.start, work.batch);
    #[cfg(test)]
    super::tests::may_panic(work, super::hand_over::Stage::Find);
    while start < work.order.len() && !work.is_stopped() {
        let part = start..start.saturating_add(together).min(work.order.len());
        start = part.end;
        // The first batch by itself, so that the caller soon has it; then more and more of them.
        together = together.max(together.saturating_mul(2).min(TOGETHER / work.batch * work.batch));
        let goes_on = match find_part(work, part) {
            Ok(batches) => batches.into_iter().all(|batch| work.home.offer(Ok(batch))),
            Err(error) => {
                work.home.offer(Err(error));
                false
            }
        };
        if !goes_on {
            return;
        }
    }
}

/// Finds the files of some batches.
fn find_part(work: &EpochWork, part: Range<usize>) -> Result<Vec<FoundBatch>> {
    let all = work.paths.view();
    let paths: PathSet = work.order[part.clone()].iter().filter_map(|row| all.get(*row as usize)).collect();
    let paths = Arc::new(paths);
    let options = work.read_options();
    let files = FileBatch { volume: &work.volume, options: &options, stop: Some(&work.stop) };
    let mut located = Vec::with_capacity(part.len());
    while located.len() < part.len() && !work.is_stopped() {
        let piece = located.len()..(located.len() + TOGETHER).min(part.len());
        located.extend(files.locate(FileList::Paths(paths.view().slice(piece)))?);
    }
    let batches = located.chunks(work.batch).enumerate().map(|(i, located)| {
        let first_path = i * work.batch;
        let first = part.start + first_path;
        let part = first..first + located.len();
        FoundBatch { part, paths: Arc::clone(&paths), first_path, located: located.to_vec() }
    });
    Ok(batches.collect())
}
