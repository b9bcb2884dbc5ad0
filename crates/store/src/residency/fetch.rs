//! Fetches: one thread reads an absent block from the device, however many wait for it.

use super::origin::relocate;
use super::sum::sum_blocks;
use crate::device::{Device, IoBufMut, Read, ReadErrors};
use crate::memory::state::{self, ABSENT, DATA, EVICTING, FETCHING, FRESH, MARKER, UNASKED};
use crate::store::neighbours::{Company, DATA_WINDOW_BLOCKS};
use crate::store::{Store, is_table};
use crate::vocabulary::fault::{Fault, Want, data_fault, expectation, io_fault, misplaced};
use crate::vocabulary::range::{AheadRange, BlockRange};
use lanefs_format::{BLOCK, BLOCKS_PER_CHUNK, BlockKind, CHUNK, chunk_entry, chunk_header};
use lanefs_sync::yield_now;
use std::collections::HashMap;
use std::io;
use std::ops::Range;
use std::sync::atomic::Ordering;
use std::sync::mpsc::Sender;

/// Most blocks of one read (128 KiB): a long range is cut into several reads, which are in flight together.
const PIECE_BLOCKS: u64 = 32;

/// The same for the neighbours among many misses (1 MiB): enough other reads are in flight.
const JOINED: u64 = 256;

/// The need for blocks that are fetched.
#[derive(Clone, Copy)]
enum Need<'r> {
    /// A thread waits for these; all others are neighbours.
    Now(&'r Range<u64>),
    /// A thread will want them, and none waits.
    Soon,
    /// They are those of a batch, which knows all that it needs.
    Batch,
    /// They are neighbours.
    Perhaps,
}

impl Need<'_> {
    /// Returns the blocks for which a thread waits.
    fn wanted(&self) -> Range<u64> {
        if let Need::Now(wanted) = self { (*wanted).clone() } else { 0..0 }
    }

    fn is_neighbour(&self, index: u64) -> bool {
        match self {
            Need::Now(wanted) => !wanted.contains(&index),
            Need::Soon | Need::Batch => false,
            Need::Perhaps => true,
        }
    }
}

impl Store {
    /// Fetches the block of a [`Fault::Miss`], and evicts others where memory is short. The caller is in no
    /// slot. (A thread that has closed the gate may fetch; nothing is evicted then, see
    /// [`make_room_exclusively`](Self::make_room_exclusively).)
    ///
    /// # Errors
    /// [`Fault::Io`] from the device, also when another thread's fetch of the same block failed while this
    /// one waited, and for an [interrupted](Self::interrupt_waits_by) wait; [`Fault::Damaged`] when the block
    /// does not verify, or is of a place where no file data lie; [`Fault::WrongData`] when file data do not
    /// verify.
    pub fn fetch(&self, at: u64, want: Want) -> Result<(), Fault> {
        let Some(device) = self.device() else {
            return Err(match want {
                Want::Block(kind) => Fault::damaged(at, expectation(kind)),
                Want::Data { .. } | Want::Frame => Fault::damaged(at, "no file data there"),
            });
        };
        if !at.is_multiple_of(BLOCK) || at >= self.bytes() {
            return Err(Fault::damaged(at, "a position outside the volume"));
        }
        match want {
            Want::Block(BlockKind::Group) => {
                self.fetch_block(device, at, BlockKind::Group)?;
                self.read_table_ahead(device, at);
                Ok(())
            }
            Want::Block(kind) => self.fetch_block(device, at, kind),
            Want::Frame => self.wait_for_slot(at),
            Want::Data { need, extent } => {
                let plan = self.ahead.plan(at / BLOCK, need, extent);
                self.ahead.request(plan.later);
                let wanted = at / BLOCK..at / BLOCK + u64::from(need);
                let (window, rest) =
                    if extent <= need { self.data_window(plan.now) } else { (plan.now, Vec::new()) };
                self.fetch_data(device, &[window], Need::Now(&wanted), PIECE_BLOCKS)?;
                // The device gives the blocks that a thread waits for first.
                self.ahead.request(rest);
                // Blocks that other threads are fetching must be resident too.
                wanted.into_iter().try_for_each(|index| self.wait_for_fetch(index))
            }
        }
    }

