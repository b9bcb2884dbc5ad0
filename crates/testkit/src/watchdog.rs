//! Ends a test process that hangs, and says where.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// What may hang must end within this, on whatever machine.
const MOST_TIME: Duration = Duration::from_secs(120);
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Watches one test. What hangs cannot be stopped from outside, so the process ends.
pub struct Watchdog {
    at: Arc<Mutex<(Instant, String)>>,
    done: Arc<AtomicBool>,
}

impl Watchdog {
    /// Begins to watch.
    pub fn new(what: &str) -> Self {
        let at = Arc::new(Mutex::new((Instant::now(), what.to_owned())));
        let done = Arc::new(AtomicBool::new(false));
        let (seen, ended) = (at.clone(), done.clone());
        std::thread::spawn(move || {
            while !ended.load(Ordering::Relaxed) {
                std::thread::sleep(LOOK_EVERY);
                let at = seen.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
                if at.0.elapsed() > MOST_TIME && !ended.load(Ordering::Relaxed) {
                    eprintln!("hangs: {}", at.1);
                    std::process::abort();
                }
            }
        });
        Watchdog { at, done }
    }

    /// The test is alive, and begins with this.
    pub fn at(&self, what: impl FnOnce() -> String) {
        let mut at = self.at.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        *at = (Instant::now(), what());
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        self.done.store(true, Ordering::Relaxed);
    }
}
