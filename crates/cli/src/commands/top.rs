//! `lanefs top`.

use crate::session::metrics::Values;
use crate::session::mounted;
use crate::terminal::failure::Failure;
use crate::terminal::{console, exit, interrupt};
use crate::text::count::counted;
use crate::text::escape::escape;
use crate::text::{bytes, size};
use clap::Args;
use lanefs::format::BLOCK;
use lanefs::host_text;
use lanefs_fuse::find;
use std::io::{self, Write};
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Longest sleep before the program checks again whether the user asked to stop.
const CHECK_INTERVAL: Duration = Duration::from_millis(50);
/// Seconds that an interval may have.
const INTERVALS: RangeInclusive<f64> = 0.1..=3600.0;
/// Moves the cursor of a terminal to the top left corner and erases the rest of the screen.
const CLEAR_SCREEN: &str = "\x1b[H\x1b[2J";

/// Show the activity of a mounted volume
///
/// Shows the kernel's requests by kind, their latency, cache misses and commits of the journal, once per
/// second until Ctrl-C. If standard output is not a terminal, each screen follows the last one.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  lanefs top /mnt
  lanefs top v.lane --interval 5
  lanefs top /mnt --prometheus > /var/lib/node_exporter/lanefs.prom")]
pub struct Top {
    /// Directory on which the volume is mounted, or its image
    #[arg(value_name = "DIR|IMAGE")]
    volume: PathBuf,
    /// Seconds between two screens
    #[arg(long, short, value_name = "SECONDS", default_value_t = 1.0, value_parser = seconds)]
    interval: f64,
    /// End after this many screens
    #[arg(long, short = 'n', value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    count: Option<u32>,
    /// Print all counters once, in the text format of Prometheus
    #[arg(long, conflicts_with_all = ["interval", "count"])]
    prometheus: bool,
}

fn seconds(text: &str) -> Result<f64, String> {
    let value: f64 = text.parse().map_err(|_| format!("`{text}` is not a number of seconds"))?;
    match INTERVALS.contains(&value) {
        true => Ok(value),
        false => Err(format!("give {} to {} seconds", INTERVALS.start(), INTERVALS.end())),
    }
}

impl Top {
    /// Shows screens until the count is reached or the user stops it.
    ///
    /// # Errors
    /// No volume is mounted there, or the server does not reply.
    pub fn execute(&self) -> Result<u8, Failure> {
        let mount = find::find(&self.volume).map_err(|error| mounted::mount_failure(&error))?;
        let mount = mount.ok_or_else(|| {
            let name = bytes::of_path(&self.volume);
            let none = Failure::partial(name, "is not a mounted volume", "mount it with `lanefs mount`");
            mounted::with_claim(&self.volume, none)
        })?;
        interrupt::wait_for_commands();
        let statistics = || mount.statistics(interrupt::raised).map_err(mounted::talk_failure);
        let mut out = console::output();
        if self.prometheus {
            out.write_all(statistics()?.as_bytes())?;
            return Ok(exit::OK);
        }
        let clear = if console::output_is_terminal() { CLEAR_SCREEN } else { "" };
        let (mut before, mut start) = (Values::parse(&statistics()?), Instant::now());
        let mut shown = 0;
        while self.count.is_none_or(|count| shown < count) {
            if !sleep_until(start + Duration::from_secs_f64(self.interval)) {
                return Ok(exit::OK);
            }
            let (now, end) = (Values::parse(&statistics()?), Instant::now());
            let text = screen(&mount.dir, &now, &now.since(&before), (end - start).as_secs_f64());
            out.write_all(format!("{clear}{text}").as_bytes())?;
            out.flush()?;
            (before, start) = (now, end);
            shown += 1;
        }
        Ok(exit::OK)
    }
}

/// Sleeps until `end`. Returns false if the user asked to stop.
fn sleep_until(end: Instant) -> bool {
    while Instant::now() < end {
        if interrupt::raised() {
            return false;
        }
        std::thread::sleep(CHECK_INTERVAL.min(end.saturating_duration_since(Instant::now())));
    }
    true
}

/// One screen: the current values, and the rates of `change` over `seconds`.
fn screen(dir: &Path, now: &Values, change: &Values, seconds: f64) -> String {
    let size = |name: &str| size::human(now.get(name) as u64);
    let rate = |name: &str| change.get(name) / seconds;
    let speed = |name: &str| size::human(rate(name) as u64);
    let requests = RequestTable::new(change, seconds);
    let neighbours = change.get("lanefs_neighbours_fetched_total");
    let misses = change.get("lanefs_fetched_blocks_total") - neighbours;
    let hits = (requests.count - misses).max(0.0);
    let damage = match now.get("lanefs_damaged") > 0.0 {
        true => "DAMAGE was met: unmount the volume and run `lanefs fsck --repair`\n",
        false => "",
    };
    let failure = match now.get("lanefs_write_failure_errno") as i32 {
        0 => String::new(),
        errno => format!(
            "a WRITE FAILED ({}): the volume takes no changes; unmount it and mount it again\n",
            host_text(&io::Error::from_raw_os_error(errno))
        ),
    };
    let wrong = match now.get("lanefs_wrong_blocks") {
        0.0 => String::new(),
        blocks => {
            let blocks = counted(blocks as u64, "block of file data is", "blocks of file data are");
            format!("{blocks} WRONG: run `lanefs scrub` to see the files\n")
        }
    };
    let store = store(now, change, seconds);
    format!(
        "{}: {}B, {}B free, {}; {}B in memory; {} known\n{damage}{failure}{wrong}{store}\
         requests {:.0}/s, errors {:.0}/s; hits {:.0}/s, misses {:.0}/s with {:.0} neighbours/s; commits {:.1}/s; \
         written: data {}B/s, journal {}B/s\n\n{}",
        escape(bytes::of_path(dir)),
        size("lanefs_size_bytes"),
        size("lanefs_free_bytes"),
        counted(now.get("lanefs_inodes") as u64, "inode", "inodes"),
        size::human(BLOCK * now.get("lanefs_resident_blocks") as u64),
        counted(now.get("lanefs_directory_table_paths") as u64, "directory", "directories"),
        requests.count / seconds,
        requests.errors / seconds,
        hits / seconds,
        misses / seconds,
        neighbours / seconds,
        rate("lanefs_commits_total"),
        speed("lanefs_data_bytes_total"),
        speed("lanefs_journal_bytes_total"),
        requests.text,
    )
}

