//! `lanefs lookup`.

mod format;
mod pipeline;
mod totals;

use crate::common::engine::EngineArgs;
use crate::session::command::Command;
use crate::session::context::{Context, OWNER};
use crate::terminal::failure::{Failure, Outcome};
use crate::terminal::input::Input;
use crate::terminal::{console, exit, interrupt};
use crate::text::bytes;
use clap::Args;
use format::LineFormat;
use lanefs::{Code, ResolveOptions};
use lanefs_gpu::Engines;
use pipeline::{PathInput, Pipeline};
use std::ffi::OsString;
use std::io::{Cursor, ErrorKind, Read, Write};
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;
use totals::LookupTotals;

/// Largest number of threads.
const MAX_THREADS: i64 = 1024;

/// Bytes of a path of usual length, with its delimiter.
const USUAL_PATH_BYTES: u64 = 48;

/// Resolve many paths at once
///
/// Prints one line for each path, in the order of the input: result code, inode, type, size, path, separated
/// by tabs. --stat adds octal mode, links, uid, gid and mtime (seconds since 1970 with nine decimals) before
/// the path. `-` stands for a column that an error leaves empty. The rate goes to standard error.
#[derive(Debug, Args)]
#[command(after_help = after_help())]
pub struct Lookup {
    /// Read paths from FILE, one per line; `-` is standard input. They precede those of the command line
    #[arg(long, value_name = "FILE")]
    paths: Option<OsString>,
    /// Paths of the input end with NUL instead of a newline
    #[arg(short = '0', long, requires = "paths")]
    null: bool,
    #[command(flatten)]
    engine: EngineArgs,
    /// Add mode, links, uid, gid and mtime
    #[arg(long)]
    stat: bool,
    /// Do not follow a symbolic link in the last component
    #[arg(long)]
    no_follow: bool,
    /// Print one JSON object per line
    #[arg(long)]
    json: bool,
    /// Number of threads [default: one per CPU]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=MAX_THREADS))]
    threads: Option<u16>,
    /// Do not print the rate
    #[arg(long, short)]
    quiet: bool,
    /// Say why the engine is the one that the rate names
    #[arg(long, short)]
    verbose: bool,
    /// Paths to resolve
    #[arg(value_name = "PATH", required_unless_present = "paths")]
    more: Vec<OsString>,
}

fn after_help() -> String {
    format!(
        "Result codes: {} success, {} not found, {} a component of the path not found, {} not a directory;
docs/cli.md lists all.

Examples:
  lanefs lookup v.lane /etc/passwd /etc/nothing
  find /share | lanefs lookup v.lane --paths - --stat --no-follow
  lanefs lookup v.lane --paths manifest.txt | grep -v '^0'     missing paths
  find /share -print0 | lanefs lookup v.lane -0 --paths - --no-follow --json > answers

Exit codes: {} all paths were found, {} some were not, {} wrong usage, {} the volume is damaged,
{} input or output failed, {} interrupted.",
        Code::Success.number(),
        Code::NotFound.number(),
        Code::ComponentNotFound.number(),
        Code::NotDirectory.number(),
        exit::OK,
        exit::PARTIAL,
        exit::USAGE,
        exit::IMAGE,
        exit::HOST,
        exit::INTERRUPTED,
    )
}

impl Command for Lookup {
    fn host_file(&self) -> Result<Option<Box<dyn Read + Send>>, Failure> {
        match &self.paths {
            Some(file) if file != "-" => open_paths(Path::new(file)).map(Some),
            _ => Ok(None),
        }
    }

    fn execute(&self, context: &mut Context<'_>) -> Outcome {
        let start = Instant::now();
        let input = self.input_file()?;
        let threads = self.threads();
        let engines = self.engine.open_for(context, threads, self.expected_paths())?;
        let mut totals = LookupTotals::default();
        let outcome = self.resolve_all(context, &engines, threads, input, &mut totals);
        if matches!(outcome, Err(Failure::BrokenPipe)) {
            return outcome;
        }
        let outcome = outcome.and_then(|()| Ok(context.out.flush()?));
        // Lines that were printed before a failure count too.
        context.raise_status(totals.status);
        if !self.quiet {
            totals.print(&engines.to_string(), start.elapsed());
        }
        if self.verbose {
            console::say(&format!("engine {engines}: {}", engines.reason()));
        }
        outcome
    }
}

/// Opens the file that --paths names.
fn open_paths(path: &Path) -> Result<Box<dyn Read + Send>, Failure> {
    console::open_file(path, interrupt::raised).map_err(|error| match error.kind() {
        ErrorKind::IsADirectory => {
            let name = bytes::of_path(path);
            Failure::new(exit::HOST, name, "is a directory", "name a file of paths, or -")
        }
        _ => Failure::host(path, &error),
    })
}

impl Lookup {
    fn threads(&self) -> usize {
        match self.threads {
            Some(threads) => usize::from(threads),
            None => std::thread::available_parallelism().map_or(1, usize::from),
        }
    }

    fn resolve_all(
        &self,
        context: &mut Context<'_>,
        engines: &Engines<'_>,
        threads: usize,
        input: Option<PathInput>,
        totals: &mut LookupTotals,
    ) -> Outcome {
        let options = ResolveOptions {
            base: Some(context.cwd_ino),
            follow: !self.no_follow,
            attributes: true,
            caller: OWNER,
        };
        let format = LineFormat { stat: self.stat, json: self.json };
        let pipeline = Pipeline { engines, options, format, threads: engines.threads(threads) };
        engines.attended(|| {
            if let Some(input) = input {
                pipeline.run(input, &mut context.out, totals)?;
            }
            if let Some(input) = self.arguments() {
                Pipeline { threads: 1, ..pipeline }.run(input, &mut context.out, totals)?;
            }
            Ok(())
        })
    }

    /// Paths of the file that --paths names.
    fn input_file(&self) -> Result<Option<PathInput>, Failure> {
        let Some(file) = &self.paths else { return Ok(None) };
        let delimiter = if self.null { 0 } else { b'\n' };
        if file == "-" {
            let input = Input::default();
            let stop = input.stopper();
            let name = b"standard input".to_vec();
            return Ok(Some(PathInput { reader: Box::new(input), stop, delimiter, name }));
        }
        let (path, name) = (Path::new(file), bytes::of(file).to_vec());
        let reader = open_paths(path)?;
        Ok(Some(PathInput { reader, stop: Arc::default(), delimiter, name }))
    }

    /// Returns about how many paths there are in all; `None` for those of a pipe.
    fn expected_paths(&self) -> Option<u64> {
        let metadata = self.paths.as_ref().map(|file| Path::new(file).metadata());
        let in_file = match metadata {
            None => 0,
            Some(metadata) => metadata.ok().filter(std::fs::Metadata::is_file)?.len() / USUAL_PATH_BYTES,
        };
        Some(in_file + self.more.len() as u64)
    }

    /// Paths of the command line.
    fn arguments(&self) -> Option<PathInput> {
        if self.more.is_empty() {
            return None;
        }
        let mut text = Vec::new();
        for path in &self.more {
            text.extend_from_slice(bytes::of(path));
            // Arguments contain no NUL, so NUL can separate them.
            text.push(0);
        }
        let (reader, name) = (Box::new(Cursor::new(text)), b"arguments".to_vec());
        Some(PathInput { reader, stop: Arc::default(), delimiter: 0, name })
    }
}
