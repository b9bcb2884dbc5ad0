//! Bringing blocks in: each by one thread, however many wait for it.

use crate::commit::fault;
use crate::planted;
use crate::readahead::Run;
use crate::state::{self, ABSENT, DATA, FETCHING, FRESH, MARKER};
use crate::store::expectation;
use crate::{Device, Fault, IoBufMut, Read, Store, Want};
use lanefs_format::{BLOCK, BlockKind, CHUNK, chunk_entry, chunk_header};
use lanefs_sync::{Condvar, Mutex};
use std::collections::HashMap;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

/// Waiting places; which one is a matter of the block's number.
const PLACES: usize = 64;

/// A read of a long run is cut into pieces of this many blocks (128 KiB), so that several are in flight.
const PIECE: u64 = 32;

#[derive(Default)]
struct Place {
    /// Failures of fetches under way or just over that others wait for, by block: how many still have to hear of it.
    failures: Mutex<HashMap<u64, Waiting>>,
    over: Condvar,
}

#[derive(Default)]
struct Waiting {
    threads: usize,
    failure: Option<Fault>,
}

/// Fetches that are under way.
pub(crate) struct Fetches {
    places: Box<[Place]>,
    pub(crate) blocks: AtomicU64,
}

impl Default for Fetches {
    fn default() -> Self {
        Fetches { places: (0..PLACES).map(|_| Place::default()).collect(), blocks: AtomicU64::new(0) }
    }
}

impl Fetches {
    fn place(&self, index: u64) -> &Place {
        &self.places[index as usize % PLACES]
    }
}

impl Store {
    /// Brings in what a [`Fault::Miss`] asked for; other blocks are let go for it where memory is short. The caller is in no
    /// slot. (Who has closed the gate may fetch; nothing is let go then, see [`make_room_alone`](Self::make_room_alone).)
    ///
    /// # Errors
    /// [`Fault::Io`] from the device, also when another thread's fetch of the same block failed while this one waited;
    /// [`Fault::Damaged`] when the block does not verify.
    pub fn fetch(&self, at: u64, want: Want) -> Result<(), Fault> {
        let Some(device) = self.device() else {
            return Err(match want {
                Want::Block(kind) => Fault::damaged(at, expectation(kind)),
                Want::Data { .. } => Fault::damaged(at, "no file data there"),
            });
        };
        if !at.is_multiple_of(BLOCK) || at >= self.bytes() {
            return Err(Fault::damaged(at, "a position outside the volume"));
        }
        match want {
            Want::Block(kind) => self.fetch_block(device, at, kind),
            Want::Data { need, extent } => {
                let plan = self.ahead.plan(at / BLOCK, need, extent);
                self.ahead.ask(plan.later);
                let wanted = at / BLOCK..at / BLOCK + u64::from(need);
                self.fetch_data(device, &[plan.now], &wanted)?;
                // What others had under way already must be here too.
                wanted.into_iter().try_for_each(|index| self.await_block(index))
            }
        }
    }

    /// Brings in file data that somebody will want soon. What fails here fails again when it is wanted.
    pub fn read_ahead(&self, run: Run) {
        if let Some(device) = self.device()
            && (run.first + u64::from(run.count)) * BLOCK <= self.bytes()
        {
            let _ = self.fetch_data(device, &[run], &(0..0));
        }
    }

    fn fetch_block(&self, device: &dyn Device, at: u64, kind: BlockKind) -> Result<(), Fault> {
        let index = at / BLOCK;
        loop {
            match self.state(index) {
                ABSENT => {}
                FETCHING | state::EVICTING => {
                    self.await_block(index)?;
                    continue;
                }
                // Whether it is what was wanted the next run finds out: it may have gone out of use since, and come into
                // another, so that it is none of this caller's business any more.
                _ => return Ok(()),
            }
            // Blocks that say how to verify this one come first.
            let table = match kind {
                BlockKind::ChunkHeader if at & (CHUNK - 1) != 0 => Some(at & !(CHUNK - 1)),
                BlockKind::Pointers => Some(Self::table_entry(at).0),
                _ => None,
            };
            if let Some(table) = table {
                self.fetch_block(device, table, BlockKind::ChunkHeader)?;
            }
            if !self.change_state(index, ABSENT, FETCHING) {
                continue;
            }
            let done = self.read_and_verify(device, at, kind);
            match done {
                Ok(()) => self.has_come(index, kind as u8 | FRESH),
                // The table left again before it was read: once more, and whoever waits tries for himself.
                Err(Fault::Miss { .. }) => {
                    self.finish(index, ABSENT, Ok(()));
                    continue;
                }
                Err(_) => self.finish(index, ABSENT, done),
            }
            self.make_room(0);
            return done;
        }
    }

