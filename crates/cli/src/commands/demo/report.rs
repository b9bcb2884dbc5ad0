//! Report of the demo: a table of steps, then notes, differences and the verdict.

use crate::terminal::console::say;
use crate::terminal::exit;
use crate::terminal::failure::{Failure, Outcome, check_interrupt};
use crate::text::bytes;
use crate::text::escape::escape;
use std::io::Write;
use std::path::Path;
use std::time::Duration;

/// Notes and differences that are printed.
const MAX_PRINTED: usize = 20;

/// A step of the demo.
pub(super) struct StepRow {
    /// The step.
    pub(super) step: &'static str,
    /// Its time.
    pub(super) time: Duration,
    /// Number of things that it worked on.
    pub(super) count: u64,
    /// Their unit.
    pub(super) unit: &'static str,
    /// Text at the end of the line.
    pub(super) remark: String,
}

/// The report.
#[derive(Default)]
pub(super) struct DemoReport {
    total: Duration,
    /// Differences between the volume and the host.
    pub(super) differences: Vec<String>,
    /// Facts that are not differences.
    pub(super) notes: Vec<String>,
}

impl DemoReport {
    /// Prints the head of the table.
    ///
    /// # Errors
    /// Standard output cannot be written.
    pub(super) fn start() -> Result<Self, Failure> {
        print_line(&format!(
            "{:<28} {:>9} {:>9} {:<8} {:>12}",
            "step", "seconds", "count", "", "per second"
        ))?;
        Ok(DemoReport::default())
    }

    /// Prints a line at the end of a step.
    ///
    /// # Errors
    /// Standard output cannot be written; the user stops the demo.
    pub(super) fn step(&mut self, row: StepRow) -> Outcome {
        self.total += row.time;
        check_interrupt()?;
        print_line(&row.line())
    }

    /// Prints notes, differences and the verdict. Returns the exit code.
    ///
    /// # Errors
    /// Standard output cannot be written.
    pub(super) fn finish(&self, tree: &Path) -> Result<u8, Failure> {
        print_line(&format!("{:<28} {:>9.2}", "all steps", self.total.as_secs_f64()))?;
        for note in self.notes.iter().take(MAX_PRINTED) {
            say(&format!("note: {note}"));
        }
        if self.notes.len() > MAX_PRINTED {
            say(&format!("note: {} more notes", self.notes.len() - MAX_PRINTED));
        }
        for difference in self.differences.iter().take(MAX_PRINTED) {
            say(difference);
        }
        let tree = escape(bytes::of_path(tree));
        if self.differences.is_empty() {
            print_line(&format!("{tree}: every answer and every byte as on the host"))?;
            return Ok(exit::OK);
        }
        print_line(&format!("{tree}: {} differences", self.differences.len()))?;
        Ok(exit::PARTIAL)
    }
}

impl StepRow {
    fn line(&self) -> String {
        let (seconds, count) = (self.time.as_secs_f64(), self.count);
        let rate = count as f64 / seconds.max(1e-9);
        let line = format!(
            "{:<28} {seconds:>9.3} {count:>9} {:<8} {rate:>12.0}  {}",
            self.step, self.unit, self.remark
        );
        line.trim_end().to_string()
    }
}

fn print_line(line: &str) -> Outcome {
    let mut out = std::io::stdout();
    writeln!(out, "{line}")?;
    Ok(out.flush()?)
}
