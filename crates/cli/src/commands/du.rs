//! `lanefs du`.

use crate::ahead::Ahead;
use crate::bytes;
use crate::cli::Run;
use crate::context::{Context, json_name};
use crate::engine::EngineArgs;
use crate::escape::escape_into;
use crate::exit::Outcome;
use crate::progress::Progress;
use crate::size::human;
use crate::walk::{Visit, Walk, WalkOptions};
use clap::Args;
use lanefs::FileKind;
use std::collections::HashSet;
use std::ffi::OsString;
use std::io::Write;

/// Show the space that directories take
///
/// One line a directory, the deepest first: the space of all below it in KiB, a tab, the path (escaped). A file with
/// several names counts once.
#[derive(Debug, Args)]
#[command(
    disable_help_flag = true,
    after_help = "Examples:
  lanefs du v.lane -s -h /usr /etc
  lanefs du v.lane -d 1 | sort -n
  lanefs du v.lane -s --engine gpu"
)]
pub struct Du {
    /// Only the total of each PATH
    #[arg(short, long, conflicts_with = "max_depth")]
    summarize: bool,
    /// Sizes like 1.5K and 8.0G
    #[arg(short = 'h', long)]
    human_readable: bool,
    /// Show directories down to this depth only; all are counted
    #[arg(short = 'd', long, value_name = "DEPTH")]
    max_depth: Option<usize>,
    /// Show files too
    #[arg(short, long)]
    all: bool,
    /// Sizes in bytes as `ls` shows them, instead of the space taken
    #[arg(short = 'b', long)]
    bytes: bool,
    /// A last line with the sum of all PATHs
    #[arg(short = 'c', long)]
    total: bool,
    /// Print help
    #[arg(long, action = clap::ArgAction::Help)]
    help: Option<bool>,
    /// One JSON object a line: bytes, path
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    engine: EngineArgs,
    /// Where to start; the root directory (in a shell: the working directory) without it
    #[arg(value_name = "PATH")]
    paths: Vec<OsString>,
}

impl Run for Du {
    fn run(&self, context: &mut Context<'_>) -> Outcome {
        let here = [OsString::from(".")];
        let paths = if self.paths.is_empty() { &here[..] } else { &self.paths };
        let mut counted = HashSet::new();
        let mut total = 0u64;
        let mut progress = Progress::beside_output("counted");
        for path in paths {
            let outcome = self.count(context, bytes::of(path), &mut counted, &mut progress);
            let outcome = outcome.map(|sum| total = total.saturating_add(sum));
            context.go_on(outcome)?;
        }
        if self.total {
            self.line(context, total, b"total")?;
        }
        Ok(())
    }
}

impl Du {
    fn count(
        &self,
        context: &mut Context<'_>,
        path: &[u8],
        counted: &mut HashSet<lanefs::Ino>,
        progress: &mut Progress,
    ) -> Result<u64, crate::exit::Failure> {
        let start = context.resolve(path, false)?;
        let shown_depth = if self.summarize { 0 } else { self.max_depth.unwrap_or(usize::MAX) };
        let ahead = match start.kind {
            FileKind::Directory => Ahead::load(&self.engine, context, &[start.ino], None, true)?,
            _ => Ahead::default(),
        };
        let walk = Walk::new(context.volume, path, start.ino, start.kind, WalkOptions::default());
        let mut walk = walk.with(ahead);
        // The sums of the directories that are open, the outermost first.
        let mut sums: Vec<u64> = Vec::new();
        let mut whole = 0;
        while let Some(step) = walk.next() {
            let step = match step {
                Ok(step) => step,
                Err(failure) => {
                    context.go_on(Err(failure))?;
                    continue;
                }
            };
            crate::interrupt::check()?;
            // What a directory that cannot be entered left behind counts for the one above it.
            while sums.len() > step.depth + usize::from(step.visit == Visit::Leave) {
                fold(&mut sums, &mut whole);
            }
            if step.visit == Visit::Leave {
                let sum = sums.last().copied().unwrap_or(0);
                if step.depth <= shown_depth {
                    self.line(context, sum, walk.path())?;
                }
                continue;
            }
            progress.tick();
            let attr = walk.attr(step.ino).map_or_else(|| context.attr(walk.path(), step.ino), Ok);
            let mut own = match attr {
                Ok(attr)
                    if attr.kind != FileKind::Directory && attr.links > 1 && !counted.insert(attr.ino) =>
                {
                    continue;
                }
                Ok(attr) if self.bytes => attr.size,
                Ok(attr) => attr.blocks.saturating_mul(lanefs::format::BLOCK),
                Err(failure) => {
                    context.go_on(Err(failure))?;
                    0
                }
            };
            if step.kind == FileKind::Directory {
                sums.push(own);
                continue;
            }
            if step.depth == 0 || self.all && step.depth <= shown_depth {
                self.line(context, own, walk.path())?;
            }
            let sum = sums.last_mut().unwrap_or(&mut whole);
            own = own.saturating_add(*sum);
            *sum = own;
        }
        while !sums.is_empty() {
            fold(&mut sums, &mut whole);
        }
        Ok(whole)
    }

    fn line(&self, context: &mut Context<'_>, bytes: u64, path: &[u8]) -> Outcome {
        if self.json {
            let mut object = serde_json::Map::new();
            object.insert("bytes".to_string(), bytes.into());
            json_name(&mut object, "path", path);
            return Ok(writeln!(context.out, "{}", serde_json::Value::Object(object))?);
        }
        let number = match () {
            () if self.human_readable => human(bytes),
            () if self.bytes => bytes.to_string(),
            () => bytes.div_ceil(1024).to_string(),
        };
        let mut line = number.into_bytes();
        line.push(b'\t');
        escape_into(&mut line, path);
        line.push(b'\n');
        Ok(context.out.write_all(&line)?)
    }
}

/// Adds the innermost sum to the one above it.
fn fold(sums: &mut Vec<u64>, whole: &mut u64) {
    if let Some(sum) = sums.pop() {
        let above = sums.last_mut().unwrap_or(whole);
        *above = above.saturating_add(sum);
    }
}