    /// Fetches the blocks of the group table that a walk over it will want after the one at `at`. Those of
    /// another volume wait until they are asked for: one that nobody reads is not opened.
    fn read_table_ahead(&self, device: &dyn Device, at: u64) {
        let (table, count) = self.places.groups.get();
        let Some(number) = at.checked_sub(table).map(|bytes| bytes / BLOCK) else { return };
        let ahead = self.table_ahead.plan(number, count, self.cache.budget());
        let base = |at: u64| self.origin(at).map(|origin| origin.relocation.base);
        let here = base(at);
        let ahead = ahead.map(|number| table + number * BLOCK).filter(|at| base(*at) == here);
        let blocks: Vec<_> = ahead.map(|at| (at, BlockKind::Group)).collect();
        self.fetch_blocks(device, &blocks);
    }

    /// Returns the window of a miss of all that lies together of a file, where it is small and neighbours
    /// should come along, and the rest of the chunk, where that should come too; else the blocks that were
    /// missed. A file that reaches over the window's end is read with it.
    fn data_window(&self, missed: BlockRange) -> (BlockRange, Vec<AheadRange>) {
        let first = missed.first - missed.first % DATA_WINDOW_BLOCKS;
        let end = (missed.first + u64::from(missed.count)).max(first + DATA_WINDOW_BLOCKS);
        if u64::from(missed.count) > DATA_WINDOW_BLOCKS / 2 {
            return (missed, Vec::new());
        }
        let company = self.neighbours.company(missed.first * BLOCK);
        // No block is evicted for a neighbour.
        if company == Company::None || self.cache.room() < end - first {
            return (missed, Vec::new());
        }
        let chunk = first - first % BLOCKS_PER_CHUNK;
        let rest = [(chunk, first), (end, (chunk + BLOCKS_PER_CHUNK).min(self.bytes() / BLOCK))];
        let rest = rest.into_iter().filter(|(first, end)| company == Company::Chunk && first < end);
        let rest = rest.map(|(first, end)| BlockRange { first, count: (end - first) as u32 });
        let window = BlockRange { first, count: (end - first) as u32 };
        (window, rest.map(AheadRange::Neighbours).collect())
    }

    /// Sets the function that starts the helper of readahead, a thread that calls
    /// [`read_ahead`](Self::read_ahead) for each range that it receives. The function is called when there is
    /// something to read.
    pub fn read_ahead_by(&self, start: impl FnOnce() -> Sender<AheadRange> + Send + 'static) {
        self.ahead.set_helper(start);
    }

    /// Asks `interrupted` from time to time in each thread that waits for another thread's fetch; the wait
    /// ends where it returns true. Only the first call counts.
    pub fn interrupt_waits_by(&self, interrupted: impl Fn() -> bool + Send + Sync + 'static) {
        self.waiters.interrupt_by(Box::new(interrupted));
    }

    /// Returns an error where the calling thread should give up its long work at `at`.
    ///
    /// # Errors
    /// [`Fault::Io`] as for an [interrupted](Self::interrupt_waits_by) wait.
    pub fn check_interrupt(&self, at: u64) -> Result<(), Fault> {
        if self.waiters.is_interrupted() { Err(Fault::interrupted(at)) } else { Ok(()) }
    }

    /// Ends readahead: the helper's channel is closed.
    pub fn stop_reading_ahead(&self) {
        self.ahead.drop_helper();
    }

    /// Fetches file data that a thread will want soon, or neighbours as far as there is room for all of them.
    /// A read that fails here fails again when the data are needed.
    pub fn read_ahead(&self, range: impl Into<AheadRange>) {
        let (range, need) = match range.into() {
            AheadRange::Stream(range) => (range, Need::Soon),
            AheadRange::Neighbours(range) => {
                self.ahead.took_neighbours();
                (range, Need::Perhaps)
            }
        };
        let is_free = |count: u64| self.cache.room() >= count && !self.frames.are_short();
        let has_room = matches!(need, Need::Soon) || is_free(u64::from(range.count));
        if let Some(device) = self.device()
            && (range.first + u64::from(range.count)) * BLOCK <= self.bytes()
            && has_room
        {
            let _ = self.fetch_data(device, &[range], need, PIECE_BLOCKS);
        }
    }

