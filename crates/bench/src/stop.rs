//! Ctrl-C: a flag that every long loop looks at, so that mounts and images are removed on the way out.

use crate::{Error, Result};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// How many operations a loop does between two looks at the flag: rare enough to cost nothing, often enough to stop
/// within a tenth of a second.
pub(crate) const STRIDE: usize = 1024;

/// Set once, seen by all clones.
#[derive(Clone, Debug, Default)]
pub struct Stop(Arc<AtomicBool>);

impl Stop {
    /// A flag that somebody else sets, e.g. the program's own signal handler.
    pub fn shared(flag: Arc<AtomicBool>) -> Self {
        Stop(flag)
    }

    /// A flag that follows a program's own handler, looked at by a thread 20 times a second until it tells of a signal.
    pub fn following(raised: fn() -> bool) -> Self {
        let stop = Stop::default();
        let flag = stop.clone();
        std::thread::spawn(move || {
            while !raised() && !flag.is_set() {
                std::thread::sleep(Duration::from_millis(50));
            }
            flag.set();
        });
        stop
    }

    /// A flag set by SIGINT, SIGTERM and SIGHUP. Where the process has a handler already, that one stays and the flag
    /// is never set: such a program uses [`Stop::shared`] or [`Stop::following`].
    pub fn on_signal() -> Self {
        let stop = Stop::default();
        let flag = stop.clone();
        // A shell starts background jobs with SIGINT ignored; the handler takes its place, or SIGTERM, which comes with
        // it, would leave mounts behind.
        let _ = ctrlc::set_handler(move || flag.set());
        stop
    }

    /// Asks everybody to stop.
    pub fn set(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// True once somebody asked to stop.
    pub fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// The flag itself.
    pub fn flag(&self) -> &Arc<AtomicBool> {
        &self.0
    }

    /// Fails with [`Error::Stopped`] once somebody asked to stop.
    pub fn check(&self) -> Result<()> {
        if self.is_set() { Err(Error::Stopped) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flag_follows_the_program_and_all_clones_see_it() {
        static RAISED: AtomicBool = AtomicBool::new(false);
        let stop = Stop::following(|| RAISED.load(Ordering::Relaxed));
        assert!(stop.check().is_ok());
        RAISED.store(true, Ordering::Relaxed);
        while !stop.clone().is_set() {
            std::thread::yield_now();
        }
        assert!(matches!(stop.check(), Err(Error::Stopped)));
    }
}