/// The line on the store of a publication; empty for another volume.
fn store(now: &Values, change: &Values, seconds: f64) -> String {
    let rate = |name: &str| change.get(name) / seconds;
    let failures = now.get("lanefs_store_failures_total");
    if now.get("lanefs_store_requests_total") + now.get("lanefs_store_cached_pieces_total") + failures == 0.0
    {
        return String::new();
    }
    let fails = match now.get("lanefs_store_fails") > 0.0 {
        true => format!(
            "the store FAILS ({failures:.0} reads so far): cached pieces are served; the log has the reasons\n"
        ),
        false => String::new(),
    };
    format!(
        "{fails}store: requests {:.0}/s, {}B/s; cached pieces {:.0}/s\n",
        rate("lanefs_store_requests_total"),
        size::human(rate("lanefs_store_bytes_total") as u64),
        rate("lanefs_store_cached_pieces_total"),
    )
}

/// The requests of an interval, one line for each kind, the most frequent first.
struct RequestTable {
    count: f64,
    errors: f64,
    text: String,
}

impl RequestTable {
    fn new(change: &Values, seconds: f64) -> Self {
        let (mut all, mut all_errors) = (0.0, 0.0);
        let mut lines = Vec::new();
        for (name, count, spent, errors) in change.operations() {
            all += count;
            all_errors += errors;
            if count > 0.0 {
                let micros = |share| {
                    change.quantile(name, share).map_or("-".to_string(), |s| format!("{:.0}", s * 1e6))
                };
                let (mean, median, slow) = (spent / count * 1e6, micros(0.5), micros(0.99));
                let (rate, errors) = (count / seconds, errors / seconds);
                let line =
                    format!("{name:<12} {rate:>10.0} {mean:>10.1} {median:>10} {slow:>10} {errors:>10.0}\n");
                lines.push((count, line));
            }
        }
        lines.sort_by(|a, b| b.0.total_cmp(&a.0));
        let mut text = format!(
            "{:<12} {:>10} {:>10} {:>10} {:>10} {:>10}\n",
            "request", "per second", "mean us", "median <", "99 % <", "errors/s"
        );
        lines.into_iter().for_each(|(_, line)| text += &line);
        RequestTable { count: all, errors: all_errors, text }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_screen_shows_the_rates_of_requests() {
        let text = "lanefs_operation_seconds_bucket{operation=\"read\",le=\"0.000004\"} 100\n\
                    lanefs_operation_seconds_bucket{operation=\"read\",le=\"+Inf\"} 100\n\
                    lanefs_operation_seconds_sum{operation=\"read\"} 0.0003\n\
                    lanefs_operation_seconds_count{operation=\"read\"} 100\n\
                    lanefs_operation_seconds_count{operation=\"write\"} 0\n\
                    lanefs_fetched_blocks_total 50\nlanefs_neighbours_fetched_total 10\n\
                    lanefs_size_bytes 1073741824\n";
        let values = Values::parse(text);
        assert!(!screen(Path::new("/m"), &values, &values, 2.0).contains("DAMAGE"));
        let damaged = Values::parse(&format!("{text}lanefs_damaged 1\n"));
        assert!(screen(Path::new("/m"), &damaged, &values, 2.0).contains("DAMAGE"));
        let failed = Values::parse(&format!("{text}lanefs_write_failure_errno 28\n"));
        let failed = screen(Path::new("/m"), &failed, &values, 2.0);
        assert!(failed.contains("WRITE FAILED (No space left on device)"), "{failed}");
        assert!(!screen(Path::new("/m"), &values, &values, 2.0).contains("FAILED"));
        let screen = screen(Path::new("/m"), &values, &values, 2.0);
        assert!(screen.starts_with("/m: 1.0G"), "{screen}");
        let misses = "hits 30/s, misses 20/s with 5 neighbours/s";
        assert!(screen.contains("requests 50/s") && screen.contains(misses), "{screen}");
        let read = screen.lines().find(|line| line.starts_with("read")).expect("a line");
        assert_eq!(read.split_whitespace().collect::<Vec<_>>(), ["read", "50", "3.0", "4", "4", "0"]);
        assert!(!screen.contains("write "), "what did not happen has no line: {screen}");
    }

    #[test]
    fn intervals_have_bounds() {
        assert_eq!(seconds("0.5"), Ok(0.5));
        assert!(seconds("0").is_err() && seconds("x").is_err() && seconds("inf").is_err());
    }
}