    /// Fetches the blocks of many misses in the order of their positions, with as many reads in flight as the
    /// device takes. A read that fails here fails again when the block is needed.
    pub fn fetch_many(&self, misses: &[(u64, Want)]) {
        let Some(device) = self.device() else { return };
        let (mut ranges, mut blocks) = (Vec::with_capacity(misses.len()), Vec::new());
        for (at, want) in misses.iter().filter(|(at, _)| at.is_multiple_of(BLOCK) && *at < self.bytes()) {
            match *want {
                Want::Data { need, .. } => ranges.push(BlockRange { first: at / BLOCK, count: need }),
                Want::Block(kind) => blocks.push((*at, kind)),
                Want::Frame => {}
            }
        }
        ranges.sort_unstable_by_key(|range| range.first);
        let data = || ranges.iter().map(|range| self.blocks_of(range));
        blocks.extend(data().flat_map(|blocks| self.absent_groups(blocks)).map(|at| (at, BlockKind::Group)));
        if self.has_data_checksums() {
            blocks.extend(data().flat_map(sum_blocks).map(|at| (at, BlockKind::Sums)));
        }
        blocks.sort_unstable_by_key(|(at, _)| *at);
        let tables: Vec<_> = blocks
            .iter()
            .filter_map(|(at, kind)| Self::table_with_sum(*at, *kind))
            .map(|at| (at, BlockKind::ChunkHeader))
            .collect();
        if !tables.is_empty() {
            self.fetch_blocks(device, &tables);
        }
        self.fetch_blocks(device, &blocks);
        let _ = self.fetch_data(device, &ranges, Need::Batch, JOINED);
    }

    /// Reads those blocks of metadata that are absent and that no other thread is fetching, all at once.
    pub(crate) fn fetch_blocks(&self, device: &dyn Device, blocks: &[(u64, BlockKind)]) {
        // Without a frame the block is fetched when it is needed, and the fault is found again.
        let claims = |at: u64| at < self.bytes() && self.claim_frame(at / BLOCK, ABSENT) == Ok(true);
        let claimed: Vec<_> = blocks.iter().filter(|(at, _)| claims(*at)).copied().collect();
        if claimed.is_empty() {
            return;
        }
        self.make_room(claimed.len() as u64);
        let mut requests = Vec::with_capacity(claimed.len());
        let mut sources = Vec::with_capacity(claimed.len());
        for (at, _) in &claimed {
            let mut frame = self.frame(*at, BLOCK);
            if self.commits.copy_committed(*at, &mut frame) {
                sources.push(None);
            } else {
                sources.push(Some(requests.len()));
                requests.push(Read { at: *at, buffer: frame });
            }
        }
        let failures = if requests.is_empty() { None } else { device.read_many(&mut requests).err() };
        drop(requests);
        for ((at, kind), source) in claimed.into_iter().zip(sources) {
            let has_failed = |failures: &ReadErrors| source.is_some_and(|i| failures.of(i).is_some());
            // A block that failed is read again, alone, when it is needed.
            match if failures.as_ref().is_some_and(has_failed) { Ok(false) } else { self.verify(at, kind) } {
                Ok(true) => self.make_resident(at / BLOCK, kind as u8 | FRESH),
                _ => {
                    self.frames.release(at, BLOCK as usize);
                    self.finish_fetch(at / BLOCK, ABSENT, Ok(()));
                }
            }
        }
    }

    /// Position of the chunk table that has the checksum of a block, where its own kind of block has none.
    fn table_with_sum(at: u64, kind: BlockKind) -> Option<u64> {
        match kind {
            BlockKind::ChunkHeader if at & (CHUNK - 1) != 0 => Some(at & !(CHUNK - 1)),
            BlockKind::Pointers => Some(Self::table_entry(at).0),
            _ => None,
        }
    }

