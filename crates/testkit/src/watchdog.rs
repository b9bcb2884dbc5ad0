//! A watchdog that ends a hanging test process and says where it hangs.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// A watched step must end within this time on any machine.
const MOST_TIME: Duration = Duration::from_secs(120);
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Watches one test. Nothing can stop a hanging thread from outside, so the process ends.
pub struct Watchdog {
    at: Arc<Mutex<(Instant, String)>>,
    done: Arc<AtomicBool>,
}

impl Watchdog {
    /// Starts to watch.
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

    /// Reports that the test is alive and starts this step.
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
