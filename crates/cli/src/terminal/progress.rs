//! Progress of long work, drawn on standard error if that is a terminal.

use super::{console, interrupt};
use crate::text::size::human;
use indicatif::{HumanDuration, ProgressBar, ProgressStyle};
use lanefs_transfer::ProgressState;
use std::cell::RefCell;
use std::time::{Duration, Instant};

/// Shorter work draws nothing.
const DELAY: Duration = Duration::from_millis(400);
/// Units between two readings of the clock: a unit may take less than a microsecond.
const UNITS_PER_CHECK: u64 = 256;

/// A bar or a counter that appears after a delay and is erased at the end.
pub struct Progress {
    label: &'static str,
    start: Instant,
    bar: Option<ProgressBar>,
    is_drawn: bool,
    done: u64,
}

impl Progress {
    /// Progress of a command that prints while it works: drawn only if its output is not on a terminal too.
    pub fn beside_output(label: &'static str) -> Self {
        let mut progress = Self::new(label);
        progress.is_drawn &= !console::output_is_terminal();
        progress
    }

    /// Progress of a command that prints nothing before its end.
    pub fn new(label: &'static str) -> Self {
        Progress {
            label,
            start: Instant::now(),
            bar: None,
            is_drawn: console::errors_are_terminal(),
            done: 0,
        }
    }

    /// Counts one unit.
    pub fn tick(&mut self) {
        self.done += 1;
        if self.is_drawn && self.done.is_multiple_of(UNITS_PER_CHECK) {
            self.draw(self.done, 0);
        }
    }

    /// Sets the progress to `done` of `total` units; a total of 0 is unknown.
    pub fn set(&mut self, done: u64, total: u64) {
        if self.is_drawn {
            self.draw(done, total);
        }
    }

    fn draw(&mut self, done: u64, total: u64) {
        if self.bar.is_none() && self.start.elapsed() < DELAY {
            return;
        }
        let bar = self.bar.get_or_insert_with(|| new_bar(total).with_message(self.label));
        if total > 0 {
            bar.set_length(total);
        }
        bar.set_position(done);
    }
}

fn new_bar(total: u64) -> ProgressBar {
    let (bar, template) = match total {
        0 => (ProgressBar::new_spinner(), "{spinner} {msg}: {human_pos}"),
        total => (ProgressBar::new(total), "{msg} {wide_bar} {human_pos}/{human_len} {eta}"),
    };
    bar.set_draw_target(console::progress_target());
    bar.with_style(ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar()))
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

/// Draws the progress of work that tells it by calls, and stops where the answer is false: once the user asks
/// for it.
pub fn with_progress<T>(label: &'static str, work: impl FnOnce(&dyn Fn(u64, u64) -> bool) -> T) -> T {
    let progress = RefCell::new(Progress::new(label));
    work(&|done, total| {
        progress.borrow_mut().set(done, total);
        !interrupt::raised()
    })
}

/// Progress of a transfer between a volume and the host.
pub struct TransferProgress {
    bar: ProgressBar,
    label: &'static str,
}

impl TransferProgress {
    /// Starts the display of a transfer.
    pub fn new(label: &'static str) -> Self {
        let bar =
            if console::errors_are_terminal() { ProgressBar::new_spinner() } else { ProgressBar::hidden() };
        if console::errors_are_terminal() {
            bar.set_draw_target(console::progress_target());
        }
        let style = ProgressStyle::with_template("{spinner} {wide_msg}");
        TransferProgress {
            bar: bar.with_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner())),
            label,
        }
    }

    /// Erases the display.
    pub fn clear(&self) {
        self.bar.finish_and_clear();
    }
}

impl lanefs_transfer::Progress for TransferProgress {
    fn update(&self, now: &ProgressState) {
        if now.elapsed < DELAY || self.bar.is_hidden() {
            return;
        }
        let seconds = now.elapsed.as_secs_f64();
        let (names, bytes) = (now.counts.entries(), now.counts.bytes);
        let (rate, speed) = (names as f64 / seconds, human((bytes as f64 / seconds) as u64));
        let label = if now.syncing { "writing out" } else { self.label };
        let bytes = human(bytes);
        self.bar.set_message(match now.compared {
            0 => format!("{label}: {names} names, {bytes}B ({rate:.0} names/s, {speed}B/s)"),
            compared => {
                let rate = compared as f64 / seconds;
                let of_all = now.expected.map_or_else(String::new, |all| format!(" of about {all}"));
                let left = time_left(now);
                let left = left.map_or_else(String::new, |left| format!("; {} left", HumanDuration(left)));
                format!(
                    "{label}: {compared}{of_all} names compared ({rate:.0}/s), {names} copied, {bytes}B \
                     ({speed}B/s){left}"
                )
            }
        });
        self.bar.tick();
    }
}

/// An estimate of the time that a comparison will still take, if the number of its names is known.
fn time_left(now: &ProgressState) -> Option<Duration> {
    let left = now.expected?.checked_sub(now.compared)?;
    if now.compared == 0 {
        return None;
    }
    Duration::try_from_secs_f64(now.elapsed.as_secs_f64() * left as f64 / now.compared as f64).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use lanefs_transfer::Counts;

    #[test]
    fn the_time_left_follows_from_the_names_that_are_left() {
        let left = |compared: u64, expected: Option<u64>| {
            let elapsed = Duration::from_secs(10);
            time_left(&ProgressState {
                counts: Counts::default(),
                compared,
                expected,
                elapsed,
                syncing: false,
            })
        };
        assert_eq!(left(25, Some(100)), Some(Duration::from_secs(30)));
        assert_eq!((left(25, None), left(0, Some(100)), left(9, Some(8))), (None, None, None));
    }
}
