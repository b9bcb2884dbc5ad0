//! The progress of a pass.

use std::sync::atomic::{AtomicU64, Ordering};

/// Units between two reports.
const STEP: u64 = 1024;

/// The progress of a pass, in units of inodes: each is surveyed, walked and compared with its names.
pub(in crate::check) struct Progress<'p> {
    report: &'p (dyn Fn(u64, u64) + Sync),
    /// Units before the present part of the pass.
    before: AtomicU64,
    total: AtomicU64,
}

impl<'p> Progress<'p> {
    pub(in crate::check) fn new(report: &'p (dyn Fn(u64, u64) + Sync)) -> Self {
        Progress { report, before: AtomicU64::new(0), total: AtomicU64::new(0) }
    }

    /// Begins a part after `before` units, of `total` in all parts.
    pub(in crate::check) fn begin(&self, before: u64, total: u64) {
        self.before.store(before, Ordering::Relaxed);
        self.total.store(total, Ordering::Relaxed);
        (self.report)(before, total);
    }

    /// Sets the units that are done of the present part.
    pub(in crate::check) fn set(&self, done: u64) {
        // A block of inodes has up to 32, so a block passes a multiple of the step at most once.
        if done % STEP < 32 {
            (self.report)(self.before.load(Ordering::Relaxed) + done, self.total.load(Ordering::Relaxed));
        }
    }
}
