//! Tests that hang, and tests that panic: a watchdog ends a process and says where it hangs, and a panic
//! becomes a failure with a text.

use parking_lot::Mutex;
use std::io::Write as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const LOOK_EVERY: Duration = Duration::from_millis(100);
/// Looks at one step before it counts as a hang: five minutes. Looks are counted, not the time between them,
/// so a machine that stands still for a while, as a paused one does, does not make a hang.
const MOST_LOOKS: u32 = 3000;

struct WatchedStep {
    what: String,
    looks: u32,
}

/// Watches one test. Nothing can stop a hanging thread from outside, so the process ends.
pub struct Watchdog {
    step: Arc<Mutex<WatchedStep>>,
    done: Arc<AtomicBool>,
}

impl Watchdog {
    /// Starts to watch.
    pub fn new(what: &str) -> Self {
        let step = Arc::new(Mutex::new(WatchedStep { what: what.to_owned(), looks: 0 }));
        let done = Arc::new(AtomicBool::new(false));
        let (seen, ended) = (step.clone(), done.clone());
        std::thread::spawn(move || {
            while !ended.load(Ordering::Relaxed) {
                std::thread::sleep(LOOK_EVERY);
                let mut step = seen.lock();
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
        let mut step = self.step.lock();
        *step = WatchedStep { what: what(), looks: 0 };
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        self.done.store(true, Ordering::Relaxed);
    }
}

/// Runs `work`, where a panic is a failure like any other: it is reported with its case, and shrunk.
pub(crate) fn guarded<T>(work: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        Err(format!("panicked: {}", text.or(panic.downcast_ref::<&str>().copied()).unwrap_or("?")))
    })
}

/// A line for each thread of this process: what the host says of it (name, state, processor time), and the
/// function of the kernel in which it waits.
fn threads() -> String {
    let mut text = String::new();
    for task in std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten() {
        text.extend(thread(&task.path()));
    }
    text
}

/// The line of a thread, from its directory of `/proc`; `None` for one that has ended meanwhile.
fn thread(task: &Path) -> Option<String> {
    let stat = std::fs::read_to_string(task.join("stat")).ok()?;
    // Fields after the name, which has parentheses: the 1st is the state, 12th and 13th are times.
    let (name, rest) = stat.rsplit_once(") ")?;
    let field = |index| rest.split(' ').nth(index);
    let (state, user, system) = (field(0)?, field(11)?, field(12)?);
    let wait = std::fs::read_to_string(task.join("wchan")).unwrap_or_default();
    Some(format!("  {name}) {state}, {user} + {system} ticks, waits in {wait}\n"))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    #[test]
    fn the_own_thread_has_a_line_and_one_that_has_ended_has_none() {
        // The link names the calling thread: it runs. Other threads of the tests come and go meanwhile.
        let link = std::fs::read_link("/proc/thread-self").expect("a thread has a directory");
        let number = link.file_name().and_then(|name| name.to_str()).expect("a number");
        let text = super::threads();
        let own = text.lines().find(|line| line.trim_start().starts_with(&format!("{number} (")));
        assert!(
            own.is_some_and(|line| line.contains(") R, ") && line.contains(" ticks, waits in ")),
            "{text}"
        );
        assert!(!text.contains('?') && text.lines().all(|line| line.starts_with("  ")), "{text}");
        assert_eq!(super::thread(Path::new("/proc/self/task/0")), None);
    }
}
