//! Totals of a lookup, and the line about them.

use super::format::code_of;
use crate::terminal::console;
use crate::terminal::failure::exit_of_code;
use crate::text::count::counted;
use lanefs::Code;
use std::time::Duration;

/// Totals of a lookup.
#[derive(Debug, Default)]
pub(super) struct LookupTotals {
    /// Paths resolved.
    pub(super) paths: u64,
    /// Paths found.
    pub(super) found: u64,
    /// Time inside `resolve_batch`, added up over all threads.
    pub(super) resolving: Duration,
    /// Threads that resolved paths.
    pub(super) threads: usize,
    /// Exit code for the answers.
    pub(super) status: u8,
}

impl LookupTotals {
    /// Prints the counts and rates on standard error.
    pub(super) fn print(&self, engine: &str, total: Duration) {
        let rate = |time: Duration| self.paths as f64 / time.as_secs_f64().max(1e-9);
        let alone = self.resolving / u32::try_from(self.threads.max(1)).unwrap_or(1);
        let missing = self.paths - self.found;
        console::say(&format!(
            "{} ({missing} not found) in {:.3} s, {:.0} paths/s; resolve_batch alone {:.3} s, {:.0} paths/s \
             (threads: {}, engine: {engine})",
            counted(self.paths, "path", "paths"),
            total.as_secs_f64(),
            rate(total),
            alone.as_secs_f64(),
            rate(alone),
            self.threads,
        ));
    }

    /// Adds answers: the numbers of their codes.
    pub(super) fn add_all(&mut self, codes: &[u8]) {
        let is_found = |code: &&u8| **code == Code::Success.number();
        self.paths += codes.len() as u64;
        self.found += codes.iter().filter(is_found).count() as u64;
        let failures = codes.iter().filter(|code| !is_found(code));
        self.status = failures.map(|code| exit_of_code(code_of(*code))).fold(self.status, u8::max);
    }

    /// Adds the totals of a piece.
    pub(super) fn merge(&mut self, other: &LookupTotals) {
        self.paths += other.paths;
        self.found += other.found;
        self.resolving += other.resolving;
        self.status = self.status.max(other.status);
    }
}
