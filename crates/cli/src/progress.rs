//! Progress of long work, on standard error where that is a terminal.

use crate::console;
use indicatif::{ProgressBar, ProgressStyle};
use std::time::{Duration, Instant};

/// Work shorter than this shows nothing.
const DELAY: Duration = Duration::from_millis(400);

/// A bar or a count that appears once the work has taken a moment, and leaves no trace.
pub struct Progress {
    what: &'static str,
    start: Instant,
    bar: Option<ProgressBar>,
    shown: bool,
    done: u64,
}

impl Progress {
    /// For a command that prints as it goes: nothing is shown where its lines go to a terminal too.
    pub fn beside_output(what: &'static str) -> Self {
        let mut progress = Self::new(what);
        progress.shown &= !console::output_is_terminal();
        progress
    }

    /// For a command that prints at its end, if at all.
    pub fn new(what: &'static str) -> Self {
        Progress { what, start: Instant::now(), bar: None, shown: console::errors_are_seen(), done: 0 }
    }

    /// One unit more.
    pub fn tick(&mut self) {
        self.done += 1;
        // The clock is asked rarely: a unit may take less than a microsecond.
        if self.shown && self.done.is_multiple_of(256) {
            self.show(self.done, 0);
        }
    }

    /// `done` of `total` units; a total of 0 is unknown.
    pub fn set(&mut self, done: u64, total: u64) {
        if self.shown {
            self.show(done, total);
        }
    }

    fn show(&mut self, done: u64, total: u64) {
        if self.bar.is_none() {
            if self.start.elapsed() < DELAY {
                return;
            }
            let (bar, template) = match total {
                0 => (ProgressBar::new_spinner(), "{spinner} {msg}: {human_pos}"),
                total => (ProgressBar::new(total), "{msg} {wide_bar} {human_pos}/{human_len} {eta}"),
            };
            let style =
                ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
            bar.set_draw_target(console::progress_target());
            self.bar = Some(bar.with_style(style).with_message(self.what));
        }
        if let Some(bar) = &self.bar {
            if total > 0 {
                bar.set_length(total);
            }
            bar.set_position(done);
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
