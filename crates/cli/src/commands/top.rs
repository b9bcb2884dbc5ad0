//! `top`: what a mounted volume is doing.

use crate::exit::{self, Failure};
use crate::metrics::Values;
use crate::{console, context, interrupt, mounting, size};
use clap::Args;
use lanefs_fuse::client::{self, MountedVolume};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// How often it is looked whether the user wants to stop.
const LOOK: Duration = Duration::from_millis(50);

/// Show what a mounted volume is doing
///
/// Requests of the kernel by kind, how long they take, what the cache fetches and the journal commits, anew each second until Ctrl-C.
/// Where standard output is no terminal each picture follows the last.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  lanefs top /mnt
  lanefs top v.lane --interval 5
  lanefs top /mnt --prometheus > /var/lib/node_exporter/lanefs.prom")]
pub struct Top {
    /// The directory on which it is mounted, or the image
    #[arg(value_name = "DIR|IMAGE")]
    what: PathBuf,
    /// Seconds between two pictures
    #[arg(long, short, value_name = "SECONDS", default_value_t = 1.0, value_parser = seconds)]
    interval: f64,
    /// End after so many pictures
    #[arg(long, short = 'n', value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    count: Option<u32>,
    /// Print all counters once, in the text format of Prometheus
    #[arg(long, conflicts_with_all = ["interval", "count"])]
    prometheus: bool,
}

fn seconds(text: &str) -> Result<f64, String> {
    let value: f64 = text.parse().map_err(|_| "not a number".to_string())?;
    if (0.1..=3600.0).contains(&value) { Ok(value) } else { Err("between 0.1 and 3600".into()) }
}

/// The mount that is meant.
fn found(what: &Path) -> Result<MountedVolume, Failure> {
    client::find(what).ok_or_else(|| {
        let name = crate::bytes::of_path(what);
        Failure::new(exit::PARTIAL, name, "no mounted volume", "mount it with `lanefs mount`")
    })
}

impl Top {
    /// Shows pictures until it has shown enough.
    ///
    /// # Errors
    /// Where nothing is mounted there, or the mount does not answer.
    pub fn run(&self) -> Result<u8, Failure> {
        let found = found(&self.what)?;
        let ask = || found.statistics().map_err(|error| mounting::plain_failure(&error));
        let mut out = console::output();
        if self.prometheus {
            out.write_all(ask()?.as_bytes())?;
            return Ok(exit::OK);
        }
        let terminal = console::output_is_terminal();
        let (mut before, mut then) = (Values::parse(&ask()?), Instant::now());
        let mut shown = 0;
        while self.count.is_none_or(|count| shown < count) {
            let next = then + Duration::from_secs_f64(self.interval);
            while Instant::now() < next {
                if interrupt::raised() {
                    return Ok(exit::OK);
                }
                std::thread::sleep(LOOK.min(next.saturating_duration_since(Instant::now())));
            }
            let (now, moment) = (Values::parse(&ask()?), Instant::now());
            let text = picture(&found.dir, &now, &now.since(&before), (moment - then).as_secs_f64());
            // To the top left corner, and nothing below.
            let clear = if terminal { "\x1b[H\x1b[2J" } else { "" };
            out.write_all(format!("{clear}{text}").as_bytes())?;
            out.flush()?;
            (before, then) = (now, moment);
            shown += 1;
        }
        Ok(exit::OK)
    }
}

/// One picture: the values as they are, what came in the last `seconds`.
fn picture(dir: &Path, now: &Values, came: &Values, seconds: f64) -> String {
    let bytes = |name: &str| size::human(now.get(name) as u64);
    let rate = |name: &str| came.get(name) / seconds;
    let speed = |name: &str| size::human(rate(name) as u64);
    let mut text = format!(
        "{}: {}B, {}B free, {:.0} inodes; {}B in memory\n",
        context::shown(crate::bytes::of_path(dir)),
        bytes("lanefs_size_bytes"),
        bytes("lanefs_free_bytes"),
        now.get("lanefs_inodes"),
        size::human(4096 * now.get("lanefs_resident_blocks") as u64),
    );
    let (mut all, mut failed) = (0.0, 0.0);
    let mut lines = Vec::new();
    for (name, count, spent, errors) in came.operations() {
        all += count;
        failed += errors;
        if count > 0.0 {
            let at =
                |share| came.quantile(name, share).map_or("-".to_string(), |s| format!("{:.0}", s * 1e6));
            let mean = spent / count * 1e6;
            lines.push((
                count,
                format!(
                    "{name:<12} {:>10.0} {mean:>10.1} {:>10} {:>10} {:>10.0}\n",
                    count / seconds,
                    at(0.5),
                    at(0.99),
                    errors / seconds
                ),
            ));
        }
    }
    let hits = (all - came.get("lanefs_fetched_blocks_total")).max(0.0);
    text += &format!(
        "requests {:.0}/s, errors {:.0}/s; hits {:.0}/s, misses {:.0}/s; commits {:.1}/s; written: data {}B/s, journal {}B/s\n\n",
        all / seconds,
        failed / seconds,
        hits / seconds,
        rate("lanefs_fetched_blocks_total"),
        rate("lanefs_commits_total"),
        speed("lanefs_data_bytes_total"),
        speed("lanefs_journal_bytes_total"),
    );
    text += &format!(
        "{:<12} {:>10} {:>10} {:>10} {:>10} {:>10}\n",
        "request", "per second", "mean us", "median <", "99 % <", "errors/s"
    );
    lines.sort_by(|a, b| b.0.total_cmp(&a.0));
    lines.into_iter().for_each(|(_, line)| text += &line);
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_picture_shows_rates_of_what_was_asked() {
        let text = "lanefs_operation_seconds_bucket{operation=\"read\",le=\"0.000004\"} 100\n\
                    lanefs_operation_seconds_bucket{operation=\"read\",le=\"+Inf\"} 100\n\
                    lanefs_operation_seconds_sum{operation=\"read\"} 0.0003\n\
                    lanefs_operation_seconds_count{operation=\"read\"} 100\n\
                    lanefs_operation_seconds_count{operation=\"write\"} 0\n\
                    lanefs_fetched_blocks_total 40\nlanefs_size_bytes 1073741824\n";
        let values = Values::parse(text);
        let picture = picture(Path::new("/m"), &values, &values, 2.0);
        assert!(picture.starts_with("/m: 1.0G"), "{picture}");
        assert!(picture.contains("requests 50/s") && picture.contains("hits 30/s, misses 20/s"), "{picture}");
        let read = picture.lines().find(|line| line.starts_with("read")).expect("a line");
        assert_eq!(read.split_whitespace().collect::<Vec<_>>(), ["read", "50", "3.0", "4", "4", "0"]);
        assert!(!picture.contains("write "), "what did not happen has no line: {picture}");
    }

    #[test]
    fn intervals_have_bounds() {
        assert_eq!(seconds("0.5"), Ok(0.5));
        assert!(seconds("0").is_err() && seconds("x").is_err() && seconds("inf").is_err());
    }
}
