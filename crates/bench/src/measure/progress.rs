//! One line on standard error that names the current measurement.

use std::cell::Cell;
use std::io::{IsTerminal, Write};

/// A line that is rewritten on a terminal. Elsewhere only headings are printed, so that a log stays short.
pub(crate) struct Progress {
    terminal: bool,
    open: Cell<bool>,
}

impl Progress {
    pub(crate) fn new() -> Self {
        Progress { terminal: std::io::stderr().is_terminal(), open: Cell::new(false) }
    }

    /// Shows the current step.
    pub(crate) fn step(&self, text: &str) {
        if self.terminal {
            eprint!("\r\x1b[2K  {text}");
            let _ = std::io::stderr().flush();
            self.open.set(true);
        }
    }

    /// Prints a line that stays.
    pub(crate) fn note(&self, text: &str) {
        self.finish();
        eprintln!("{text}");
    }

    /// Clears the line.
    pub(crate) fn finish(&self) {
        if self.open.replace(false) {
            eprint!("\r\x1b[2K");
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.finish();
    }
}
