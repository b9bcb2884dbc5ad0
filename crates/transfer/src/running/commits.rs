//! Commits in the course of an import, and the amounts that they made durable.
//!
//! The device of a volume may fail, or its host's file system be full, long after a file was imported: then
//! only a commit that succeeded tells which files are there. So an import commits at intervals, while no file
//! is half made, and counts after a failure what the last commit has.

use super::job::TransferJob;
use super::report::{Counts, Report};
use crate::vocabulary::error::Error;
use lanefs::FileSystem;
use lanefs_sync::lock::{Mutex, RwLock, RwLockReadGuard};
use std::time::{Duration, Instant};

/// Larger files, in bytes, hold up no commit: one that is being copied is there in part if that commit is the
/// last one.
pub(crate) const LARGE_BYTES: u64 = 16 << 20;

/// Amounts after which an import makes durable what it has imported. A volume commits by itself, too, but
/// what these commits have is not counted.
#[derive(Clone, Copy, Debug)]
pub struct CommitInterval {
    /// Names of every kind.
    pub names: u64,
    /// Bytes of content.
    pub bytes: u64,
    /// Time, if a name is finished after it.
    pub time: Duration,
    /// Least time since the last commit, in multiples of the time that it took. Nothing is imported while a
    /// commit waits for the device.
    pub rest: u32,
}

impl Default for CommitInterval {
    /// A second of work at most, and less than an eighth of the smallest journals, which a volume commits by
    /// itself; more where the commits would take more than a 32nd of the time.
    fn default() -> Self {
        CommitInterval { names: 4096, bytes: 64 << 20, time: Duration::from_secs(1), rest: 32 }
    }
}

impl CommitInterval {
    /// True where so much was imported since a commit.
    fn is_over(&self, last: &Commit, now: &Counts) -> bool {
        let (more, elapsed) = (now.since(&last.counts), last.time.elapsed());
        let is_much = more.entries() >= self.names || more.bytes >= self.bytes || elapsed >= self.time;
        is_much && elapsed >= last.took.saturating_mul(self.rest)
    }
}

/// A commit, or the start of the import.
struct Commit {
    /// Amounts that it has.
    counts: Counts,
    time: Instant,
    took: Duration,
}

/// Numbers beside those of the job that a commit makes durable.
pub(crate) trait CountedBeside: Sync {
    /// Keeps the numbers that the commit, which begins, is to make durable.
    fn begin_commit(&self);

    /// The commit has succeeded: the numbers that were kept are those of durable changes.
    fn end_commit(&self);
}

/// The commits of an import.
pub(crate) struct Commits<'a> {
    volume: &'a dyn FileSystem,
    interval: CommitInterval,
    /// Shared by threads that make a name, exclusive for a commit.
    making: RwLock<()>,
    last: Mutex<Commit>,
    beside: Option<&'a dyn CountedBeside>,
}

impl<'a> Commits<'a> {
    pub(crate) fn new(volume: &'a dyn FileSystem, interval: CommitInterval) -> Self {
        let begin = Commit { counts: Counts::default(), time: Instant::now(), took: Duration::ZERO };
        Commits { volume, interval, making: RwLock::new(()), last: Mutex::new(begin), beside: None }
    }

    /// Has `beside` learn of the commits.
    pub(crate) fn counting(self, beside: &'a dyn CountedBeside) -> Self {
        Commits { beside: Some(beside), ..self }
    }

    /// Keeps commits away while the caller makes a name and counts it. A thread calls it once at a time.
    pub(crate) fn making(&self) -> RwLockReadGuard<'_, ()> {
        self.making.read()
    }

    /// Commits where enough was imported since the last commit. The caller makes nothing meanwhile.
    pub(crate) fn commit_if_due(&self, job: &TransferJob<'_>) {
        let is_due = || self.interval.is_over(&self.last.lock(), &job.counts());
        if !is_due() || job.should_stop() {
            return;
        }
        let _exclusive = self.making.write();
        // Another thread may have committed meanwhile.
        if is_due() {
            let _ = self.commit(job);
        }
    }

    /// Makes all that was counted durable; stops the import where that fails.
    fn commit(&self, job: &TransferJob<'_>) -> Result<(), ()> {
        let (counts, begin) = (job.counts(), Instant::now());
        self.beside.into_iter().for_each(CountedBeside::begin_commit);
        match self.volume.sync() {
            Ok(()) => {
                *self.last.lock() = Commit { counts, time: Instant::now(), took: begin.elapsed() };
                self.beside.into_iter().for_each(CountedBeside::end_commit);
                Ok(())
            }
            Err(error) => {
                job.stop(Error::volume("cannot make the changes durable", error));
                Err(())
            }
        }
    }

    /// Makes everything durable and returns the report. `refuser` names the side that refuses attributes.
    pub(crate) fn finish(self, job: TransferJob<'_>, refuser: &str) -> Report {
        job.report_progress(true);
        let is_durable = self.commit(&job).is_ok();
        let mut report = job.report(refuser);
        if !is_durable {
            let durable = self.last.into_inner().counts;
            report.lost = report.counts.since(&durable);
            report.counts = durable;
        }
        report
    }
}
