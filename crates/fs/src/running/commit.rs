//! Durability: the mark of a volume in use, commits, and the thread that makes them in the background.

use crate::attempt::Core;
use crate::attempt::edit::Edit;
use crate::files::transaction::{free_deferred, put_back};
use crate::mounted::counts::Counts;
use crate::mounted::shared::Shared;
use crate::mounted::writer::{Freed, Writer};
use crate::vocabulary::error::{Error, Outcome, Result};
use crate::vocabulary::options::Access;
use lanefs_format::{BLOCK, BLOCKS_PER_CHUNK, Code};
use lanefs_store::{Closed, CommitCopies, Fault, Reader, Store, Totals};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

impl Shared {
    /// Marks the volume as in use before its first change, and starts the thread that makes changes durable.
    ///
    /// # Errors
    /// [`Code::ReadOnly`]: the volume takes no changes. [`Error::WriteFailed`]; the device's.
    #[inline]
    pub(crate) fn begin_changes(&self) -> Result<()> {
        if self.access == Access::Read || self.frozen.load(Ordering::Acquire) {
            return Err(Code::ReadOnly.into());
        }
        self.check_failure()?;
        if !self.marked.load(Ordering::Acquire) {
            self.mark_in_use()?;
        }
        if !self.commits_in_background.load(Ordering::Relaxed) {
            self.start_committer();
        }
        Ok(())
    }

    /// # Errors
    /// [`Error::WriteFailed`] once a write has failed.
    #[inline]
    fn check_failure(&self) -> Result<()> {
        self.state.store.failure().map_or(Ok(()), |fault| Err(Error::write_failed(fault)))
    }

    /// Marks the volume as in use. A volume that a recovery marks has no change to commit yet.
    ///
    /// # Errors
    /// [`Code::ReadOnly`]: the volume is frozen. The device's.
    pub(crate) fn mark_in_use(&self) -> Result<()> {
        let mut superblock = self.superblock.lock();
        if self.frozen.load(Ordering::Acquire) {
            return Err(Code::ReadOnly.into());
        }
        if !self.marked.load(Ordering::Acquire) {
            // From then on the counts of the log are valid, and those of the superblock are not.
            self.state.store.begin_log(self.totals_with(Counts::default()))?;
            self.write_superblock(&mut superblock, false)?;
            self.marked.store(true, Ordering::Release);
        }
        Ok(())
    }

    #[cold]
    fn start_committer(&self) {
        if !self.commits_in_background.swap(true, Ordering::Relaxed) {
            self.spawn_helper("lanefs-commit", Shared::run_committer);
        }
    }

    /// Makes all changes so far durable. Operations go on meanwhile, except while the changed blocks are
    /// copied. Threads that call it at the same time share a commit.
    ///
    /// # Errors
    /// The device's; the volume is then open for reading only.
    pub(crate) fn commit(&self) -> Result<()> {
        if self.state.store.is_memory() {
            return Ok(());
        }
        // A snapshot that begins from now on includes all changes made before this call.
        let wanted = self.begun.load(Ordering::SeqCst) + 1;
        match self.lock_commits_unless(|| self.durable.load(Ordering::SeqCst) >= wanted) {
            Some(lock) => self.commit_locked(&lock),
            None => Ok(()),
        }
    }

    /// Makes all changes so far durable, as [`commit`](Self::commit) does. The volume has a device.
    pub(crate) fn commit_locked(&self, _lock: &CommitLock<'_>) -> Result<()> {
        self.check_failure()?;
        // The device of a frozen volume is closed. Blocks that its last commit freed have been marked free in
        // memory since, so they count as changed, with the content that they have on the device.
        if !self.marked.load(Ordering::Acquire) {
            return Ok(());
        }
        self.write_data_early()?;
        // With a small cache, images of earlier commits would take more memory than it.
        if self.state.store.has_many_images() {
            self.state.store.checkpoint()?;
        }
        let (snapshot, freed) = self.begin_commit()?;
        self.state.store.commit(snapshot)?;
        self.end_commit(&freed)?;
        // The changed blocks are clean now, and no miss may come to make room.
        self.state.store.shrink();
        Ok(())
    }

    /// Takes the snapshot of a commit, and what it frees. The caller has the [commit lock](Self::lock_commits).
    pub(crate) fn begin_commit(&self) -> Result<(CommitCopies, Vec<Freed>)> {
        let mut closed = self.state.gate.close_to_change(&self.state.store);
        let writer = self.recall_prealloc(&mut closed)?;
        self.snapshot(writer)
    }

