//! Ctrl-C: a flag that every long loop checks, so that mounts and images are removed before the end.

use crate::error::{EXIT_STOPPED, Error, Result};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

/// Operations between two checks of the flag: rare enough to cost nothing, often enough to stop within a
/// tenth of a second.
pub(crate) const STRIDE: usize = 1024;

/// Signals after which the process ends without removing its mounts and images.
const MAX_SIGNALS: u32 = 3;

/// A flag that is set once and that all clones see.
#[derive(Clone, Debug, Default)]
pub struct Stop(Arc<AtomicBool>);

impl Stop {
    /// Returns a flag that SIGINT, SIGTERM and SIGHUP set. The third signal ends the process at once, for a
    /// device that no longer answers. Where the process has a handler already, that one stays and the flag is
    /// never set.
    pub fn on_signal() -> Self {
        let stop = Stop::default();
        let flag = stop.clone();
        let signals = AtomicU32::new(0);
        // A shell starts background jobs with SIGINT ignored; the handler takes its place, or SIGTERM, which
        // comes with it, would leave mounts behind.
        let _ = ctrlc::set_handler(move || {
            flag.set();
            if signals.fetch_add(1, Ordering::Relaxed) + 1 >= MAX_SIGNALS {
                std::process::exit(i32::from(EXIT_STOPPED));
            }
        });
        stop
    }

    /// Asks all work to stop.
    pub fn set(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Returns whether a stop was requested.
    pub fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// Fails with [`Error::Stopped`] after a request to stop.
    pub fn check(&self) -> Result<()> {
        if self.is_set() { Err(Error::Stopped) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_clones_see_a_stop() {
        let stop = Stop::default();
        let clone = stop.clone();
        assert!(clone.check().is_ok());
        stop.set();
        assert!(matches!(clone.check(), Err(Error::Stopped)));
    }
}
