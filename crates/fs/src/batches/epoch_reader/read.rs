//! The thread that reads the batches whose files were found.

use super::budget::Room;
use super::hand_over::{FoundBatch, OpenBatch, ReadyBatch};
use super::work::EpochWork;
use crate::batches::read_files::{FileBatch, FileList, Late, PlannedFile};
use crate::vocabulary::error::Result;

/// Reads all batches, some at a time, until nobody wants more.
pub(super) fn read(work: &EpochWork) {
    loop {
        let batches = work.home.batches_to_read();
        if batches.is_empty() {
            return;
        }
        let batches = read_together(work, batches);
        work.home.deliver(batches);
    }
}

/// Reads the files of several batches as one, by position on the device, each to the memory of its batch.
fn read_together(work: &EpochWork, mut batches: Vec<Result<OpenBatch>>) -> Vec<Result<ReadyBatch>> {
    #[cfg(test)]
    super::tests::may_panic(work, super::hand_over::Stage::Read);
    let options = work.read_options();
    let files = FileBatch { volume: &work.volume, options: &options, stop: Some(&work.stop) };
    let mut planned: Vec<PlannedFile<'_>> = Vec::new();
    // The number of files of each batch, or the reason why it has no memory.
    let mut counts = Vec::with_capacity(batches.len());
    for batch in &mut batches {
        let Ok(OpenBatch { found, room: Room { contents, .. } }) = batch else {
            counts.push(Ok(0));
            continue;
        };
        counts.push(contents.lay_out(found.located.iter().map(|file| (file.code, file.len))).map(|memory| {
            let more = files.planned(paths_of(found), &found.located, memory);
            let count = more.len();
            planned.extend(more);
            count
        }));
    }
    files.read(&mut planned);
    let mut planned = planned.into_iter();
    let late: Vec<Result<Vec<Late>>> =
        counts.into_iter().map(|count| count.map(|count| late_of(planned.by_ref().take(count)))).collect();
    batches.into_iter().zip(late).map(|(batch, late)| finish(work, batch?, late)).collect()
}

fn paths_of(found: &FoundBatch) -> FileList<'_> {
    FileList::Paths(found.paths.view().slice(found.first_path..found.first_path + found.located.len()))
}

fn late_of<'p>(planned: impl Iterator<Item = PlannedFile<'p>>) -> Vec<Late> {
    planned.filter_map(PlannedFile::into_late).collect()
}

/// Puts the files in place that changed meanwhile.
fn finish(work: &EpochWork, batch: OpenBatch, late: Result<Vec<Late>>) -> Result<ReadyBatch> {
    let OpenBatch { found, mut room } = batch;
    match late.and_then(|late| room.contents.replace(&late)) {
        Ok(()) => Ok(ReadyBatch { part: found.part, room }),
        Err(error) => {
            work.home.give_back(room);
            Err(error)
        }
    }
}