    /// Makes what a durable commit has freed available. The caller still has the commit lock.
    pub(crate) fn end_commit(&self, freed: &[Freed]) -> Result<()> {
        if !freed.is_empty() {
            self.free(gather_writers(&mut self.state.gate.close_to_change(&self.state.store)), freed)?;
        }
        self.mark_durable();
        Ok(())
    }

    /// Waits until no other thread commits, and keeps other threads from it.
    pub(crate) fn lock_commits(&self) -> CommitLock<'_> {
        loop {
            if let Some(turn) = self.lock_commits_unless(|| false) {
                return turn;
            }
        }
    }

    /// Locks as [`lock_commits`](Self::lock_commits) does, or returns `None` as soon as `done` is true. Every
    /// waiting thread checks `done` when a commit ends. A queue for a mutex would not do: the thread that had
    /// it last would have it again before the others wake.
    fn lock_commits_unless(&self, done: impl Fn() -> bool) -> Option<CommitLock<'_>> {
        let mut committing = self.committing.lock();
        loop {
            if done() {
                return None;
            }
            if !*committing {
                *committing = true;
                return Some(CommitLock(self));
            }
            self.committed.wait(&mut committing);
        }
    }

    /// Commits as [`commit`](Self::commit) does, with the gate closed all the time. The caller has the
    /// [commit lock](Self::lock_commits), and has [recalled](Self::recall_prealloc) the preallocations.
    pub(crate) fn commit_exclusive(&self, writer: &mut Writer) -> Result<()> {
        self.commit_closed(writer, Store::commit)
    }

    /// Commits as [`commit_exclusive`](Self::commit_exclusive) does, but writes all changed blocks in place.
    /// The caller makes sure that the device names none of them.
    pub(crate) fn commit_in_place(&self, writer: &mut Writer) -> Result<()> {
        self.commit_closed(writer, Store::commit_in_place)
    }

    fn commit_closed(
        &self,
        writer: &mut Writer,
        commit: fn(&Store, CommitCopies) -> std::result::Result<(), Fault>,
    ) -> Result<()> {
        self.put_back(writer)?;
        if self.state.store.is_memory() {
            return Ok(());
        }
        self.check_failure()?;
        let (snapshot, freed) = self.snapshot(writer)?;
        commit(&self.state.store, snapshot)?;
        self.free(writer, &freed)?;
        self.mark_durable();
        Ok(())
    }

    /// Collects the uncommitted changes of all writers in the first one, which it returns, and returns their
    /// preallocations to the bitmaps.
    ///
    /// # Errors
    /// The device's; [`Error::Damaged`] where a bitmap is damaged. The preallocated blocks then stay used,
    /// for fsck to find.
    pub(crate) fn recall_prealloc<'c>(&self, closed: &'c mut Closed<'_, Writer>) -> Result<&'c mut Writer> {
        let mut returning = Vec::new();
        for writer in &mut closed.states {
            returning.append(&mut writer.prealloc.drain());
        }
        let first = gather_writers(closed);
        first.returning.append(&mut returning);
        self.put_back(first)?;
        assert!(first.prealloc.is_empty() && first.returning.is_empty(), "a preallocation remains");
        Ok(first)
    }

    /// Returns the preallocation of a writer to the bitmaps.
    fn put_back(&self, writer: &mut Writer) -> Result<()> {
        let mut extents = std::mem::take(&mut writer.returning);
        extents.append(&mut writer.prealloc.drain());
        if extents.is_empty() {
            return Ok(());
        }
        extents.sort_unstable();
        debug_assert!(extents.iter().all(|extent| extent.count > 0), "an empty extent");
        let core = Core::new(&self.state, Reader::exclusive(&self.state.store, Some(0)));
        loop {
            match put_back(Edit::new(&core, writer, 0), &extents) {
                Err(Fault::Miss { at, want }) => self.state.store.fetch(at, want)?,
                done => return Ok(done?),
            }
        }
    }

    /// Marks all snapshots begun so far as durable. The caller has the commit lock.
    fn mark_durable(&self) {
        let begun = self.begun.load(Ordering::SeqCst);
        let before = self.durable.swap(begun, Ordering::SeqCst);
        assert!(before <= begun, "snapshot {before} was durable before {begun}");
    }

    /// Writes most file data to the device before the gate is closed.
    fn write_data_early(&self) -> Result<()> {
        let mut changed = Vec::new();
        self.state.gate.each(|writer| changed.append(&mut writer.log.take_changed()));
        let written = self.state.store.write_data_early(&mut changed);
        self.state.gate.first(|writer| writer.log.put_back_changed(changed));
        Ok(written?)
    }

    /// Copies the changed blocks, with freed blocks marked as free. In memory these stay used until the
    /// copies are durable.
    fn snapshot(&self, writer: &mut Writer) -> Result<(CommitCopies, Vec<Freed>)> {
        self.begun.fetch_add(1, Ordering::SeqCst);
        let freed = std::mem::take(&mut writer.deferred);
        let changed = writer.log.take_changed();
        let done = self.snapshot_with(writer, &freed, &changed);
        if let Err(fault) = done.as_ref() {
            self.note(*fault);
            // The volume is damaged. Blocks that cannot be freed stay used, for fsck to find.
            writer.log.put_back_changed(changed);
            self.state.remove_deferred_frees(freed.len());
        }
        Ok((done?, freed))
    }

    fn snapshot_with(&self, writer: &mut Writer, freed: &[Freed], changed: &[u64]) -> Outcome<CommitCopies> {
        loop {
            let core = Core::new(&self.state, Reader::exclusive(&self.state.store, Some(0)));
            let mut edit = Edit::new(&core, writer, 0);
            match free_deferred(&mut edit, freed) {
                Ok(()) => {
                    let totals = self.totals_with(edit.counts);
                    let (blocks, extents) = freed_positions(edit.freed);
                    let mut all = changed.to_vec();
                    all.append(&mut edit.tx.take_changed());
                    return self.state.store.snapshot(all, &blocks, &extents, totals);
                }
                Err(fault) => {
                    drop(edit);
                    self.fetch_for_freeing(fault)?;
                }
            }
        }
    }

    /// Returns the counts of the volume with these changes, for the log: those of a repair may be wrong.
    pub(crate) fn totals_with(&self, more: Counts) -> Option<Totals> {
        let mut sum = self.state.counts.sum();
        sum += more;
        (self.access == Access::Write).then_some(sum.totals())
    }

    /// Fetches a block that the frees missed, or lets another thread end the fetch of one that they take out
    /// of use: that fetch does not need the gate.
    fn fetch_for_freeing(&self, fault: Fault) -> Outcome<()> {
        match fault {
            // All changes of the attempt are rolled back, so a retired block was freed twice: the volume is
            // damaged, and a fetch would only lead here again.
            Fault::Miss { at, .. } if self.state.store.is_retired(at) => {
                Err(Fault::damaged(at, "a block is freed twice"))
            }
            Fault::Miss { at, want } => self.state.store.fetch(at, want),
            Fault::Conflict { .. } => {
                std::thread::yield_now();
                Ok(())
            }
            fault => Err(fault),
        }
    }

    /// Makes the blocks that a durable commit freed available.
    fn free(&self, writer: &mut Writer, freed: &[Freed]) -> Result<()> {
        loop {
            let core = Core::new(&self.state, Reader::exclusive(&self.state.store, Some(0)));
            let mut edit = Edit::new(&core, writer, 0);
            match free_deferred(&mut edit, freed) {
                Ok(()) => {
                    edit.keep_free();
                    self.state.remove_deferred_frees(freed.len());
                    return Ok(());
                }
                Err(fault) => {
                    drop(edit);
                    self.fetch_for_freeing(fault)?;
                }
            }
        }
    }

    /// Wakes the committer after a change when enough has accumulated, and waits for a commit when too much
    /// has. Between commits it keeps the cache at its size.
    pub(crate) fn wake_committer(&self) -> Result<()> {
        self.state.store.make_room_for_new();
        if self.state.store.must_commit() {
            return self.commit();
        }
        let (commit, write) = (self.state.store.should_commit(), self.state.store.should_write_data());
        if (commit || write) && !self.state.store.is_memory() {
            let mut work = self.work.lock();
            if commit && !work.commit || write && !work.write {
                work.commit |= commit;
                work.write |= write;
                self.wake.notify_one();
            }
        }
        Ok(())
    }

    /// Writes file data in place ahead of the next commit, which needs it there. Nothing becomes durable by
    /// that.
    fn write_ahead(&self) {
        let _lock = self.lock_commits();
        // The next change or sync reports a failure.
        let _ = self.write_data_early();
    }

    /// Runs the background committer: it commits by time and by size, writes file data ahead, and empties the
    /// journal.
    pub(crate) fn run_committer(&self) {
        let mut due = after(self.commit_every);
        loop {
            let mut work = self.work.lock();
            if !work.stop && !work.commit && !work.write {
                self.wake.wait_until(&mut work, due);
            }
            if work.stop {
                return;
            }
            let (commit, write) = (std::mem::take(&mut work.commit), std::mem::take(&mut work.write));
            drop(work);
            if write && !commit && Instant::now() < due {
                if !self.state.store.has_failed() {
                    self.write_ahead();
                }
                continue;
            }
            due = after(self.commit_every);
            // The next change or sync reports a failure.
            if self.state.store.has_changes() && !self.state.store.has_failed() {
                let _ = self.commit();
            }
            if self.state.store.should_checkpoint() {
                let _lock = self.lock_commits();
                // Another thread may have emptied the journal meanwhile. A failed flush after a close would
                // be reported to no caller.
                if self.state.store.should_checkpoint() {
                    let _ = self.state.store.checkpoint();
                }
            }
        }
    }
}

