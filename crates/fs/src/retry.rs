//! How operations are run: attempt by attempt, until one counts.

use crate::attempt::Core;
use crate::edit::Edit;
use crate::error::{Error, Outcome, Result};
use crate::options::Access;
use crate::shared::Shared;
use crate::transaction::run;
use crate::writer::Writer;
use lanefs_format::Code;
use lanefs_store::{Closed, Fault, Reader};
use std::sync::atomic::Ordering;

/// What became of an operation's runs so far.
#[derive(Default)]
pub(crate) struct Attempts {
    /// Runs that did not count.
    count: u32,
    /// Where the last block lies that did not verify.
    damaged: Option<u64>,
    /// Nothing was free but what writers may have in prealloc.
    is_full: bool,
}

/// After so many runs in vain an operation has everybody else stand still.
const MAX_OPTIMISTIC_ATTEMPTS: u32 = 16;

impl Shared {
    /// Runs a read-only operation; blocks that it misses are fetched and it runs again.
    #[inline(always)]
    pub(crate) fn view<T>(&self, mut operation: impl FnMut(&Core<'_>) -> Outcome<T>) -> Result<T> {
        let core = Core::new(&self.state, Reader::reading(&self.state.store));
        let done = operation(&core);
        match (core.store.validate(), done) {
            (Ok(()), Ok(value)) => {
                if !core.store.is_quiet() {
                    self.state.gate.try_quiesce(&self.state.store);
                }
                Ok(value)
            }
            (Ok(()), Err(Fault::Code(code))) => Err(code.into()),
            (Err(fault), _) | (_, Err(fault)) => {
                drop(core);
                self.view_again(fault, &mut operation)
            }
        }
    }

    #[cold]
    fn view_again<T>(&self, first: Fault, operation: &mut dyn FnMut(&Core<'_>) -> Outcome<T>) -> Result<T> {
        let mut fault = first;
        let mut attempts = Attempts::default();
        loop {
            self.after(fault, &mut attempts)?;
            let outcome = if attempts.count < MAX_OPTIMISTIC_ATTEMPTS {
                let core = Core::new(&self.state, Reader::reading(&self.state.store));
                let done = operation(&core);
                core.store.validate().and(done)
            } else {
                let _alone = self.state.gate.close(&self.state.store);
                operation(&Core::new(&self.state, Reader::exclusive(&self.state.store, None)))
            };
            self.state.gate.try_quiesce(&self.state.store);
            match outcome {
                Ok(value) => return Ok(value),
                Err(next) => fault = next,
            }
        }
    }

    /// Sees to it that a run which failed for want of a block, or for a writer, can be done again.
    ///
    /// # Errors
    /// The fault itself, where it is another.
    pub(crate) fn after(&self, fault: Fault, attempts: &mut Attempts) -> Outcome<()> {
        match fault {
            Fault::Miss { at, want } => match self.state.store.fetch(at, want) {
                // It may have gone out of use since the run missed it; if it is missed again, it is damaged.
                Err(Fault::Damaged { .. }) if attempts.damaged != Some(at) => {
                    attempts.damaged = Some(at);
                    Ok(())
                }
                done => done,
            },
            Fault::Conflict { owner, record } => {
                attempts.count += 1;
                self.state.gate.wait_for(&self.state.store, owner, record);
                Ok(())
            }
            Fault::ReadSetTooLarge => {
                attempts.count = MAX_OPTIMISTIC_ATTEMPTS;
                Ok(())
            }
            fault => Err(fault),
        }
    }

    /// Runs a change as one transaction: all of it happens, or, when it fails, nothing.
    pub(crate) fn change<T>(&self, mut operation: impl FnMut(&mut Edit<'_>) -> Outcome<T>) -> Result<T> {
        self.begin_changes()?;
        let mut attempts = Attempts::default();
        loop {
            let outcome = if attempts.count < MAX_OPTIMISTIC_ATTEMPTS && !attempts.is_full {
                self.try_change(&mut operation)
            } else {
                let mut closed = self.state.gate.close_to_change(&self.state.store);
                if attempts.is_full {
                    self.recall_prealloc(&mut closed)?;
                }
                self.change_exclusive(&mut closed, &mut operation)
            };
            match outcome {
                Ok(value) => {
                    if !self.state.store.is_memory() {
                        self.wake_committer()?;
                    }
                    return Ok(value);
                }
                // What was freed may be used again once the device knows that it was.
                Err(Fault::Code(Code::NoSpace)) if self.state.has_deferred_frees() => {
                    self.commit()?;
                }
                // What others have in stock is for all when there is nothing else.
                Err(Fault::Code(Code::NoSpace)) if !attempts.is_full => attempts.is_full = true,
                Err(Fault::Code(code)) => return Err(code.into()),
                Err(fault) => self.after(fault, &mut attempts)?,
            }
        }
    }

    #[inline(always)]
    fn try_change<T>(&self, operation: &mut impl FnMut(&mut Edit<'_>) -> Outcome<T>) -> Outcome<T> {
        let mut entered = self.state.gate.enter(&self.state.store);
        let number = entered.number;
        let core = Core::new(&self.state, Reader::writing(&self.state.store, number));
        run(&core, &mut entered.state, number, operation)
    }

    /// One run of a change with the gate closed.
    pub(crate) fn change_exclusive<T>(
        &self,
        closed: &mut Closed<'_, Writer>,
        operation: &mut impl FnMut(&mut Edit<'_>) -> Outcome<T>,
    ) -> Outcome<T> {
        let core = Core::new(&self.state, Reader::exclusive(&self.state.store, Some(0)));
        run(&core, &mut closed.states[0], 0, operation)
    }

    /// Marks the volume as in use before its first change.
    pub(crate) fn begin_changes(&self) -> Result<()> {
        if self.access == Access::Read {
            return Err(Code::ReadOnly.into());
        }
        if self.state.store.has_failed() {
            return Err(Error::write_failed());
        }
        if !self.marked.load(Ordering::Acquire) {
            let mut superblock = self.superblock.lock();
            if !self.marked.load(Ordering::Acquire) {
                self.write_superblock(&mut superblock, false)?;
                self.marked.store(true, Ordering::Release);
                self.spawn_helper("lanefs-commit", Shared::run_committer);
                self.spawn_helper("lanefs-write", |shared| shared.state.store.write_behind());
            }
        }
        Ok(())
    }

    /// Runs a read-only operation without concurrency control, with the gate closed.
    #[inline(always)]
    pub(crate) fn view_exclusive<T>(
        &self,
        _closed: &Closed<'_, Writer>,
        mut operation: impl FnMut(&Core<'_>) -> Outcome<T>,
    ) -> Result<T> {
        let mut attempts = Attempts::default();
        loop {
            match operation(&Core::new(&self.state, Reader::exclusive(&self.state.store, None))) {
                Ok(value) => return Ok(value),
                Err(fault) => self.after(fault, &mut attempts)?,
            }
        }
    }
}