    pub(crate) fn fetch_block(&self, device: &dyn Device, at: u64, kind: BlockKind) -> Result<(), Fault> {
        let index = at / BLOCK;
        loop {
            match self.state(index) {
                ABSENT => {}
                FETCHING | EVICTING => {
                    self.wait_for_fetch(index)?;
                    continue;
                }
                state if state::content(state) == Some(DATA) => {
                    if !self.evict_stale_data(index, state) {
                        return Err(Fault::damaged(at, expectation(kind)));
                    }
                    continue;
                }
                // The next attempt finds out whether the block is of the kind that it needs: the block may
                // have been freed and allocated again meanwhile.
                _ => return Ok(()),
            }
            // The block that has this one's checksum is fetched first.
            if let Some(table) = Self::table_with_sum(at, kind) {
                self.fetch_block(device, table, BlockKind::ChunkHeader)?;
            }
            let with_window = self.wants_window(device, at, kind);
            match self.claim_frame(index, ABSENT) {
                Ok(true) => {}
                Ok(false) => continue,
                Err(_) => {
                    self.wait_for_slot(at)?;
                    continue;
                }
            }
            let outcome = self.read_and_verify(device, at, kind, with_window);
            match outcome {
                Ok(()) => self.make_resident(index, kind as u8 | FRESH),
                // The table was evicted before it was read: this thread and those that wait try again.
                Err(Fault::Miss { .. }) => {
                    self.finish_fetch(index, ABSENT, Ok(()));
                    continue;
                }
                Err(_) => self.finish_fetch(index, ABSENT, outcome),
            }
            self.make_room(0);
            return outcome;
        }
    }

    /// Reads a claimed block of metadata, with its window or alone.
    fn read_and_verify(
        &self,
        device: &dyn Device,
        at: u64,
        kind: BlockKind,
        with_window: bool,
    ) -> Result<(), Fault> {
        let mut frame = self.frame(at, BLOCK);
        let is_read =
            self.commits.copy_committed(at, &mut frame) || with_window && self.read_window(device, at);
        if !is_read {
            // Only the outcome of a read of this block alone is a fault.
            device.read_at(at, frame).map_err(|e| io_fault(at, "reading", &e))?;
        }
        if self.verify(at, kind)? { Ok(()) } else { Err(Fault::damaged(at, expectation(kind))) }
    }

    /// Compares a block of metadata that was read into its frame with its checksum. One of another volume is
    /// relocated there.
    ///
    /// # Errors
    /// [`Fault::Miss`] where the block that has the checksum is absent.
    fn verify(&self, at: u64, kind: BlockKind) -> Result<bool, Fault> {
        // The checksum is computed over a private copy: no reference may stand for a frame, which stale
        // attempts may be reading.
        let mut bytes = [0; BLOCK as usize];
        self.frame(at, BLOCK).copy_to(&mut bytes);
        let origin = self.origin(at);
        let (sums, home) = origin.map_or((self.sums, at), |origin| (origin.relocation.sums, origin.home));
        let is_good = match kind {
            BlockKind::ChunkHeader if at & (CHUNK - 1) != 0 => {
                let first = at & !(CHUNK - 1);
                let table = self.view_of(first, BLOCK as usize, kind)?;
                sums.of(home, &bytes, None) == table.get(chunk_header::CHECKSUM2)
            }
            BlockKind::ChunkHeader => is_table(&sums, home, &bytes),
            BlockKind::Pointers => {
                let (table, offset) = Self::table_entry(at);
                let mut entry = [0u8; chunk_entry::SIZE];
                let view = self.view_of(table, BLOCK as usize, BlockKind::ChunkHeader)?;
                view.copy_to(offset, &mut entry);
                sums.verify(kind, home, &bytes, 0, &entry)
            }
            _ => sums.verify(kind, home, &bytes, self.inode_size().bytes() as usize, &[]),
        };
        let Some(origin) = origin.filter(|_| is_good) else { return Ok(is_good) };
        let is_relocated = relocate(&origin, kind, &mut bytes);
        if is_relocated {
            self.frame(at, BLOCK).copy_from(&bytes);
        }
        Ok(is_relocated)
    }

