//! Reading the files that were found.

use super::alone::read_alone;
use super::batch::{FileBatch, TOGETHER};
use super::locate::Located;
use super::options::{FileList, range_of};
use super::planned::{PlannedFile, State};
use super::rounds::in_rounds;
use crate::pieces::PIECE;
use crate::threads::in_threads;
use lanefs_format::{BLOCK, Code};
use lanefs_store::{BlockRange, Want};
use std::borrow::BorrowMut;

/// Blocks that are fetched together at most: 8 MiB.
const WINDOW: u64 = 2048;

impl FileBatch<'_> {
    /// Divides the memory among the files that were found.
    pub(crate) fn planned<'m>(
        &self,
        files: FileList<'m>,
        located: &[Located],
        mut memory: &'m mut [u8],
    ) -> Vec<PlannedFile<'m>> {
        let mut planned = Vec::with_capacity(located.len());
        for (row, file) in located.iter().enumerate().filter(|(_, file)| file.code == Code::Success) {
            let (out, rest) = memory.split_at_mut(file.len as usize);
            memory = rest;
            let path = match files {
                FileList::Paths(paths) => Some((paths.get(row).unwrap_or(&[]), file.generation)),
                FileList::Inodes(_) => None,
            };
            let range = range_of(self.options.ranges, row);
            planned.push(PlannedFile { row, ino: file.ino, path, range, out, state: State::Open });
        }
        planned
    }

    /// Reads the files that were found, which may be those of several batches.
    pub(crate) fn read(&self, planned: &mut [PlannedFile<'_>]) {
        self.copy_resident(planned);
        self.fetch(planned);
        self.read_rest(planned);
    }

    /// Copies the files that are resident, and finds out what the others need.
    fn copy_resident(&self, planned: &mut [PlannedFile<'_>]) {
        let threads = self.threads(planned.len(), TOGETHER, false);
        in_threads(threads, planned.chunks_mut(TOGETHER), |part| {
            if self.is_stopped() {
                return;
            }
            self.copy(part, |file, state| file.state = state);
        });
    }

    fn copy<'b, P: BorrowMut<PlannedFile<'b>>>(
        &self,
        planned: &mut [P],
        mut accept: impl FnMut(&mut PlannedFile<'b>, State),
    ) {
        let who = &self.options.resolve.caller;
        in_rounds(
            &self.volume.shared,
            planned,
            self.options.validates(),
            |core, file| file.borrow_mut().copy(core, who),
            |file, state| accept(file.borrow_mut(), state),
        );
    }

    /// Fetches what is missing, in the order of positions, and copies it. So much is fetched at a time that
    /// it takes a small part of the cache: it is still there when it is copied.
    fn fetch(&self, planned: &mut [PlannedFile<'_>]) {
        let mut missing: Vec<&mut PlannedFile<'_>> =
            planned.iter_mut().filter(|file| !file.missing().is_empty() && file.out.len() <= PIECE).collect();
        if missing.is_empty() {
            return;
        }
        missing.sort_unstable_by_key(|file| file.missing()[0].first);
        let threads = self.threads(missing.len(), TOGETHER / 4, true);
        let allowed = self.volume.shared.state.store.stats().blocks_allowed;
        let most = (allowed / 16 / threads as u64).clamp(16, WINDOW);
        let files = missing.len().div_ceil(threads);
        in_threads(threads, windows(&mut missing, most, files).into_iter(), |window| {
            if self.is_stopped() {
                return;
            }
            let mut ranges: Vec<BlockRange> =
                window.iter().flat_map(|file| file.missing()).copied().collect();
            ranges.sort_unstable_by_key(|range| range.first);
            let want = |range: &BlockRange| {
                (range.first * BLOCK, Want::Data { need: range.count, extent: range.count })
            };
            let misses: Vec<_> = ranges.iter().map(want).collect();
            self.volume.shared.state.store.fetch_many(&misses);
            self.copy(window, |file, state| {
                file.state = if matches!(state, State::Done) { state } else { State::Open };
            });
        });
    }

    /// Reads the files by themselves that are left.
    fn read_rest(&self, planned: &mut [PlannedFile<'_>]) {
        let left: Vec<_> =
            planned.iter_mut().filter(|file| matches!(file.state, State::Open | State::Missing(_))).collect();
        if left.is_empty() {
            return;
        }
        let threads = self.threads(left.len(), 1, !self.volume.shared.state.store.is_memory());
        in_threads(threads, left.into_iter(), |file| read_alone(self, file));
    }
}

/// Divides files into parts of `blocks` missing blocks and `files` files at most, or of one file.
fn windows<'w, 's, 'b>(
    mut files: &'w mut [&'s mut PlannedFile<'b>],
    blocks: u64,
    most: usize,
) -> Vec<&'w mut [&'s mut PlannedFile<'b>]> {
    let mut parts = Vec::new();
    while !files.is_empty() {
        let mut sum = 0;
        let fits = files.iter().take(most).take_while(|file| {
            sum += file.missing_blocks();
            sum <= blocks
        });
        let count = fits.count().max(1);
        let (part, rest) = files.split_at_mut(count);
        parts.push(part);
        files = rest;
    }
    parts
}
