//! `lanefs remote prune`.

use crate::session::publication::{self, StoreParser};
use crate::terminal::console;
use crate::terminal::failure::{Failure, Outcome};
use crate::terminal::progress::with_progress;
use crate::text::count::counted;
use crate::text::size::human;
use crate::text::{json, time};
use clap::Args;
use lanefs::Time;
use lanefs_publish::{Error, Location, MIN_GRACE, PruneOptions, PruneReport, Tally, prune};
use std::io::Write;

/// Remove what no tag needs
///
/// The first call condemns versions and packs that no tag needs and that are older than the grace period; a
/// call after the grace period deletes them, if still nobody needs them. So publishers and readers that are
/// at work are not disturbed, and the same command once in a while keeps a store small. A version
/// stays while it has a tag: `lanefs remote tag` gives it one.
#[derive(Debug, Args)]
pub(super) struct Prune {
    /// The store
    #[arg(value_name = "URL", value_parser = StoreParser)]
    at: Location,
    /// Grace period: 30m, 12h, 14d, 2w; 15m at least. 0 deletes at once: nobody else may use the store then
    #[arg(long, value_name = "TIME", default_value = "2w", value_parser = grace)]
    grace: u64,
    /// Keep this many of the newest versions of each volume without a tag
    #[arg(long, value_name = "COUNT", default_value_t = 0)]
    keep: usize,
    /// Write and delete nothing, and tell what would be done
    #[arg(long)]
    dry_run: bool,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

impl Prune {
    /// Prunes the store.
    pub(super) fn execute(&self) -> Outcome {
        let store = publication::store(&self.at, !self.dry_run)?;
        let options = PruneOptions { grace: self.grace, keep: self.keep, dry_run: self.dry_run };
        let report = with_progress("pruning", |update| prune(store, &options, update));
        self.print(&report.map_err(|error| failure(&error))?)
    }

    fn print(&self, report: &PruneReport) -> Outcome {
        let mut out = console::output();
        if self.json {
            let object = serde_json::json!({
                "deleted": as_json(report.deleted),
                "condemned": as_json(report.condemned),
                "kept": as_json(report.kept),
                "due": report.due,
                "dry_run": self.dry_run,
            });
            writeln!(out, "{}", json::text(&object))?;
            return Ok(out.flush()?);
        }
        let would = if self.dry_run { "would be " } else { "" };
        if report.deleted != Tally::default() {
            writeln!(out, "{would}deleted: {}", as_text(report.deleted))?;
        }
        if let Some(due) = report.due {
            let due = time::short(Time::from_parts(due, 0));
            writeln!(out, "{would}condemned: {}; to be deleted from {due} on", as_text(report.condemned))?;
        }
        writeln!(out, "{would}kept: {}", as_text(report.kept))?;
        Ok(out.flush()?)
    }
}

fn grace(text: &str) -> Result<u64, String> {
    match time::parse_duration(text)? {
        seconds @ 1..MIN_GRACE => Err(format!("{seconds}s is too short; give 15m at least, or 0")),
        seconds => Ok(seconds),
    }
}

fn as_text(tally: Tally) -> String {
    let versions = counted(tally.versions, "version", "versions");
    format!("{versions}, {}, {}B", counted(tally.packs, "pack", "packs"), human(tally.bytes))
}

fn as_json(tally: Tally) -> serde_json::Value {
    serde_json::json!({ "versions": tally.versions, "packs": tally.packs, "bytes": tally.bytes })
}

fn failure(error: &Error) -> Failure {
    if let Error::Interrupted = error {
        console::say("interrupted; the next prune continues from here");
    }
    publication::failure(error)
}
