//! Ctrl-C between the pieces of a long call.

use lanefs_sync::lock::Mutex;
use pyo3::prelude::*;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Least time between two looks for signals: each waits until no other thread runs Python code.
const INTERVAL: Duration = Duration::from_millis(20);

/// Signals that arrive during one call, which runs detached from the interpreter.
pub(crate) struct Signals {
    /// Only the main thread runs Python's handlers; the others have no reason to wait for the interpreter.
    is_main: bool,
    last: Mutex<Instant>,
    error: Mutex<Option<PyErr>>,
    /// There is an error.
    is_raised: AtomicBool,
}

impl Signals {
    pub(crate) fn new() -> Self {
        let is_main = rustix::thread::gettid() == rustix::process::getpid();
        Signals {
            is_main,
            last: Mutex::new(Instant::now()),
            error: Mutex::new(None),
            is_raised: AtomicBool::new(false),
        }
    }

    /// Runs the handlers of signals that have arrived. Returns true once one has raised an exception: the
    /// call is to stop. The thread that made the call calls this.
    pub(crate) fn raised(&self) -> bool {
        if self.is_main && self.is_due() {
            self.keep(Python::attach(|py| py.check_signals()));
        }
        self.is_raised()
    }

    /// True once an exception has been kept. Any thread may ask.
    pub(crate) fn is_raised(&self) -> bool {
        self.is_raised.load(Ordering::Acquire)
    }

    /// Keeps an exception, which ends the call.
    pub(crate) fn keep(&self, outcome: PyResult<()>) {
        if let Err(error) = outcome {
            self.error.lock().get_or_insert(error);
            self.is_raised.store(true, Ordering::Release);
        }
    }

    /// Ends the call.
    ///
    /// # Errors
    /// The exception.
    pub(crate) fn finish(self) -> PyResult<()> {
        self.error.into_inner().map_or(Ok(()), Err)
    }

    fn is_due(&self) -> bool {
        let mut last = self.last.lock();
        let is_due = last.elapsed() >= INTERVAL;
        if is_due {
            *last = Instant::now();
        }
        is_due
    }
}