    fn read_and_verify(&self, device: &dyn Device, at: u64, kind: BlockKind) -> Result<(), Fault> {
        let mut frame = self.frame(at, BLOCK);
        if !self.commits.copy_committed(at, &mut frame) {
            device.read_at(at, frame.reborrow()).map_err(|e| fault(at, "reading", &e))?;
        }
        // A copy of its own to verify: no reference stands for a frame, which stale attempts may be reading.
        let mut bytes = [0; BLOCK as usize];
        frame.copy_to(&mut bytes);
        let bytes = &bytes;
        let good = match kind {
            BlockKind::ChunkHeader if at & (CHUNK - 1) != 0 => {
                let first = at & !(CHUNK - 1);
                let table = self.view_of(first, BLOCK as usize, kind)?;
                self.sums.of(at, bytes, None) == table.get(chunk_header::CHECKSUM2)
            }
            BlockKind::ChunkHeader => {
                chunk_header::OWNER.read(bytes) == Some(at)
                    && chunk_header::KIND.read(bytes) == Some(kind as u8)
                    && chunk_header::CHECKSUM.read(bytes) == Some(self.table_sum(at, bytes))
            }
            BlockKind::Pointers => {
                let (table, offset) = Self::table_entry(at);
                let mut entry = [0u8; chunk_entry::SIZE];
                let view = self.view_of(table, BLOCK as usize, BlockKind::ChunkHeader)?;
                view.copy_to(offset, &mut entry);
                self.sums.verify(kind, at, bytes, 0, &entry)
            }
            _ => self.sums.verify(kind, at, bytes, self.inode_size().bytes() as usize, &[]),
        };
        if good { Ok(()) } else { Err(Fault::damaged(at, expectation(kind))) }
    }

    /// Checksum of a chunk table's first block. It leaves out its own four bytes; the second block's sum is inside, so
    /// it covers both.
    pub(crate) fn table_sum(&self, at: u64, bytes: &[u8]) -> u32 {
        self.sums.of(at, bytes, Some(chunk_header::CHECKSUM))
    }

    /// Brings in what many runs missed, with as many reads in flight as the device takes. What fails fails again when it is
    /// wanted.
    pub fn fetch_many(&self, misses: &[(u64, Want)]) {
        let Some(device) = self.device() else { return };
        let mut runs = Vec::with_capacity(misses.len());
        for (at, want) in misses {
            match want {
                Want::Data { need, .. } => runs.push(Run { first: at / BLOCK, count: *need }),
                Want::Block(_) => drop(self.fetch(*at, *want)),
            }
        }
        let _ = self.fetch_data(device, &runs, &(0..0));
    }

