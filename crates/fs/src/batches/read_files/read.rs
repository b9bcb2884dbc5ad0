//! Reading the files that were found.

use super::alone::read_alone;
use super::batch::{FileBatch, TOGETHER};
use super::contents::{FileContents, Late};
use super::locate::Located;
use super::options::{FileList, range_of};
use super::planned::{PlannedFile, PlannedState, WantedFile};
use super::rounds::in_rounds;
use crate::by_inode::pieces::PIECE_BYTES;
use crate::vocabulary::error::Result;
use crate::vocabulary::threads::in_threads;
use lanefs_format::{BLOCK, Code};
use lanefs_store::{BlockRange, Want};
use std::borrow::BorrowMut;

/// Blocks that are fetched together at most: 8 MiB.
pub(super) const WINDOW_BLOCKS: u64 = 2048;

impl FileBatch<'_> {
    /// Divides the memory among the files that were found.
    pub(crate) fn planned<'m>(
        &self,
        files: FileList<'m>,
        located: &[Located],
        mut memory: &'m mut [u8],
    ) -> Vec<PlannedFile<'m>> {
        let mut planned = Vec::with_capacity(located.len());
        let is_left = |file: &Located| file.code == Code::Success && !file.is_done;
        for (row, file) in located.iter().enumerate().filter(|(_, file)| is_left(file)) {
            let (out, rest) = memory.split_at_mut(file.len as usize);
            memory = rest;
            planned.push(PlannedFile {
                row,
                wanted: self.wanted(files, row, file),
                out,
                state: PlannedState::Open,
            });
        }
        planned
    }

    /// One of the files that were found.
    pub(super) fn wanted<'f>(&self, files: FileList<'f>, row: usize, file: &Located) -> WantedFile<'f> {
        let path = match files {
            FileList::Paths(paths) => Some((paths.get(row).unwrap_or(&[]), file.generation)),
            FileList::Inodes(_) => None,
        };
        WantedFile { ino: file.ino, path, range: range_of(self.options.ranges, row) }
    }

    /// Reads the files that were found and are not done into one piece of memory.
    pub(super) fn read_into(
        &self,
        files: FileList<'_>,
        located: &[Located],
        contents: &mut FileContents<'_>,
    ) -> Result<()> {
        let left = |file: &Located| (file.code, if file.is_done { 0 } else { file.len });
        let memory = contents.lay_out(located.iter().map(left))?;
        let mut planned = self.planned(files, located, memory);
        self.read(&mut planned);
        let late: Vec<Late> = planned.into_iter().filter_map(PlannedFile::into_late).collect();
        contents.replace(&late)
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
        mut accept: impl FnMut(&mut PlannedFile<'b>, PlannedState),
    ) {
        let caller = &self.options.resolve.caller;
        in_rounds(
            &self.volume.shared,
            planned,
            self.options.validates(),
            |core, file| file.borrow_mut().copy(core, caller),
            |file, state| accept(file.borrow_mut(), state),
        );
    }

    /// Fetches what is missing, in the order of positions, and copies it. So much is fetched at a time that
    /// it takes a small part of the cache: it is still there when it is copied.
    fn fetch(&self, planned: &mut [PlannedFile<'_>]) {
        let mut missing: Vec<&mut PlannedFile<'_>> = planned
            .iter_mut()
            .filter(|file| !file.missing().is_empty() && file.out.len() <= PIECE_BYTES)
            .collect();
        if missing.is_empty() {
            return;
        }
        missing.sort_unstable_by_key(|file| file.missing()[0].first);
        let (threads, most, files) = self.window(missing.len());
        let blocks = |file: &&mut PlannedFile<'_>| file.missing_blocks();
        in_threads(threads, windows(&mut missing, most, files, blocks).into_iter(), |window| {
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
                file.state = if matches!(state, PlannedState::Done) { state } else { PlannedState::Open };
            });
        });
    }

    /// Threads that fetch so many files, and the most blocks and files of a window of each.
    pub(super) fn window(&self, missing: usize) -> (usize, u64, usize) {
        let threads = self.threads(missing, TOGETHER / 4, true);
        let allowed = self.volume.shared.state.store.stats().blocks_allowed;
        let most = (allowed / 16 / threads as u64).clamp(16, WINDOW_BLOCKS);
        (threads, most, missing.div_ceil(threads))
    }

    /// Reads the files by themselves that are left.
    fn read_rest(&self, planned: &mut [PlannedFile<'_>]) {
        let left: Vec<_> = planned
            .iter_mut()
            .filter(|file| matches!(file.state, PlannedState::Open | PlannedState::Missing(_)))
            .collect();
        if left.is_empty() {
            return;
        }
        let threads = self.threads(left.len(), 1, !self.volume.shared.state.store.is_memory());
        in_threads(threads, left.into_iter(), |file| read_alone(self, file));
    }
}

/// Divides files into parts of `most_blocks` missing blocks and `most_files` files at most, or of one file.
pub(super) fn windows<F>(
    mut files: &mut [F],
    most_blocks: u64,
    most_files: usize,
    blocks: impl Fn(&F) -> u64,
) -> Vec<&mut [F]> {
    let mut parts = Vec::new();
    while !files.is_empty() {
        let mut sum = 0;
        let fits = files.iter().take(most_files).take_while(|file| {
            sum += blocks(file);
            sum <= most_blocks
        });
        let count = fits.count().max(1);
        let (part, rest) = files.split_at_mut(count);
        parts.push(part);
        files = rest;
    }
    parts
}
