//! A store, and what a volume does with it: runs that are done again, changes, commits.

use super::medium::{Medium, UUID};
use crate::{Backing, Fault, Gate, Log, Reader, Store, Tx};
use lanefs_format::{BLOCK, BlockKind, Field, InodeSize};
use lanefs_sync::Mutex;
use std::collections::BTreeSet;

/// Two words of a block that lie in different records where the block has several.
pub(super) const LEFT: Field<u64> = Field::at(64);
/// The other one.
pub(super) const RIGHT: Field<u64> = Field::at(2048);
/// Their offsets.
pub(super) const BOTH: [usize; 2] = [LEFT.offset, RIGHT.offset];

/// Blocks of a store.
pub(super) const BLOCKS: u64 = 16;

/// After so many runs in vain everybody else has to stand still.
const PATIENCE: u32 = 4;

pub(super) struct World {
    pub(super) store: Store,
    pub(super) gate: Gate<Log>,
    committing: Mutex<()>,
}

impl World {
    fn new(backing: Backing, budget_blocks: u64) -> Self {
        let bytes = BLOCKS * BLOCK;
        let store = Store::new(backing, bytes, bytes, budget_blocks * BLOCK, &UUID, InodeSize::B256);
        let store = store.expect("address space");
        World { store, gate: Gate::new(Log::default), committing: Mutex::new(()) }
    }

    /// In memory, with blocks of a kind at these positions.
    pub(super) fn in_memory(kind: BlockKind, positions: &[u64]) -> Self {
        let world = Self::new(Backing::Memory, 0);
        for at in positions {
            world.change(|tx| tx.fresh(*at, kind, 0).map(drop)).expect("a free block");
        }
        world
    }

    /// On a device, of which `budget_blocks` blocks may be in memory.
    pub(super) fn on(medium: &Medium, budget_blocks: u64) -> Self {
        Self::new(Backing::Device(Box::new(medium.clone())), budget_blocks)
    }

    /// Does a read-only operation as the volume does: again until it counts, and at last with the gate closed.
    pub(super) fn read<T>(&self, mut run: impl FnMut(&Reader<'_>) -> Result<T, Fault>) -> Result<T, Fault> {
        let mut tries = 0;
        loop {
            let outcome = if tries < PATIENCE {
                let reader = Reader::reading(&self.store);
                let done = run(&reader);
                reader.validate().and(done)
            } else {
                let _closed = self.gate.close(&self.store);
                run(&Reader::exclusive(&self.store, None))
            };
            self.gate.try_quiesce(&self.store);
            match outcome {
                Ok(value) => return Ok(value),
                Err(fault) => self.after(fault, &mut tries)?,
            }
        }
    }

    /// Does a change as the volume does.
    pub(super) fn change<T>(&self, mut run: impl FnMut(&mut Tx<'_>) -> Result<T, Fault>) -> Result<T, Fault> {
        let mut tries = 0;
        loop {
            let outcome = if tries < PATIENCE {
                let mut entered = self.gate.enter(&self.store);
                let reader = Reader::writing(&self.store, entered.number);
                one_run(&reader, &mut entered.state, &mut run)
            } else {
                let mut closed = self.gate.close_to_change(&self.store);
                let reader = Reader::exclusive(&self.store, Some(0));
                one_run(&reader, &mut closed.states[0], &mut run)
            };
            match outcome {
                Ok(value) => return Ok(value),
                Err(fault) => self.after(fault, &mut tries)?,
            }
        }
    }

    fn after(&self, fault: Fault, tries: &mut u32) -> Result<(), Fault> {
        match fault {
            Fault::Miss { at, want } => self.store.fetch(at, want),
            Fault::Conflict { owner, record } => {
                *tries += 1;
                self.gate.wait_for(&self.store, owner, record);
                Ok(())
            }
            fault => Err(fault),
        }
    }

    /// Commits as the volume does.
    pub(super) fn commit(&self) {
        let _turn = self.committing.lock();
        let mut changed = Vec::new();
        self.gate.each(|log| changed.append(&mut log.take_changed()));
        self.store.write_data_early(&mut changed).expect("a device that works");
        self.gate.first(|log| log.put_back_changed(changed));
        let snapshot = {
            let mut closed = self.gate.close_to_change(&self.store);
            let changed = closed.states.iter_mut().flat_map(|log| log.take_changed()).collect();
            self.store.snapshot(changed, &[], &[]).expect("tables are not needed")
        };
        self.store.commit(snapshot).expect("a device that works");
    }

    /// Brings what was committed to its place.
    pub(super) fn checkpoint(&self) {
        let _turn = self.committing.lock();
        self.store.checkpoint().expect("a device that works");
    }

    /// Both words of a block.
    pub(super) fn words(&self, at: u64, kind: BlockKind) -> Result<(u64, u64), Fault> {
        self.read(|run| run.block(at, kind).map(|block| (block.get(LEFT), block.get(RIGHT))))
    }

    /// When nobody does anything: nothing is held or on its way, the cache counts and knows all that is here, and a commit
    /// will find all that is changed.
    pub(super) fn check_books(&self) {
        use crate::dirty::Dirty;
        use crate::state::{self, EVICTING, FETCHING};
        use std::sync::atomic::Ordering::SeqCst;
        if self.store.is_memory() {
            return;
        }
        let mut listed = BTreeSet::new();
        self.gate.each(|log| listed.extend(log.changed_mut().iter().copied()));
        let queued = self.store.cache.queued();
        let mut resident = 0;
        for index in 0..BLOCKS {
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

/// One run of a change: kept when it comes to a good end, else taken back.
fn one_run<T>(
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