    /// Reads those blocks of runs that are neither here nor on their way.
    ///
    /// # Errors
    /// [`Fault::Io`] for blocks among `wanted`. What is read ahead and fails will fail again when it is wanted.
    fn fetch_data(&self, device: &dyn Device, runs: &[Run], wanted: &Range<u64>) -> Result<(), Fault> {
        let mut claimed: Vec<(u64, u64)> = Vec::new();
        let end = self.bytes() / BLOCK;
        let markers = self.ahead.markers();
        let here = |index: u64| DATA | FRESH | if markers.contains(&index) { MARKER } else { 0 };
        let blocks = |run: &Run| run.first..(run.first + u64::from(run.count)).min(end);
        for index in runs.iter().flat_map(blocks) {
            if !self.change_state(index, ABSENT, FETCHING) {
                continue;
            }
            // What is committed and not in place is looked for first: a checkpoint may bring it to its place meanwhile, and
            // what was read there before would be too old.
            if self.commits.copy_committed(index * BLOCK, &mut self.frame(index * BLOCK, BLOCK)) {
                self.has_come(index, here(index));
                continue;
            }
            match claimed.last_mut() {
                Some((first, count)) if *first + *count == index && *count < PIECE => *count += 1,
                _ => claimed.push((index, 1)),
            }
        }
        if claimed.is_empty() {
            return Ok(());
        }
        self.make_room(claimed.iter().map(|(_, count)| count).sum());
        let mut requests: Vec<Read<'_>> = claimed
            .iter()
            .map(|(first, count)| Read {
                at: first * BLOCK,
                buffer: self.frame(first * BLOCK, count * BLOCK),
            })
            .collect();
        let failures = device.read_many(&mut requests).err();
        drop(requests);
        let mut outcome = Ok(());
        for (i, (first, count)) in claimed.into_iter().enumerate() {
            let failed = failures.as_ref().is_some_and(|failures| failures.of(i).is_some());
            for index in first..first + count {
                let at = index * BLOCK;
                // Which block of a piece was at fault is found out one by one.
                let done = if failed { device.read_at(at, self.frame(at, BLOCK)) } else { Ok(()) };
                let Err(error) = done else {
                    self.has_come(index, here(index));
                    continue;
                };
                let done = Err(fault(at, "reading", &error));
                if wanted.contains(&index) {
                    outcome = outcome.and(done);
                }
                self.finish(index, ABSENT, done);
            }
        }
        outcome
    }

    /// The memory of blocks, to be read into. The caller has set their state to [`FETCHING`], so it alone writes them; runs that
    /// will not count may read them.
    pub(crate) fn frame(&self, at: u64, len: u64) -> IoBufMut<'_> {
        debug_assert!((at / BLOCK..(at + len) / BLOCK).all(|index| self.state_is(index, FETCHING)));
        self.arena.target(at, len as usize)
    }

    /// A block is here.
    fn has_come(&self, index: u64, state: u8) {
        self.cache.add(index, 1);
        self.fetches.blocks.fetch_add(1, Ordering::Relaxed);
        self.finish(index, state, Ok(()));
    }

    /// The fetch of a block is over: everybody who waits hears of it.
    pub(crate) fn finish(&self, index: u64, state: u8, done: Result<(), Fault>) {
        let place = self.fetches.place(index);
        let mut failures = place.failures.lock();
        if let (Err(fault), Some(waiting)) = (done, failures.get_mut(&index)) {
            waiting.failure = Some(fault);
        }
        self.change_state(index, FETCHING, state);
        drop(failures);
        if !planted::is(planted::Fault::SilentFetch) {
            place.over.notify_all();
        }
    }

    /// Waits while a block is on its way in or out.
    fn await_block(&self, index: u64) -> Result<(), Fault> {
        let place = self.fetches.place(index);
        let mut failures = place.failures.lock();
        if self.state(index) == state::EVICTING {
            drop(failures);
            lanefs_sync::yield_now();
            return Ok(());
        }
        if self.state(index) != FETCHING {
            return Ok(());
        }
        let waiting = failures.entry(index).or_default();
        waiting.threads += 1;
        // That of an earlier fetch, of which not all who waited know yet: they wait for this one as well.
        waiting.failure = None;
        loop {
            let failure = failures.get(&index).and_then(|waiting| waiting.failure);
            if failure.is_none() && self.state(index) == FETCHING {
                place.over.wait(&mut failures);
                continue;
            }
            if let Some(waiting) = failures.get_mut(&index) {
                debug_assert!(waiting.threads > 0);
                waiting.threads -= 1;
                if waiting.threads == 0 {
                    failures.remove(&index);
                }
            }
            return failure.map_or(Ok(()), Err);
        }
    }
}
