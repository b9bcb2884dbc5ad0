//! Operations: attempt by attempt, until one is valid.

use crate::attempt::Core;
use crate::attempt::edit::Edit;
use crate::files::transaction::run;
use crate::files::write_plan::WritePlan;
use crate::mounted::shared::Shared;
use crate::mounted::writer::Writer;
use crate::vocabulary::error::{Outcome, Result};
use lanefs_format::{BlockKind, Code};
use lanefs_store::{Closed, Fault, Reader, Want};
use std::sync::atomic::Ordering;

/// History of the attempts of one operation.
#[derive(Default)]
pub(crate) struct Attempts {
    /// Attempts that conflicted with a writer.
    count: u32,
    /// Position of the last block that did not verify.
    damaged: Option<u64>,
    /// No block was free except preallocated ones.
    is_full: bool,
    /// No block was free at all.
    keeps_rests: bool,
}

/// Optimistic attempts of an operation before it takes exclusive access.
const MAX_OPTIMISTIC_ATTEMPTS: u32 = 16;

impl Shared {
    /// Runs a read-only operation. Missing blocks are fetched, and the operation is attempted again.
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
            (Ok(()), Err(Fault::Code(code))) => {
                self.note(Fault::Code(code));
                Err(code.into())
            }
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

    /// Resolves the fault of an attempt, so that the operation can be attempted again: fetches a missing
    /// block, or waits for a writer.
    ///
    /// # Errors
    /// The fault itself, where it is of another kind.
    pub(crate) fn after(&self, fault: Fault, attempts: &mut Attempts) -> Outcome<()> {
        match fault {
            Fault::Miss { at, want } => match self.state.store.fetch(at, want) {
                // The block may have been freed since the attempt missed it. One that is missed again is
                // damaged.
                Err(Fault::Damaged { .. } | Fault::WrongData { .. }) if attempts.damaged != Some(at) => {
                    attempts.damaged = Some(at);
                    if matches!(want, Want::Block(BlockKind::Group | BlockKind::ChunkHeader)) {
                        self.state.add_bad_table(at);
                    }
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
        .inspect_err(|fault| self.note(*fault))
    }

    /// Runs a change as one transaction: all of it happens, or, when it fails, nothing.
    #[inline(always)]
    pub(crate) fn change<T>(&self, mut operation: impl FnMut(&mut Edit<'_>) -> Outcome<T>) -> Result<T> {
        self.change_data(|edit, _| operation(edit))
    }

    /// Runs a change that also writes file data, as [`change`](Self::change).
    pub(crate) fn change_data<'d, T>(
        &self,
        mut operation: impl FnMut(&mut Edit<'_>, &mut WritePlan<'d>) -> Outcome<T>,
    ) -> Result<T> {
        let mut attempts = Attempts::default();
        loop {
            self.begin_changes()?;
            let outcome = if attempts.count < MAX_OPTIMISTIC_ATTEMPTS && !attempts.is_full {
                let Some(outcome) = self.try_change(&mut operation) else { continue };
                outcome
            } else {
                let mut closed = self.state.gate.close_to_change(&self.state.store);
                if !self.accepts_changes() {
                    continue;
                }
                if attempts.is_full {
                    self.recall_prealloc(&mut closed)?;
                }
                self.attempt_exclusive(&mut closed, &mut |edit, plan| {
                    if attempts.keeps_rests {
                        plan.keep_rests();
                    }
                    operation(edit, plan)
                })
            };
            match outcome {
                Ok(value) => {
                    if !self.state.store.is_memory() {
                        self.wake_committer()?;
                    }
                    return Ok(value);
                }
                // A commit makes deferred frees available.
                Err(Fault::Code(Code::NoSpace)) if self.state.has_deferred_frees() => {
                    self.commit()?;
                }
                // Without other free blocks, the preallocations of all writers are used.
                Err(Fault::Code(Code::NoSpace)) if !attempts.is_full => attempts.is_full = true,
                // A file can be truncated without any free block.
                Err(Fault::Code(Code::NoSpace)) if !attempts.keeps_rests => attempts.keeps_rests = true,
                Err(Fault::Code(code)) => {
                    self.note(Fault::Code(code));
                    return Err(code.into());
                }
                Err(fault) => self.after(fault, &mut attempts)?,
            }
        }
    }

    /// Makes one attempt of a change; `None` where the volume has been [frozen](crate::Volume::set_read_only)
    /// since [`begin_changes`](Self::begin_changes).
    #[inline(always)]
    fn try_change<'d, T>(
        &self,
        operation: &mut impl FnMut(&mut Edit<'_>, &mut WritePlan<'d>) -> Outcome<T>,
    ) -> Option<Outcome<T>> {
        let mut entered = self.state.gate.enter(&self.state.store);
        if !self.accepts_changes() {
            return None;
        }
        let number = entered.number;
        let core = Core::new(&self.state, Reader::writing(&self.state.store, number));
        Some(run(&core, &mut entered.state, number, operation))
    }

    /// True where the volume is marked as in use and not frozen. Inside the gate the answer stays true: the
    /// volume is frozen with the gate closed.
    #[inline(always)]
    pub(crate) fn accepts_changes(&self) -> bool {
        self.marked.load(Ordering::Acquire) && !self.frozen.load(Ordering::Acquire)
    }

    /// Makes one attempt of a change with the gate closed.
    pub(crate) fn change_exclusive<T>(
        &self,
        closed: &mut Closed<'_, Writer>,
        operation: &mut impl FnMut(&mut Edit<'_>) -> Outcome<T>,
    ) -> Outcome<T> {
        self.attempt_exclusive(closed, &mut |edit, _| operation(edit))
    }

    fn attempt_exclusive<'d, T>(
        &self,
        closed: &mut Closed<'_, Writer>,
        operation: &mut impl FnMut(&mut Edit<'_>, &mut WritePlan<'d>) -> Outcome<T>,
    ) -> Outcome<T> {
        let core = Core::new(&self.state, Reader::exclusive(&self.state.store, Some(0)));
        run(&core, &mut closed.states[0], 0, operation)
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
