//! One line on standard error that says what is being measured.

use std::cell::Cell;
use std::io::{IsTerminal, Write};

/// Rewrites one line on a terminal; elsewhere prints only the headings, so that a log stays short.
pub(crate) struct Progress {
    terminal: bool,
    open: Cell<bool>,
}

impl Progress {
    pub(crate) fn new() -> Self {
        Progress { terminal: std::io::stderr().is_terminal(), open: Cell::new(false) }
    }

    /// A new part of the benchmark.
    pub(crate) fn heading(&self, text: &str) {
        self.note(text);
    }

    /// What happens just now.
    pub(crate) fn step(&self, text: &str) {
        if self.terminal {
            eprint!("\r\x1b[2K  {text}");
            let _ = std::io::stderr().flush();
            self.open.set(true);
        }
    }

    /// A line that stays.
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
