//! State that all heaps share: the units, and the grade of checks.

use super::pool::Pool;
use crate::checking::checks::Checks;
use crate::host::lock::Lock;
use lanefs_sync::atomic::{AtomicU32, Ordering};

/// The supply below all heaps. The process has one; tests make their own.
pub(crate) struct Backend {
    pub(crate) pool: Lock<Pool>,
    checks: AtomicU32,
}

impl Backend {
    pub(crate) const fn new() -> Self {
        Backend { pool: Lock::new(Pool::new()), checks: AtomicU32::new(Checks::Cheap as u32) }
    }

    #[inline(always)]
    pub(crate) fn checks(&self) -> Checks {
        match self.checks.load(Ordering::Relaxed) {
            0 => Checks::Off,
            1 => Checks::Cheap,
            _ => Checks::Full,
        }
    }

    /// Sets the grade of checks, for heaps that are created from now on.
    pub(crate) fn set_checks(&self, checks: Checks) {
        self.checks.store(checks as u32, Ordering::Relaxed);
    }
}