    /// Returns the numbers of a range's blocks inside the volume.
    fn blocks_of(&self, range: &BlockRange) -> Range<u64> {
        range.first..(range.first + u64::from(range.count)).min(self.bytes() / BLOCK)
    }

    /// Fetches the blocks of the group table that say which blocks may hold data. The caller has claimed
    /// nothing, because this may wait. A damaged table costs no file data, so one that cannot be had says
    /// nothing from now on.
    ///
    /// # Errors
    /// The wait was interrupted.
    fn fetch_groups(&self, device: &dyn Device, blocks: Range<u64>) -> Result<(), Fault> {
        for at in self.absent_groups(blocks) {
            match self.fetch_block(device, at, BlockKind::Group) {
                Err(fault) if fault.is_interruption() => return Err(fault),
                Err(_) => self.places.note_silent(at),
                Ok(()) => {}
            }
        }
        Ok(())
    }

    /// Reads those blocks of `ranges` that are absent and that no other thread is fetching, `most` blocks in
    /// one read.
    ///
    /// A thread that has claimed blocks here waits for blocks of checksums, and for nothing else. Nobody
    /// claims these here, and who claims them elsewhere waits for nothing: so no thread waits for itself,
    /// and no two for each other, whatever a file map says.
    ///
    /// # Errors
    /// [`Fault::Io`], [`Fault::WrongData`] for blocks that a thread waits for; [`Fault::Damaged`] for one
    /// where no data can lie. A failed read of other blocks fails again when they are needed.
    fn fetch_data(
        &self,
        device: &dyn Device,
        ranges: &[BlockRange],
        need: Need<'_>,
        most: u64,
    ) -> Result<(), Fault> {
        let wanted = need.wanted();
        ranges.iter().try_for_each(|range| self.fetch_groups(device, self.blocks_of(range)))?;
        let (mut claimed, mut outcome) = (Vec::<(u64, u64)>::new(), Ok(()));
        let markers = self.ahead.markers();
        let fresh = |index: u64| {
            let marker = if markers.contains(&index) { MARKER } else { 0 };
            DATA | if need.is_neighbour(index) { UNASKED } else { FRESH } | marker
        };
        for index in ranges.iter().flat_map(|range| self.blocks_of(range)) {
            if self.state(index) != ABSENT {
                continue;
            }
            if !self.may_hold_data(index) {
                if wanted.contains(&index) {
                    outcome = outcome.and(Err(misplaced(index * BLOCK)));
                }
                continue;
            }
            match self.claim_frame(index, ABSENT) {
                Ok(true) => {}
                Ok(false) => continue,
                // The claimed blocks are read, and may leave then; the others are missed again.
                Err(_) if !claimed.is_empty() || wanted.is_empty() => break,
                Err(_) => return self.wait_for_slot(index * BLOCK),
            }
            // A committed copy that is not in place is searched for before the read: a checkpoint may write
            // it in place meanwhile, and bytes that were read before are too old.
            if self.commits.copy_committed(index * BLOCK, &mut self.frame(index * BLOCK, BLOCK)) {
                self.make_resident(index, fresh(index));
                continue;
            }
            match claimed.last_mut() {
                Some((first, count))
                    if *first + *count == index && *count < most && self.frames.continues(index) =>
                {
                    *count += 1;
                }
                _ => claimed.push((index, 1)),
            }
        }
        if claimed.is_empty() {
            return outcome;
        }
        self.make_room(claimed.iter().map(|(_, count)| count).sum());
        self.frames.expect_fill(claimed.iter().map(|(first, count)| first * BLOCK..(first + count) * BLOCK));
        let mut requests: Vec<Read<'_>> = claimed
            .iter()
            .map(|(first, count)| Read {
                at: first * BLOCK,
                buffer: self.frame(first * BLOCK, count * BLOCK),
            })
            .collect();
        let read = match need {
            Need::Batch => device.read_batch(&mut requests),
            _ => device.read_many(&mut requests),
        };
        let failures = read.err();
        drop(requests);
        let failed = |i: usize| failures.as_ref().and_then(|failures| failures.of(i));
        let mut faults = match need {
            Need::Perhaps => HashMap::new(),
            _ => self.read_each(
                device,
                claimed.iter().enumerate().filter_map(|(i, run)| Some((*run, failed(i)?))),
            ),
        };
        for (i, (first, count)) in claimed.iter().enumerate() {
            for index in *first..first + count {
                let at = index * BLOCK;
                if matches!(need, Need::Perhaps) && failed(i).is_some() {
                    self.leave(index);
                    continue;
                }
                let done = faults.remove(&index).map_or(Ok(()), Err);
                let done = done.and_then(|()| self.verify_data(device, at));
                if done.is_ok() {
                    self.make_resident(index, fresh(index));
                    continue;
                }
                if !wanted.contains(&index) {
                    self.leave(index);
                    continue;
                }
                if let Err(Fault::WrongData { at }) = done {
                    self.data_sums.note_wrong(at);
                }
                outcome = outcome.and(done);
                self.finish_fetch(index, ABSENT, done);
            }
        }
        outcome
    }

