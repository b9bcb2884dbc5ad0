//! `lanefs fsck`, with the exit codes of e2fsck.

use crate::session::command::Command;
use crate::session::context::Context;
use crate::session::image::{self, Image};
use crate::session::mounted;
use crate::terminal::exit::fsck::{CANCELLED, CORRECTED, LEFT, OPERATIONAL};
use crate::terminal::failure::{Failure, Outcome};
use crate::terminal::progress::Progress;
use crate::terminal::{exit, interrupt};
use crate::text::count::counted;
use crate::text::escape::escape;
use crate::text::{json, size};
use clap::Args;
use lanefs::{Access, CheckOptions, CheckReport, Volume};
use parking_lot::Mutex;
use std::io::Write;

/// Check a volume, and repair it on request
///
/// Checks every invariant of the format: reachability, link counts, bitmaps, blocks with two owners, the
/// order of lists and trees, region counts and indexes, checksums, the bounds of file maps. Changes no byte
/// without --repair: the journal of a volume that was not closed is applied in memory.
#[derive(Debug, Args)]
#[command(after_help = after_help())]
pub struct Fsck {
    /// Repair errors; files without a name go to lost+found
    #[arg(long, short)]
    repair: bool,
    /// Memory for the check, such as 256M [default: a quarter of the machine's memory for blocks, and 1G for
    /// counts of names]
    ///
    /// Half of it is for blocks, a quarter for counts of names. The tables beside it take a byte for each
    /// inode, 20 for each directory, and a bit for each block in use.
    #[arg(long, value_name = "SIZE", allow_negative_numbers = true, value_parser = size::parse_size)]
    memory: Option<u64>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

fn after_help() -> String {
    format!(
        "Examples:
  lanefs fsck v.lane
  lanefs fsck v.lane --repair
  lanefs fsck v.lane --memory 256M
  lanefs fsck v.lane --json | jq '.findings[].invariant'

Exit codes: {}.",
        exit::fsck::list()
    )
}

impl Fsck {
    /// Executes the one-shot command: opens the image, checks it and closes it. Returns the exit code.
    pub fn execute_on(&self, image: &Image) -> u8 {
        let access = if self.repair { Access::Repair } else { Access::Read };
        // The option for the cache itself came first, where it was given.
        self.memory.into_iter().for_each(|memory| image::set_cache(memory / 2));
        let volume = match image.open(access) {
            Ok(volume) => volume,
            Err(failure) => {
                let mount = mounted::in_place_of(image, failure);
                return report(&mount.map_or_else(|failure| failure, |_| mounted::in_use(image)));
            }
        };
        interrupt::wait_for_commands();
        let mut context = Context::new(&volume, image);
        let outcome = self.execute(&mut context);
        let status = context.finish(outcome);
        drop(context);
        match image.close(volume, access) {
            exit::OK => status,
            _ => status.max(OPERATIONAL),
        }
    }

    fn check(&self, volume: &Volume) -> lanefs::Result<CheckReport> {
        let bar = Mutex::new(Progress::new("checking"));
        let progress = |done, total| {
            if interrupt::raised() {
                // Neither has another way to stop. A check changed nothing, and each commit of a repair
                // leaves the volume as it was or repaired so far.
                *bar.lock() = Progress::new("");
                std::process::exit(i32::from(CANCELLED));
            }
            // If another thread is drawing, this update is skipped.
            if let Some(mut bar) = bar.try_lock() {
                bar.set(done, total);
            }
        };
        let (repair, memory) = (self.repair, self.memory);
        volume.check_with(&CheckOptions { repair, memory, threads: 0, progress: &progress })
    }

    fn print(&self, context: &mut Context<'_>, report: &CheckReport) -> Outcome {
        let out = &mut context.out;
        if self.json {
            return Ok(writeln!(out, "{}", json::text(&as_json(report)))?);
        }
        for finding in &report.findings {
            let (at, invariant, text) = (finding.at, finding.invariant, escape(finding.text.as_bytes()));
            let repaired = if finding.repaired { " (repaired)" } else { "" };
            writeln!(out, "{at:#x}: {invariant}: {text}{repaired}")?;
        }
        for note in &report.notes {
            writeln!(out, "note: {}", escape(note.as_bytes()))?;
        }
        for obstacle in &report.obstacles {
            writeln!(out, "not repaired: {}", escape(obstacle.as_bytes()))?;
        }
        let errors = |count| counted(count, "error", "errors");
        let verdict = match corrected_and_left(report) {
            (0, 0) => "clean".to_string(),
            (n, 0) => format!("{} corrected", errors(n)),
            (0, n) if report.obstacles.is_empty() => {
                format!("{} left; run `lanefs fsck --repair`", errors(n))
            }
            (n, m) if report.obstacles.is_empty() => {
                format!("{} corrected, {m} left; run `lanefs fsck --repair` again", errors(n))
            }
            (n, m) => format!("{} corrected, {m} left; do what is said above, then run it again", errors(n)),
        };
        let (inodes, directories, blocks) = (report.inodes, report.directories, report.blocks);
        let counts = format!(
            "{}, {directories} of them directories, {} in use",
            counted(inodes, "inode", "inodes"),
            counted(blocks, "block", "blocks")
        );
        Ok(writeln!(out, "{verdict}: {counts}")?)
    }
}

/// Numbers of errors that were corrected and that are left.
fn corrected_and_left(report: &CheckReport) -> (usize, usize) {
    let corrected = report.findings.iter().filter(|finding| finding.repaired).count();
    (corrected, report.findings.len() - corrected)
}

fn as_json(report: &CheckReport) -> serde_json::Value {
    let (corrected, left) = corrected_and_left(report);
    let findings = report.findings.iter().map(
        |f| serde_json::json!({"at": f.at, "invariant": f.invariant, "text": f.text, "repaired": f.repaired}),
    );
    serde_json::json!({
        "clean": report.findings.is_empty(),
        "corrected": corrected,
        "left": left,
        "inodes": report.inodes,
        "directories": report.directories,
        "blocks": report.blocks,
        "findings": findings.collect::<Vec<_>>(),
        "obstacles": report.obstacles,
        "notes": report.notes,
    })
}

impl Command for Fsck {
    fn changes(&self) -> bool {
        self.repair
    }

    fn execute(&self, context: &mut Context<'_>) -> Outcome {
        let checked = match self.check(context.volume) {
            Ok(checked) => checked,
            Err(error) => {
                context.raise_status(report(&Failure::volume("fsck", &error)));
                return Ok(());
            }
        };
        context.raise_status(match corrected_and_left(&checked) {
            (0, 0) => exit::OK,
            (_, 0) => CORRECTED,
            _ => LEFT,
        });
        if interrupt::raised() {
            context.raise_status(CANCELLED);
        }
        match self.print(context, &checked) {
            Err(failure @ Failure::Message { .. }) => {
                context.raise_status(report(&failure));
                Ok(())
            }
            other => other,
        }
    }
}

/// Prints a failure that prevented the check, and returns its exit code.
fn report(failure: &Failure) -> u8 {
    failure.print();
    match failure {
        Failure::Message { .. } => OPERATIONAL,
        Failure::BrokenPipe => exit::OK,
        Failure::Interrupted => CANCELLED,
    }
}
