//! A store, and the operations of a volume on it: attempts and reattempts, changes, commits.

use super::medium::{Medium, SUMS};
use crate::device::Device;
use crate::memory::frames::Frames;
use crate::memory::reserved::Memory;
use crate::memory::slots::SLOT_BYTES;
use crate::store::{Backing, Store};
use crate::transaction::gate::Gate;
use crate::transaction::reader::Reader;
use crate::transaction::tx::{Log, Tx};
use crate::vocabulary::fault::Fault;
use lanefs_format::{BLOCK, BlockKind, Field, InodeSize};
use lanefs_sync::Mutex;
use std::collections::BTreeSet;

/// Two words of a block that have different ownership records where the block has several.
pub(super) const LEFT: Field<u64> = Field::at(64);
/// The other word.
pub(super) const RIGHT: Field<u64> = Field::at(2048);
/// Their offsets.
pub(super) const BOTH: [usize; 2] = [LEFT.offset, RIGHT.offset];

/// Size of a store in blocks.
pub(super) const BLOCKS: u64 = 16;

/// Number of attempts before an operation closes the gate.
const MAX_OPTIMISTIC_ATTEMPTS: u32 = 4;

pub(super) struct World {
    pub(super) store: Store,
    pub(super) gate: Gate<Log>,
    committing: Mutex<()>,
}

impl World {
    fn new(backing: Backing, budget_blocks: u64) -> Self {
        Self::of_size(backing, BLOCKS, budget_blocks)
    }

    /// A small store is sparse: it does all that one in one range does, and more. A larger one is in one
    /// range, so that a read takes many blocks.
    fn of_size(backing: Backing, blocks: u64, budget_blocks: u64) -> Self {
        if blocks <= BLOCKS {
            return Self::with_slots(backing, blocks, budget_blocks, (blocks * BLOCK).div_ceil(SLOT_BYTES));
        }
        let bytes = blocks * BLOCK;
        let store = Store::new(backing, bytes, bytes, budget_blocks * BLOCK, SUMS, InodeSize::B256);
        World::of(store.expect("address space"))
    }

    fn of(store: Store) -> Self {
        World { store, gate: Gate::new(Log::default), committing: Mutex::new(()) }
    }

    fn with_slots(backing: Backing, blocks: u64, budget_blocks: u64, slots: u64) -> Self {
        let bytes = blocks * BLOCK;
        let memory = Memory::with(Frames::with_slots(bytes, slots), bytes, Some(budget_blocks));
        let memory = memory.expect("address space");
        Self::of(Store::in_memory(memory, backing, bytes, budget_blocks * BLOCK, SUMS, InodeSize::B256))
    }

    /// Returns a store on a device that has so many slots only.
    pub(super) fn in_slots(medium: &Medium, budget_blocks: u64, slots: u64) -> Self {
        Self::with_slots(Backing::Device(Box::new(medium.clone())), BLOCKS, budget_blocks, slots)
    }

    /// Returns a store in memory, with blocks of a kind at these positions.
    pub(super) fn in_memory(kind: BlockKind, positions: &[u64]) -> Self {
        let world = Self::new(Backing::Memory, 0);
        for at in positions {
            world.change(|tx| tx.fresh(*at, kind, 0).map(drop)).expect("a free block");
        }
        world
    }

    /// Returns a store on a device, of which `budget_blocks` blocks may be in memory.
    pub(super) fn on(medium: &Medium, budget_blocks: u64) -> Self {
        Self::new(Backing::Device(Box::new(medium.clone())), budget_blocks)
    }

    /// Returns a store on all of a device.
    pub(super) fn on_all(medium: &Medium, budget_blocks: u64) -> Self {
        let blocks = medium.len() / BLOCK;
        Self::of_size(Backing::Device(Box::new(medium.clone())), blocks, budget_blocks)
    }

    /// Returns a store on all of a device, with checksums of file data.
    pub(super) fn with_sums(medium: &Medium, budget_blocks: u64) -> Self {
        let world = Self::on_all(medium, budget_blocks);
        world.store.use_data_checksums();
        world
    }

    /// Returns a store on a device, for reading.
    pub(super) fn for_reading(medium: &Medium, budget_blocks: u64) -> Self {
        let World { store, gate, committing } = Self::on(medium, budget_blocks);
        World { store: store.for_reading().expect("address space"), gate, committing }
    }

