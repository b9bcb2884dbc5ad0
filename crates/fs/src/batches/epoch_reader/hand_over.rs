//! The hand-over of batches: from the thread that finds files to the one that reads them, and to the caller.
//!
//! ```text
//!  finder ── found ──► reader ── ready ──► caller
//!     ▲                  ▲                   │
//!     └─ room for more   └── memory ◄────────┘ of batches that it drops
//! ```
//!
//! One mutex has all state, and each side waits at a condition of its own.

use super::budget::{Budget, Room, bytes_of};
use super::planted::PlantedBug;
use crate::batches::read_files::{FileContents, Located};
use crate::vocabulary::error::Result;
use crate::vocabulary::path_set::PathSet;
use lanefs_sync::{Condvar, Mutex, is_planted};
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

/// A batch whose files were found.
pub(super) struct FoundBatch {
    /// Its part of the order.
    pub(super) part: Range<usize>,
    /// The paths of this batch and of some others, and the first one of this batch.
    pub(super) paths: Arc<PathSet>,
    pub(super) first_path: usize,
    pub(super) located: Vec<Located>,
}

/// A batch to read, and the memory for it.
pub(super) struct OpenBatch {
    pub(super) found: FoundBatch,
    pub(super) room: Room,
}

/// A batch that was read.
pub(super) struct ReadyBatch {
    pub(super) part: Range<usize>,
    pub(super) room: Room,
}

/// A thread of the epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    Find,
    Read,
}

pub(super) struct HandOver {
    /// Files that are found ahead at most.
    most_found: usize,
    state: Mutex<HandOverState>,
    to_finder: Condvar,
    to_reader: Condvar,
    to_caller: Condvar,
}

struct HandOverState {
    found: VecDeque<Result<FoundBatch>>,
    found_files: usize,
    found_bytes: u64,
    ready: VecDeque<Result<ReadyBatch>>,
    budget: Budget,
    caller_waits: bool,
    has_found_all: bool,
    has_read_all: bool,
    /// Nobody wants more batches.
    is_stopped: bool,
}

impl FoundBatch {
    fn files(&self) -> usize {
        self.located.len()
    }

    fn content(&self) -> u64 {
        self.located.iter().fold(0, |sum, file| sum.saturating_add(file.len))
    }

    fn bytes(&self) -> u64 {
        bytes_of(self.files(), self.content())
    }
}

impl HandOver {
    pub(super) fn new(memory: u64, most_found: usize) -> Self {
        let state = HandOverState {
            found: VecDeque::new(),
            found_files: 0,
            found_bytes: 0,
            ready: VecDeque::new(),
            budget: Budget::new(memory),
            caller_waits: false,
            has_found_all: false,
            has_read_all: false,
            is_stopped: false,
        };
        HandOver {
            most_found,
            state: Mutex::new(state),
            to_finder: Condvar::new(),
            to_reader: Condvar::new(),
            to_caller: Condvar::new(),
        }
    }

    /// Takes a batch from the finder, when there is room for it. Returns false where nobody wants more.
    pub(super) fn offer(&self, batch: Result<FoundBatch>) -> bool {
        let (files, bytes) = batch.as_ref().map_or((0, 0), |batch| (batch.files(), batch.bytes()));
        let mut state = self.state.lock();
        while !state.is_stopped && !state.has_room_for_found(files, bytes, self.most_found) {
            self.to_finder.wait(&mut state);
        }
        if state.is_stopped {
            return false;
        }
        state.found_files += files;
        state.found_bytes = state.found_bytes.saturating_add(bytes);
        state.found.push_back(batch);
        drop(state);
        self.to_reader.notify_one();
        true
    }

    /// Gives the reader the batches to read together, or an error to hand on. Waits until a good number of
    /// them have room in the memory. Returns nothing at the end.
    pub(super) fn batches_to_read(&self) -> Vec<Result<OpenBatch>> {
        let mut state = self.state.lock();
        while !state.may_read() {
            if state.is_stopped || state.found.is_empty() && state.has_found_all {
                return Vec::new();
            }
            self.to_reader.wait(&mut state);
        }
        let batches = state.take_window();
        drop(state);
        self.to_finder.notify_one();
        batches
    }

    /// Takes the batches that the reader was given, read, in the same order.
    pub(super) fn deliver(&self, batches: Vec<Result<ReadyBatch>>) {
        let mut state = self.state.lock();
        for mut batch in batches {
            if let Ok(batch) = &mut batch {
                state.budget.recount(&mut batch.room);
            }
            state.ready.push_back(batch);
        }
        if state.is_stopped {
            state.forget_all();
        }
        drop(state);
        if !is_planted(PlantedBug::ForgetsCaller) {
            self.to_caller.notify_one();
        }
    }

