//! `lanefs join`.

use crate::session::publication::{self, LocationParser};
use crate::session::receipts;
use crate::terminal::console;
use crate::terminal::failure::{Failure, Outcome};
use crate::terminal::progress::with_progress;
use crate::text::escape::escape;
use crate::text::json;
use crate::text::size::human;
use clap::Args;
use lanefs_publish::{Error, JoinOptions, JoinReport, Location, Receipt, Reference, join};
use std::io::Write;
use std::path::PathBuf;

/// Join volumes that many machines have published into one volume
///
/// Each of them, a shard, was published to the store at URL by `lanefs publish --prefix`, which gave a
/// receipt for it. The join has each shard at its prefix, copies nothing, and is the volume that the tag
/// names then (after #; `latest` by default). A receipt replaces the shard with the same prefix; other
/// shards of the tag stay. All shards are volumes of one family (`lanefs mkfs --family NAME`). The same
/// receipts make the same version, so a command that was cut off is given again.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  lanefs mkfs part.lane --size 64M --family photos
  lanefs publish part.lane file:///srv/joined --prefix /2026/05 --receipt 05.json
  lanefs join file:///srv/joined 05.json
  lanefs ls file:///srv/joined /2026
  cat *.json | lanefs join file:///srv/joined -
  lanefs join file:///srv/joined --remove /2026/05 04.json --dry-run")]
pub struct JoinShards {
    /// The store, and a tag: file:///DIRECTORY[#TAG], s3://BUCKET/FOLDER[#TAG], gs://... or az://...
    #[arg(value_name = "URL", value_parser = LocationParser)]
    to: Location,
    /// Files with receipts, one a line; - for standard input
    #[arg(value_name = "RECEIPT")]
    receipts: Vec<PathBuf>,
    /// Take the shard with this prefix out of the join, if it has one
    #[arg(long, value_name = "PREFIX")]
    remove: Vec<String>,
    /// Take all shards out that have no receipt
    #[arg(long)]
    only: bool,
    /// Write nothing, and tell what would be written
    #[arg(long)]
    dry_run: bool,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

impl JoinShards {
    /// Makes the join.
    ///
    /// # Errors
    /// A file with receipts; shards that do not go together; the store's; another publisher was faster.
    pub fn execute(&self) -> Outcome {
        let Reference::Tag(tag) = self.to.reference() else {
            let advice = "name a tag after #, as in #latest";
            return Err(Failure::usage(self.to.to_string(), "a version does not change", advice));
        };
        if self.receipts.is_empty() && self.remove.is_empty() {
            let advice = "give the files that `lanefs publish --prefix` wrote";
            return Err(Failure::usage(self.to.to_string(), "no receipt", advice));
        }
        let read: Result<Vec<Vec<Receipt>>, Failure> =
            self.receipts.iter().map(|path| receipts::read(path)).collect();
        let receipts = read?.concat();
        let store = publication::store(&self.to, true)?;
        let remove = self.remove.iter().map(|prefix| prefix.as_bytes().to_vec()).collect();
        let (only, dry_run) = (self.only, self.dry_run);
        let options = JoinOptions { remove, only, dry_run, ..JoinOptions::default() };
        let joined = with_progress("joining", |update| join(store, tag, &receipts, &options, update));
        let report = joined.map_err(|error| self.failure(&error))?;
        for prefix in &report.absent {
            console::say(&format!("{}: the join has no shard to remove there", escape(prefix)));
        }
        self.print(&report)
    }

    fn failure(&self, error: &Error) -> Failure {
        if let Error::Interrupted = error
            && !self.dry_run
        {
            console::say("interrupted; the tag is as it was, and the same command again makes the join");
        }
        publication::failure(error)
    }

    fn print(&self, report: &JoinReport) -> Outcome {
        let mut out = console::output();
        let JoinReport { version, shards, added, replaced, removed, written_bytes, .. } = report;
        if self.json {
            let object = serde_json::json!({
                "url": self.to.to_string(),
                "version": version.to_string(),
                "previous": report.previous.map(|version| version.to_string()),
                "dry_run": self.dry_run,
                "uuid": uuid::Uuid::from_bytes(report.facts.uuid).to_string(),
                "bytes": report.facts.volume_bytes,
                "blocks": report.facts.blocks,
                "shards": shards,
                "added": added,
                "replaced": replaced,
                "removed": removed,
                "written_bytes": written_bytes,
            });
            return Ok(writeln!(out, "{}", json::text(&object))?);
        }
        let done = match (report.previous == Some(*version), self.dry_run) {
            (true, _) => "is there already",
            (false, true) => "would be made",
            (false, false) => "made",
        };
        writeln!(out, "{}: join {version} {done}", self.to)?;
        let noun = if *shards == 1 { "shard" } else { "shards" };
        writeln!(out, "{shards} {noun}: {added} added, {replaced} replaced, {removed} removed")?;
        let would = if self.dry_run { "would be " } else { "" };
        Ok(writeln!(out, "{would}written: {} ({written_bytes} bytes)", human(*written_bytes))?)
    }
}