    /// Finds the blocks of failed reads that cannot be read, with their faults: reads each block by itself,
    /// all by one call, so that a device fetches for all of them at once. A device that calls its own bytes
    /// damaged has tried again already.
    fn read_each<'e>(
        &self,
        device: &dyn Device,
        failed: impl Iterator<Item = ((u64, u64), &'e io::Error)>,
    ) -> HashMap<u64, Fault> {
        let (mut faults, mut blocks) = (HashMap::new(), Vec::new());
        for ((first, count), error) in failed {
            match data_fault(first * BLOCK, error) {
                fault @ Fault::WrongData { .. } if count == 1 => _ = faults.insert(first, fault),
                _ => blocks.extend(first..first + count),
            }
        }
        let read = |index: &u64| Read { at: index * BLOCK, buffer: self.frame(index * BLOCK, BLOCK) };
        let mut requests: Vec<Read<'_>> = blocks.iter().map(read).collect();
        if let Err(errors) = device.read_many(&mut requests) {
            let found = errors.iter().filter_map(|(i, error)| Some((*blocks.get(i)?, error)));
            faults.extend(found.map(|(index, error)| (index, data_fault(index * BLOCK, error))));
        }
        faults
    }

    /// Makes a claimed block absent again that nobody asked for and that cannot be had. A thread that waits
    /// for it fetches it, and learns why that fails; one that overwrites it needs none of its bytes.
    fn leave(&self, index: u64) {
        self.frames.release(index * BLOCK, BLOCK as usize);
        self.finish_fetch(index, ABSENT, Ok(()));
    }

    /// Returns the frames of blocks, to be filled. The caller has set their state to [`FETCHING`], so it
    /// alone writes them; stale attempts may read them.
    pub(crate) fn frame(&self, at: u64, len: u64) -> IoBufMut<'_> {
        debug_assert!((at / BLOCK..(at + len) / BLOCK).all(|index| self.state_is(index, FETCHING)));
        self.frames.target(at, len as usize)
    }

    /// Publishes a fetched block as resident.
    pub(crate) fn make_resident(&self, index: u64, state: u8) {
        if state::is_unasked(state) {
            self.cache.add_unasked(index);
            self.neighbours.fetched.fetch_add(1, Ordering::Relaxed);
        } else {
            self.cache.add(index, 1);
        }
        self.blocks_fetched.fetch_add(1, Ordering::Relaxed);
        self.finish_fetch(index, state, Ok(()));
    }

    /// Ends the fetch of a block: its state is `state` from now on, and the threads that wait continue.
    pub(crate) fn finish_fetch(&self, index: u64, state: u8, outcome: Result<(), Fault>) {
        if outcome.is_err() {
            // The cache counts blocks that are resident only, so what was read takes no memory from here on.
            self.frames.release(index * BLOCK, BLOCK as usize);
        }
        self.waiters.finish(index, outcome, || {
            self.change_state(index, FETCHING, state);
        });
    }

    /// Waits while another thread fetches or evicts a block.
    fn wait_for_fetch(&self, index: u64) -> Result<(), Fault> {
        if self.state(index) == EVICTING {
            yield_now();
            return Ok(());
        }
        self.waiters.wait(index, || self.state(index) == FETCHING)
    }
}
