//! `lanefs scrub`.

use crate::session::command::Command;
use crate::session::context::Context;
use crate::terminal::failure::{Failure, Outcome};
use crate::terminal::progress::Progress;
use crate::terminal::{exit, interrupt};
use crate::text::escape::escape;
use crate::text::json;
use clap::Args;
use lanefs::{ScrubReport, WrongBlock, WrongContent};
use std::io::Write;

/// Read all used blocks and verify their checksums
///
/// Reads the device in its order, with idle priority, and compares metadata and file data with their
/// checksums. Changes nothing. A mounted volume is scrubbed by its server while it is in use. Each wrong
/// block is a line: its position, and the file with the offset.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  lanefs scrub v.lane
  lanefs scrub /dev/sdx1 --from 68719476736
  lanefs scrub v.lane --json | jq -r '.wrong[].path'

Ctrl-C stops a scrub, and so do 100,000 wrong blocks; it then prints the position to continue --from.
The exit code is 3 if a block is wrong: restore its file from a copy, or run `lanefs fsck --repair` for
metadata.")]
pub struct Scrub {
    /// Begin at this position, in bytes, rounded down to 2 MiB
    #[arg(long, value_name = "POSITION", default_value_t = 0)]
    from: u64,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

impl Command for Scrub {
    fn execute(&self, context: &mut Context<'_>) -> Outcome {
        let mut progress = Progress::new("scrubbing");
        let report = context.volume.scrub(self.from, &mut |at, total| {
            progress.set(at, total);
            !interrupt::raised()
        });
        drop(progress);
        let report = report.map_err(|error| Failure::volume("scrub", &error))?;
        self.print(context, &report)?;
        if !report.wrong.is_empty() {
            context.raise_status(exit::IMAGE);
        }
        // A scrub also stops where too much is wrong, which its exit code says.
        if report.next.is_some() && (interrupt::raised() || report.wrong.is_empty()) {
            return Err(Failure::Interrupted);
        }
        Ok(())
    }
}

impl Scrub {
    fn print(&self, context: &mut Context<'_>, report: &ScrubReport) -> Outcome {
        let out = &mut context.out;
        if self.json {
            return Ok(writeln!(out, "{}", json::text(&as_json(report)))?);
        }
        for block in &report.wrong {
            writeln!(out, "{:#x}: {}", block.at, content(block))?;
        }
        let ScrubReport { data, without, metadata, .. } = report;
        writeln!(
            out,
            "{} wrong: {data} blocks of data and {metadata} of metadata verified, {without} without a checksum",
            report.wrong.len()
        )?;
        if let Some(next) = report.next {
            writeln!(out, "stopped; continue with --from {next}")?;
        }
        Ok(())
    }
}

fn content(block: &WrongBlock) -> String {
    match &block.content {
        WrongContent::Metadata(kind) => format!("metadata ({kind:?})"),
        WrongContent::Data { path: Some(path), offset, .. } => format!("{}, offset {offset}", escape(path)),
        WrongContent::Data { ino, offset, path: None } => format!("inode {}, offset {offset}", ino.0),
    }
}

fn as_json(report: &ScrubReport) -> serde_json::Value {
    let wrong = report.wrong.iter().map(|block| match &block.content {
        WrongContent::Metadata(kind) => serde_json::json!({"at": block.at, "metadata": format!("{kind:?}")}),
        WrongContent::Data { ino, offset, path } => serde_json::json!({
            "at": block.at,
            "inode": ino.0,
            "offset": offset,
            "path": path.as_ref().map(|path| String::from_utf8_lossy(path)),
        }),
    });
    serde_json::json!({
        "data": report.data,
        "without": report.without,
        "metadata": report.metadata,
        "next": report.next,
        "wrong": wrong.collect::<Vec<_>>(),
    })
}