/// The time when this duration is over; one that is too long for the clock is over in a year.
fn after(duration: Duration) -> Instant {
    const YEAR: Duration = Duration::from_secs(365 * 24 * 3600);
    let now = Instant::now();
    now.checked_add(duration).unwrap_or(now + YEAR)
}

/// The right to commit.
pub(crate) struct CommitLock<'s>(&'s Shared);

impl Drop for CommitLock<'_> {
    fn drop(&mut self) {
        let was_committing = std::mem::replace(&mut *self.0.committing.lock(), false);
        debug_assert!(was_committing, "two commits at a time");
        self.0.committed.notify_all();
    }
}

/// Collects the uncommitted changes of all writers in the first one, which it returns. The preallocations
/// stay.
fn gather_writers<'c>(closed: &'c mut Closed<'_, Writer>) -> &'c mut Writer {
    let (mut changed, mut deferred) = (Vec::new(), Vec::new());
    for writer in &mut closed.states {
        changed.append(&mut writer.log.take_changed());
        deferred.append(&mut writer.deferred);
    }
    let first = &mut *closed.states[0];
    first.log.put_back_changed(changed);
    first.deferred = deferred;
    first
}

/// Positions of freed metadata blocks, and extents of freed file data.
fn freed_positions(freed: &[Freed]) -> (Vec<u64>, Vec<(u64, u64)>) {
    let mut blocks = Vec::new();
    let mut extents = Vec::new();
    for freed in freed {
        match freed {
            Freed::Block(at, _) => blocks.push(*at),
            Freed::Extent(extent) => extents.push((extent.first, extent.count)),
            Freed::Chunk(at) => extents.push((at / BLOCK, BLOCKS_PER_CHUNK)),
        }
    }
    (blocks, extents)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::running::volume::Volume;
    use crate::vocabulary::options::{CreateOptions, OpenOptions};

    #[test]
    fn images_of_many_commits_do_not_outgrow_a_small_cache() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("volume.lane");
        let options = CreateOptions { size: 256 << 20, ..CreateOptions::default() };
        Volume::create(&path, &options).expect("create").close().expect("close");
        // No time passes at which the thread for commits wakes.
        let every = Duration::from_secs(3600);
        let options = OpenOptions { cache: Some(1), commit_every: every, ..OpenOptions::from(Access::Write) };
        let volume = Volume::open(&path, options).expect("open");
        let store = &volume.shared.state.store;
        let mut commits_beside_many = 0;
        for round in 0..60 {
            volume.write_file(format!("/{round}").as_str(), b"x").expect("write");
            volume.sync().expect("sync");
            // Of two commits in turn, the second one has emptied the journal.
            commits_beside_many = if store.has_many_images() { commits_beside_many + 1 } else { 0 };
            assert!(commits_beside_many < 2, "round {round}");
        }
        volume.close().expect("close");
    }

    #[test]
    fn a_commit_interval_may_be_longer_than_the_clock() {
        assert!(after(Duration::MAX) > Instant::now() + Duration::from_secs(3600));
    }
}