    /// Does a read-only operation as a volume does: attempts until one is accepted, the last with the gate
    /// closed.
    pub(super) fn read<T>(
        &self,
        mut operation: impl FnMut(&Reader<'_>) -> Result<T, Fault>,
    ) -> Result<T, Fault> {
        let mut attempts = 0;
        loop {
            let outcome = if attempts < MAX_OPTIMISTIC_ATTEMPTS {
                let reader = Reader::reading(&self.store);
                let done = operation(&reader);
                reader.validate().and(done)
            } else {
                let _closed = self.gate.close(&self.store);
                operation(&Reader::exclusive(&self.store, None))
            };
            self.gate.try_quiesce(&self.store);
            match outcome {
                Ok(value) => return Ok(value),
                Err(fault) => self.after(fault, &mut attempts)?,
            }
        }
    }

    /// Does a change as a volume does.
    pub(super) fn change<T>(
        &self,
        mut operation: impl FnMut(&mut Tx<'_>) -> Result<T, Fault>,
    ) -> Result<T, Fault> {
        let mut attempts = 0;
        loop {
            let outcome = if attempts < MAX_OPTIMISTIC_ATTEMPTS {
                let mut entered = self.gate.enter(&self.store);
                let reader = Reader::writing(&self.store, entered.number);
                one_attempt(&reader, &mut entered.state, &mut operation)
            } else {
                self.attempt_alone(&mut operation)
            };
            match outcome {
                Ok(value) => return Ok(value),
                Err(fault) => self.after(fault, &mut attempts)?,
            }
        }
    }

    /// Makes one attempt with the gate closed.
    pub(super) fn attempt_alone<T>(
        &self,
        operation: &mut impl FnMut(&mut Tx<'_>) -> Result<T, Fault>,
    ) -> Result<T, Fault> {
        let mut closed = self.gate.close_to_change(&self.store);
        let reader = Reader::exclusive(&self.store, Some(0));
        one_attempt(&reader, &mut closed.states[0], operation)
    }

    fn after(&self, fault: Fault, attempts: &mut u32) -> Result<(), Fault> {
        match fault {
            Fault::Miss { at, want } => self.store.fetch(at, want),
            Fault::Conflict { owner, record } => {
                *attempts += 1;
                self.gate.wait_for(&self.store, owner, record);
                Ok(())
            }
            fault => Err(fault),
        }
    }

    /// Commits as a volume does.
    pub(super) fn commit(&self) {
        let _turn = self.committing.lock();
        let mut changed = Vec::new();
        self.gate.each(|log| changed.append(&mut log.take_changed()));
        self.store.write_data_early(&mut changed).expect("a device that works");
        self.gate.first(|log| log.put_back_changed(changed));
        let snapshot = {
            let mut closed = self.gate.close_to_change(&self.store);
            let changed = closed.states.iter_mut().flat_map(|log| log.take_changed()).collect();
            self.store.snapshot(changed, &[], &[], None).expect("tables are not needed")
        };
        self.store.commit(snapshot).expect("a device that works");
    }

    /// Does a checkpoint.
    pub(super) fn checkpoint(&self) {
        let _turn = self.committing.lock();
        self.store.checkpoint().expect("a device that works");
    }

    /// Returns both words of a block.
    pub(super) fn words(&self, at: u64, kind: BlockKind) -> Result<(u64, u64), Fault> {
        self.read(|run| run.block(at, kind).map(|block| (block.get(LEFT), block.get(RIGHT))))
    }

    /// Checks a store on which no thread works: no record is locked, no block is in transition, the cache
    /// counts and queues all resident blocks, and a commit will find all dirty ones.
    pub(super) fn check_books(&self) {
        use crate::memory::dirty::Dirty;
        use crate::memory::state::{self, EVICTING, FETCHING};
        use std::sync::atomic::Ordering::SeqCst;
        if self.store.is_memory() {
            return;
        }
        let mut listed = BTreeSet::new();
        self.gate.each(|log| listed.extend(log.changed_mut().iter().copied()));
        let queued = self.store.cache.queued();
        let mut resident = 0;
        for index in 0..self.store.bytes() / BLOCK {
            let state = self.store.state(index);
            assert!(state != FETCHING && state != EVICTING, "block {index} is on its way for ever");
            if state::content(state).is_some() {
                resident += 1;
                assert!(queued.contains(&index), "block {index} can never leave");
                let changed = self.store.dirty(index).load(SeqCst) != Dirty::CLEAN;
                assert!(!changed || listed.contains(&index), "block {index} will not be written");
            }
        }
        assert_eq!(self.store.cache.resident(), resident, "resident blocks");
    }
}

/// Does one attempt of a change: it is committed, or rolled back.
fn one_attempt<T>(
    reader: &Reader<'_>,
    log: &mut Log,
    run: &mut impl FnMut(&mut Tx<'_>) -> Result<T, Fault>,
) -> Result<T, Fault> {
    let mut tx = Tx::new(reader, log);
    let done = run(&mut tx);
    tx.validate()?;
    let value = done?;
    tx.commit();
    Ok(value)
}
