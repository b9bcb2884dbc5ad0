//! `lanefs fsck`, with the exit codes of e2fsck.

use crate::cli::Run;
use crate::context::{Context, say};
use crate::escape::escape;
use crate::exit::{Failure, Outcome};
use crate::image::Image;
use crate::progress::Progress;
use crate::{interrupt, mounting};
use clap::Args;
use lanefs::{Access, CheckReport, Volume};
use std::io::Write;
use std::sync::Mutex;

/// Errors were corrected.
const CORRECTED: u8 = 1;
/// Errors are left.
const LEFT: u8 = 4;
/// The check could not be done.
const OPERATIONAL: u8 = 8;
/// The command line makes no sense.
pub const USAGE: u8 = 16;
/// Stopped by the user.
const CANCELLED: u8 = 32;

/// Check a volume, and repair it on request
///
/// Checks every invariant of the format: that all is reachable, link counts, bitmaps, no block owned twice, the order
/// of lists and trees, region counts and indexes, checksums, the bounds of file maps. Without --repair nothing is
/// changed.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  lanefs fsck v.lane
  lanefs fsck v.lane --repair
  lanefs fsck v.lane --json | jq '.findings[].invariant'

Exit codes: 0 clean, 1 errors corrected, 4 errors left, 8 operational error, 16 usage error, 32 interrupted.")]
pub struct Fsck {
    /// Mend what is wrong; what has lost its name goes to lost+found
    #[arg(long, short)]
    repair: bool,
    /// One JSON object
    #[arg(long)]
    json: bool,
}

impl Fsck {
    /// The one-shot command: opens the image, checks it and closes it. Returns the exit code.
    pub fn run_on(&self, image: &Image) -> u8 {
        let access = if self.repair { Access::Repair } else { Access::Read };
        let volume = match image.open(access) {
            Ok(volume) => volume,
            Err(_) if mounting::is_mounted(image) => return told(&mounting::in_use(image)),
            Err(failure) => return told(&failure),
        };
        let mut context = Context::new(&volume, image);
        let outcome = self.run(&mut context);
        let status = context.finish(outcome);
        drop(context);
        match crate::run::close(image, volume, access) {
            0 => status,
            _ => status.max(OPERATIONAL),
        }
    }

    fn check(&self, volume: &Volume) -> lanefs::Result<CheckReport> {
        let progress = Mutex::new(Progress::new("checking"));
        volume.check(self.repair, &|done, total| {
            if interrupt::raised() && !self.repair {
                // The check has no other way to stop. Nothing was changed, so nothing needs to be put in order.
                if let Ok(mut progress) = progress.lock() {
                    *progress = Progress::new("");
                }
                std::process::exit(i32::from(CANCELLED));
            }
            // A thread that finds the bar in use leaves it to the other.
            if let Ok(mut progress) = progress.try_lock() {
                progress.set(done, total);
            }
        })
    }

    fn print(&self, context: &mut Context<'_>, report: &CheckReport) -> Outcome {
        let left = report.findings.iter().filter(|finding| !finding.repaired).count();
        let corrected = report.findings.len() - left;
        let out = &mut context.out;
        if self.json {
            let findings: Vec<serde_json::Value> = report
                .findings
                .iter()
                .map(|f| serde_json::json!({"at": f.at, "invariant": f.invariant, "text": f.text, "repaired": f.repaired}))
                .collect();
            let object = serde_json::json!({
                "clean": report.findings.is_empty(),
                "corrected": corrected,
                "left": left,
                "inodes": report.inodes,
                "directories": report.directories,
                "blocks": report.blocks,
                "findings": findings,
            });
            return Ok(writeln!(out, "{object}")?);
        }
        for finding in &report.findings {
            let done = if finding.repaired { " (repaired)" } else { "" };
            writeln!(
                out,
                "{:#x}: {}: {}{done}",
                finding.at,
                finding.invariant,
                escape(finding.text.as_bytes())
            )?;
        }
        let verdict = match (corrected, left) {
            (0, 0) => "clean".to_string(),
            (n, 0) => format!("{n} errors corrected"),
            (0, n) => format!("{n} errors left; run `lanefs fsck --repair`"),
            (n, m) => format!("{n} errors corrected, {m} left; run `lanefs fsck --repair` again"),
        };
        let (inodes, directories, blocks) = (report.inodes, report.directories, report.blocks);
        Ok(writeln!(
            out,
            "{verdict}: {inodes} inodes, {directories} of them directories, {blocks} blocks in use"
        )?)
    }
}

impl Run for Fsck {
    fn changes(&self) -> bool {
        self.repair
    }

    fn run(&self, context: &mut Context<'_>) -> Outcome {
        let report = match self.check(context.volume) {
            Ok(report) => report,
            Err(error) => {
                context.status = context.status.max(told(&Failure::volume("fsck", &error)));
                return Ok(());
            }
        };
        let status =
            match (report.findings.is_empty(), report.findings.iter().all(|finding| finding.repaired)) {
                (true, _) => 0,
                (_, true) => CORRECTED,
                _ => LEFT,
            };
        context.status = context.status.max(status);
        if interrupt::raised() {
            context.status = context.status.max(CANCELLED);
        }
        match self.print(context, &report) {
            Err(Failure::Message { text, .. }) => {
                say(&text);
                context.status = context.status.max(OPERATIONAL);
                Ok(())
            }
            other => other,
        }
    }
}

/// Tells of what kept the check from being done.
fn told(failure: &Failure) -> u8 {
    match failure {
        Failure::Message { text, .. } => {
            say(text);
            OPERATIONAL
        }
        Failure::BrokenPipe => 0,
        Failure::Interrupted => CANCELLED,
    }
}
