//! `lanefs du`.

use crate::common::engine::{EngineArgs, Prefetched};
use crate::common::usage::{Usage, allocated};
use crate::common::walk::{Visit, Walk, WalkOptions};
use crate::session::command::Command;
use crate::session::context::Context;
use crate::terminal::failure::{Failure, Outcome};
use crate::terminal::progress::Progress;
use crate::text::escape::escape_into;
use crate::text::size::human;
use crate::text::{bytes, json};
use clap::Args;
use lanefs::{Attr, FileKind};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::ffi::OsString;
use std::io::Write;

/// Show the space that directories take
///
/// Prints one line per directory, the deepest first: the space of all files below it in KiB, a tab, the path
/// (escaped). A file with several names counts once.
#[derive(Debug, Args)]
#[command(
    disable_help_flag = true,
    after_help = "Examples:
  lanefs du v.lane -s -h /usr /etc
  lanefs du v.lane -d 1 | sort -n
  lanefs du v.lane --top 20 -a -h         the largest directories and files
  lanefs du v.lane -s --engine gpu"
)]
pub struct Du {
    /// Print only the total of each PATH
    #[arg(short, long, conflicts_with = "max_depth")]
    summarize: bool,
    /// Print sizes like 1.5K and 8.0G
    #[arg(short = 'h', long)]
    human_readable: bool,
    /// Print directories down to this depth only; deeper ones are counted
    #[arg(short = 'd', long, value_name = "DEPTH")]
    max_depth: Option<usize>,
    /// Print files too
    #[arg(short, long)]
    all: bool,
    /// Print the COUNT largest directories only (with -a, files too), the largest first
    #[arg(long, value_name = "COUNT", conflicts_with = "summarize")]
    top: Option<usize>,
    /// Count file sizes in bytes, as `ls` shows them, instead of the space taken
    #[arg(short = 'b', long)]
    bytes: bool,
    /// Print a last line with the sum of all PATHs
    #[arg(short = 'c', long)]
    total: bool,
    /// Print help
    #[arg(long, action = clap::ArgAction::Help)]
    help: Option<bool>,
    /// Print one JSON object per line: bytes, path
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    engine: EngineArgs,
    /// Directories to start at [default: the root directory; in a shell the working directory]
    #[arg(value_name = "PATH")]
    paths: Vec<OsString>,
}

impl Command for Du {
    fn execute(&self, context: &mut Context<'_>) -> Outcome {
        let mut usage = Usage::default();
        let mut total = 0u64;
        let mut lines = Lines { limit: self.top, largest: BinaryHeap::new() };
        let mut progress = Progress::beside_output("counted");
        for path in bytes::or_here(&self.paths) {
            let outcome = self.count(context, path, &mut usage, &mut lines, &mut progress);
            let outcome = outcome.map(|sum| total = total.saturating_add(sum));
            context.go_on(outcome)?;
        }
        for (bytes, path) in lines.into_sorted() {
            self.print(context, bytes, &path)?;
        }
        if self.total {
            self.print(context, total, b"total")?;
        }
        Ok(())
    }
}

/// Sums of the directories that the walk is inside, the outermost first.
#[derive(Default)]
struct Sums {
    open: Vec<u64>,
    total: u64,
}

impl Sums {
    /// Adds bytes to the innermost directory, or to the total outside of all directories.
    fn add(&mut self, bytes: u64) {
        let sum = self.open.last_mut().unwrap_or(&mut self.total);
        *sum = sum.saturating_add(bytes);
    }

    /// Closes directories until `depth` are open; each sum is added to the directory above.
    fn close_to(&mut self, depth: usize) {
        while self.open.len() > depth
            && let Some(sum) = self.open.pop()
        {
            self.add(sum);
        }
    }
}

/// The lines of the result: each one at once, or the largest at the end.
struct Lines {
    limit: Option<usize>,
    /// The least one on top; of the same size the one that would be printed last.
    largest: BinaryHeap<Reverse<(u64, Reverse<Vec<u8>>)>>,
}

impl Lines {
    /// Keeps a line, if it is one of the largest. False if it is to be printed at once.
    fn keep(&mut self, bytes: u64, path: &[u8]) -> bool {
        let Some(limit) = self.limit else { return false };
        if self.largest.len() < limit {
            self.largest.push(Reverse((bytes, Reverse(path.to_vec()))));
        } else if let Some(mut least) = self.largest.peek_mut()
            && (bytes > least.0.0 || bytes == least.0.0 && path < &least.0.1.0[..])
        {
            *least = Reverse((bytes, Reverse(path.to_vec())));
        }
        true
    }

    /// The lines that were kept, the largest first.
    fn into_sorted(self) -> impl Iterator<Item = (u64, Vec<u8>)> {
        self.largest.into_sorted_vec().into_iter().map(|Reverse((bytes, Reverse(path)))| (bytes, path))
    }
}

impl Du {
    /// Prints the directories below `path` and returns their sum.
    fn count(
        &self,
        context: &mut Context<'_>,
        path: &[u8],
        usage: &mut Usage,
        lines: &mut Lines,
        progress: &mut Progress,
    ) -> Result<u64, Failure> {
        let start = context.resolve(path, false)?;
        let shown_depth = if self.summarize { 0 } else { self.max_depth.unwrap_or(usize::MAX) };
        let prefetched = match start.kind {
            FileKind::Directory => Prefetched::load(&self.engine, context, &[start.ino], None, true)?,
            _ => Prefetched::default(),
        };
        let walk = Walk::new(context.volume, path, start.ino, start.kind, WalkOptions::default());
        let mut walk = walk.with(prefetched);
        let mut sums = Sums::default();
        let measure = if self.bytes { |attr: &Attr| attr.size } else { allocated };
        while let Some(step) = walk.advance(context)? {
            // A directory that could not be entered has no `Leave`; its sum goes to the directory above.
            sums.close_to(step.depth + usize::from(step.visit == Visit::Leave));
            if step.visit == Visit::Leave {
                if step.depth <= shown_depth {
                    self.line(context, sums.open.last().copied().unwrap_or(0), walk.path(), lines)?;
                }
                continue;
            }
            progress.tick();
            let Some(own) = usage.own_bytes(context, &walk, step, measure)? else { continue };
            if step.kind == FileKind::Directory {
                sums.open.push(own);
                continue;
            }
            if step.depth == 0 || self.all && step.depth <= shown_depth {
                self.line(context, own, walk.path(), lines)?;
            }
            sums.add(own);
        }
        sums.close_to(0);
        Ok(sums.total)
    }

    /// Prints a line, or keeps it for the end.
    fn line(&self, context: &mut Context<'_>, bytes: u64, path: &[u8], lines: &mut Lines) -> Outcome {
        if lines.keep(bytes, path) { Ok(()) } else { self.print(context, bytes, path) }
    }

    fn print(&self, context: &mut Context<'_>, bytes: u64, path: &[u8]) -> Outcome {
        if self.json {
            let mut object = serde_json::Map::new();
            object.insert("bytes".to_string(), bytes.into());
            json::add_name(&mut object, "path", path);
            return Ok(writeln!(context.out, "{}", json::text(&object))?);
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