    /// Gives the caller the next batch, when it is read. Returns `None` at the end.
    pub(super) fn next(&self) -> Option<Result<ReadyBatch>> {
        let mut state = self.state.lock();
        loop {
            let batch = state.ready.pop_front();
            if batch.is_some() || state.has_read_all {
                state.caller_waits = false;
                return batch;
            }
            state.caller_waits = !is_planted(PlantedBug::HidesWaitingCaller);
            self.to_reader.notify_one();
            self.to_caller.wait(&mut state);
        }
    }

    /// Takes the memory of a batch back.
    pub(super) fn give_back(&self, room: Room) {
        let mut state = self.state.lock();
        state.budget.give_back(room);
        if state.is_stopped {
            state.budget.free_spare();
        }
        drop(state);
        self.to_reader.notify_one();
    }

    /// Ends one stage: it gives no more batches.
    pub(super) fn end(&self, stage: Stage) {
        let mut state = self.state.lock();
        let waiting = match stage {
            Stage::Find => {
                state.has_found_all = true;
                &self.to_reader
            }
            Stage::Read => {
                state.has_read_all = true;
                &self.to_caller
            }
        };
        drop(state);
        waiting.notify_one();
    }

    /// Ends both stages soon.
    pub(super) fn stop(&self) {
        let mut state = self.state.lock();
        state.is_stopped = !is_planted(PlantedBug::ForgetsStop);
        state.forget_all();
        drop(state);
        self.to_finder.notify_one();
        self.to_reader.notify_one();
    }

    /// Memory of batches and spare memory, in bytes: the most so far.
    pub(super) fn most_memory(&self) -> u64 {
        self.state.lock().budget.most()
    }

    /// Memory of batches that are being read, ready, or held by the caller, in bytes.
    pub(super) fn memory(&self) -> u64 {
        self.state.lock().budget.used()
    }
}

impl HandOverState {
    fn forget_all(&mut self) {
        self.found.clear();
        for batch in std::mem::take(&mut self.ready).into_iter().flatten() {
            self.budget.give_back(batch.room);
        }
        self.budget.free_spare();
    }

    fn has_room_for_found(&self, files: usize, bytes: u64, most_files: usize) -> bool {
        self.found.is_empty()
            || self.found_files + files <= most_files
                && self.found_bytes.saturating_add(bytes) <= self.budget.limit()
    }

    /// True where the reader begins. It waits until half of the memory is free, so that it sorts many files
    /// at a time, unless the caller waits for this very batch: it gets it, whatever memory it holds.
    fn may_read(&self) -> bool {
        let first = match self.found.front() {
            None => return false,
            Some(Err(_)) => return true,
            Some(Ok(first)) => first.bytes(),
        };
        let is_urgent = self.caller_waits && self.ready.is_empty();
        let has_room = self.budget.has_room(first) && self.budget.used() <= self.budget.limit() / 2;
        !self.is_stopped && (self.budget.used() == 0 || is_urgent || has_room)
    }

    /// Takes the first batch, and as many more as fit into half of the memory.
    fn take_window(&mut self) -> Vec<Result<OpenBatch>> {
        let (mut window, mut sum) = (Vec::new(), 0u64);
        while let Some(next) = self.found.pop_front() {
            let Ok(found) = next else {
                window.extend(next.err().map(Err));
                break;
            };
            let (files, content, bytes) = (found.files(), found.content(), found.bytes());
            sum = sum.saturating_add(bytes);
            let fits = sum <= self.budget.limit() / 2 && self.budget.has_room(bytes);
            if !window.is_empty() && !fits && !is_planted(PlantedBug::IgnoresBudget) {
                self.found.push_front(Ok(found));
                break;
            }
            self.found_files -= files;
            self.found_bytes = self.found_bytes.saturating_sub(bytes);
            window.push(Ok(OpenBatch { room: self.budget.take(files, content), found }));
        }
        window
    }
}

/// The memory of a batch, given back when it is dropped.
pub(super) struct Held {
    room: Room,
    home: Arc<HandOver>,
}

impl Held {
    pub(super) fn new(room: Room, home: &Arc<HandOver>) -> Self {
        Held { room, home: Arc::clone(home) }
    }

    pub(super) fn contents(&self) -> &FileContents<'static> {
        &self.room.contents
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.home.give_back(std::mem::take(&mut self.room));
    }
}
