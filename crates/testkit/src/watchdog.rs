//! A watchdog that ends a hanging test process and says where it hangs.

use std::fmt::Write as _;
use std::io::Write as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

const LOOK_EVERY: Duration = Duration::from_millis(100);
/// Looks at one step before it counts as a hang: five minutes. Looks are counted, not the time between them,
/// so a machine that stands still for a while, as a paused one does, does not make a hang.
const MOST_LOOKS: u32 = 3000;

struct Step {
    what: String,
    looks: u32,
}

/// Watches one test. Nothing can stop a hanging thread from outside, so the process ends.
pub struct Watchdog {
    step: Arc<Mutex<Step>>,
    done: Arc<AtomicBool>,
}

impl Watchdog {
    /// Starts to watch.
    pub fn new(what: &str) -> Self {
        let step = Arc::new(Mutex::new(Step { what: what.to_owned(), looks: 0 }));
        let done = Arc::new(AtomicBool::new(false));
        let (seen, ended) = (step.clone(), done.clone());
        std::thread::spawn(move || {
            while !ended.load(Ordering::Relaxed) {
                std::thread::sleep(LOOK_EVERY);
                let mut step = seen.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
                step.looks += 1;
                if step.looks > MOST_LOOKS && !ended.load(Ordering::Relaxed) {
                    // The test harness captures what `eprintln!` prints, and loses it when the process ends.
                    let _ = write!(std::io::stderr(), "hangs: {}\n{}", step.what, threads());
                    std::process::abort();
                }
            }
        });
        Watchdog { step, done }
    }

    /// Reports that the test is alive and starts this step.
    pub fn at(&self, what: impl FnOnce() -> String) {
        let mut step = self.step.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        *step = Step { what: what(), looks: 0 };
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        self.done.store(true, Ordering::Relaxed);
    }
}

/// A line for each thread of this process: what the host says of it (name, state, processor time), and the
/// function of the kernel in which it waits.
fn threads() -> String {
    let mut text = String::new();
    for task in std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten() {
        let read = |name: &str| std::fs::read_to_string(task.path().join(name)).unwrap_or_default();
        let stat = read("stat");
        // Fields behind the name, which has parentheses: the 1st is the state, 12th and 13th are times.
        let (name, rest) = stat.rsplit_once(") ").unwrap_or_default();
        let field = |index| rest.split(' ').nth(index).unwrap_or("?");
        let (state, user, system) = (field(0), field(11), field(12));
        let _ = writeln!(text, "  {name}) {state}, {user} + {system} ticks, waits in {}", read("wchan"));
    }
    text
}

#[cfg(test)]
mod tests {
    #[test]
    fn every_thread_has_a_line() {
        let text = super::threads();
        assert!(text.lines().count() >= 2, "{text}");
        assert!(text.contains(") R, ") && !text.contains('?'), "{text}");
    }
}
