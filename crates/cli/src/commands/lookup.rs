//! `lanefs lookup`: the batch call.

mod format;
mod pipeline;

use crate::bytes;
use crate::cli::Run;
use crate::context::{Context, OWNER};
use crate::engine::{Engine, EngineArgs};
use crate::exit::{self, Failure, Outcome};
use crate::input::Input;
use clap::Args;
use format::Format;
use lanefs::ResolveOptions;
use pipeline::{Counts, Pipeline, Source};
use std::ffi::OsString;
use std::io::Cursor;
use std::path::Path;
use std::time::Instant;

/// Resolve many paths at once
///
/// Answers one line for each path, in the order given, whatever the threads do: result code, inode, type, size, path,
/// separated by tabs. Code 0 is success, 4 not found, 5 a directory on the way not found, 9 a component is not a
/// directory; docs/cli.md lists all. With --stat octal mode, links, uid, gid and mtime (seconds since 1970 with nine
/// decimals) come before the path. `-` stands for what an error leaves empty. The rate goes to standard error.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  lanefs lookup v.lane /etc/passwd /etc/nothing
  find /share | lanefs lookup v.lane --paths - --stat
  lanefs lookup v.lane --paths manifest.txt | grep -v '^0'     what is missing
  find /share -print0 | lanefs lookup v.lane -0 --paths - --json > answers

Exit codes: 0 all were found, 1 some were not, 2 wrong usage, 3 the volume is damaged,
4 input or output failed, 130 interrupted.")]
pub struct Lookup {
    /// Read paths from FILE, one a line; `-` is standard input. They come before those on the command line
    #[arg(long, value_name = "FILE")]
    paths: Option<OsString>,
    /// Paths in the input end with NUL, not with a newline
    #[arg(short = '0', long, requires = "paths")]
    null: bool,
    #[command(flatten)]
    engine: EngineArgs,
    /// Add mode, links, uid, gid and mtime
    #[arg(long)]
    stat: bool,
    /// Do not follow a symbolic link in the last place
    #[arg(long)]
    no_follow: bool,
    /// One JSON object a line
    #[arg(long)]
    json: bool,
    /// Threads; one for each processor without it
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Option<u16>,
    /// Say nothing about the rate
    #[arg(long, short)]
    quiet: bool,
    /// Paths to resolve
    #[arg(value_name = "PATH", required_unless_present = "paths")]
    more: Vec<OsString>,
}

impl Run for Lookup {
    fn run(&self, context: &mut Context<'_>) -> Outcome {
        let start = Instant::now();
        let threads = match self.threads {
            Some(threads) => usize::from(threads),
            None => std::thread::available_parallelism().map_or(1, usize::from),
        };
        let options = ResolveOptions {
            base: Some(context.cwd_ino),
            follow: !self.no_follow,
            attributes: true,
            caller: OWNER,
        };
        let format = Format { stat: self.stat, json: self.json };
        let gpu = self.engine.open()?;
        let engine = self.engine.on(gpu.as_ref(), context, threads)?;
        let name = Engine::name(gpu.as_ref());
        let threads = engine.threads(threads);
        let pipeline = Pipeline { engine: &engine, options, format, threads };
        let mut counts = Counts::default();
        if let Some(file) = &self.paths {
            let delimiter = if self.null { 0 } else { b'\n' };
            let source_name: &[u8] = if file == "-" { b"standard input" } else { bytes::of(file) };
            let source = open(file)?;
            let outcome = pipeline.run(source, delimiter, source_name, &mut context.out, &mut counts);
            self.finish(context, outcome, &counts, &name, start)?;
        }
        if !self.more.is_empty() {
            // Arguments hold no NUL, so that NUL separates them whatever else they hold.
            let mut text = Vec::new();
            for path in &self.more {
                text.extend_from_slice(bytes::of(path));
                text.push(0);
            }
            let pipeline = Pipeline { threads: 1, ..pipeline };
            let outcome = pipeline.run(
                Source::ready(Cursor::new(text)),
                0,
                b"arguments",
                &mut context.out,
                &mut counts,
            );
            self.finish(context, outcome, &counts, &name, start)?;
        }
        std::io::Write::flush(&mut context.out)?;
        context.status = context.status.max(counts.status);
        if !self.quiet {
            counts.tell(&name, start.elapsed());
        }
        Ok(())
    }
}

impl Lookup {
    /// What was answered before a failure is counted and told all the same.
    fn finish(
        &self,
        context: &mut Context<'_>,
        outcome: Outcome,
        counts: &Counts,
        engine: &str,
        start: Instant,
    ) -> Outcome {
        if outcome.is_err() && !matches!(outcome, Err(Failure::BrokenPipe)) {
            context.status = context.status.max(counts.status);
            if !self.quiet {
                counts.tell(engine, start.elapsed());
            }
        }
        outcome
    }
}

/// The source of the paths.
fn open(file: &OsString) -> Result<Source, Failure> {
    if file == "-" {
        let input = Input::default();
        let stop = input.stopper();
        return Ok(Source { reader: Box::new(input), stop });
    }
    let path = Path::new(file);
    let failure = |error: std::io::Error| Failure::host(path, &error);
    let opened = std::fs::File::open(path).map_err(failure)?;
    if opened.metadata().map_err(failure)?.is_dir() {
        return Err(Failure::new(
            exit::HOST,
            bytes::of(file),
            "is a directory",
            "name a file of paths, or -",
        ));
    }
    Ok(Source::ready(opened))
}
