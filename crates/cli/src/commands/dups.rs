//! `lanefs dups`.

use crate::common::engine::{self, EngineArgs};
use crate::common::search_files::{SearchFiles, keep};
use crate::session::command::Command;
use crate::session::context::Context;
use crate::session::expansion::ExpansionArgs;
use crate::terminal::failure::{self, Failure, Outcome};
use crate::terminal::progress::Progress;
use crate::terminal::{console, interrupt};
use crate::text::count::counted;
use crate::text::escape::escape_into;
use crate::text::json;
use crate::text::size::{human, parse_size};
use clap::Args;
use lanefs_search::{
    ContentHash, CpuHash, DeviceHash, DuplicateFiles, Duplicates, Error, Selection, SelectionOptions,
    duplicates_by,
};
use std::cell::RefCell;
use std::ffi::OsString;
use std::io::Write;
use std::num::NonZeroUsize;

/// Find files of the same content
///
/// Compares the files below each PATH: by their sizes, then by the BLAKE3 hashes of their contents. Each
/// group of equal files follows a line with its size, the number of files and the bytes that all but one of
/// them waste. The groups that waste the most come first. Two names of one file are one file, whose other
/// names are indented. Nothing is changed.
///
/// With --engine gpu a device hashes the files of less than 4 MiB. The output is the same.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  lanefs dups v.lane
  lanefs dups v.lane /photos --min-size 1M -g '*.jpg'
  lanefs dups v.lane --json | jq .wasted
  lanefs dups v.lane --engine gpu")]
pub struct Dups {
    /// Files, and directories with all that is below [default: the root directory; in a shell the working
    /// directory]
    #[arg(value_name = "PATH")]
    paths: Vec<OsString>,
    /// Leave out files that are smaller: 4K, 1M
    #[arg(long, value_name = "SIZE", default_value = "1", allow_negative_numbers = true, value_parser = parse_size)]
    min_size: u64,
    /// Only files that match GLOB or, with ! before it, do not; the last that matches counts
    #[arg(short = 'g', long, value_name = "GLOB", allow_hyphen_values = true)]
    glob: Vec<String>,
    /// Print paths only, each with a NUL after it, and two after each group
    #[arg(short = '0', long, conflicts_with = "json")]
    null: bool,
    /// Print one JSON object per group: bytes, wasted, hash, files
    #[arg(long)]
    json: bool,
    /// Threads [default: as many as processors]
    #[arg(long, value_name = "COUNT")]
    threads: Option<NonZeroUsize>,
    #[command(flatten)]
    expansion: ExpansionArgs,
    #[command(flatten)]
    engine: EngineArgs,
}

impl Command for Dups {
    fn execute(&self, context: &mut Context<'_>) -> Outcome {
        let selection = SelectionOptions { globs: self.glob.clone(), ..SelectionOptions::default() };
        let selection =
            Selection::new(&selection).map_err(|error| Failure::usage("--glob", &error.to_string(), ""))?;
        let gpu = self.engine.open_device()?;
        let mut files = SearchFiles::new(context, self.paths.iter().collect(), selection, self.expansion)?;
        let mut found = Vec::new();
        for file in files.by_ref() {
            failure::check_interrupt()?;
            found.extend((file.size >= self.min_size).then_some(file));
        }
        let threads = self.threads.or(std::thread::available_parallelism().ok()).map_or(1, usize::from);
        let progress = RefCell::new(Progress::beside_output("comparing"));
        let update = |done, all| {
            progress.borrow_mut().set(done, all);
        };
        let mut failures = files.failures;
        let mut failed = |path: &[u8], error| keep(&mut failures, path, &error);
        let stops = interrupt::flag();
        let device = gpu.as_ref().map(DeviceHash::new);
        let hasher = device.as_ref().map_or(&CpuHash as &dyn ContentHash, |device| device);
        let result = duplicates_by(hasher, context.volume, found, threads, &mut failed, &update, &stops);
        drop(progress);
        engine::report(device.as_ref().and_then(DeviceHash::failure));
        let result = match result {
            // The failure that ended it is the last of the list.
            Err(Error::Ended) => Duplicates::default(),
            result => result.map_err(|_| Failure::Interrupted)?,
        };
        for one in failures {
            context.go_on(Err(one))?;
        }
        self.print(context, &result)
    }

    fn max_expansion(&self) -> u64 {
        self.expansion.max_expansion
    }
}

impl Dups {
    fn print(&self, context: &mut Context<'_>, result: &Duplicates) -> Outcome {
        for group in &result.groups {
            match (self.json, self.null) {
                (true, _) => print_json(context, group)?,
                (_, true) => print_nul(context, group)?,
                _ => print_text(context, group)?,
            }
        }
        if !self.json && !self.null {
            context.out.flush()?;
            let files: usize = result.groups.iter().map(|group| group.files.len() - 1).sum();
            let wasted = result.groups.iter().map(DuplicateFiles::wasted).sum();
            let groups = result.groups.len();
            let summary = format!(
                "{}; {} than needed: {}B wasted",
                counted(groups, "group", "groups"),
                counted(files, "more file", "more files"),
                human(wasted)
            );
            console::say(&summary);
        }
        Ok(())
    }
}

fn print_text(context: &mut Context<'_>, group: &DuplicateFiles) -> Outcome {
    let (size, count, wasted) = (group.size, group.files.len(), group.wasted());
    writeln!(context.out, "{size} bytes, {count} files, {wasted} bytes wasted")?;
    for paths in &group.files {
        let mut line = Vec::new();
        for (index, path) in paths.iter().enumerate() {
            line.extend_from_slice(if index == 0 { b"  " } else { b"    = " });
            escape_into(&mut line, path);
            line.push(b'\n');
        }
        context.out.write_all(&line)?;
    }
    Ok(())
}

fn print_nul(context: &mut Context<'_>, group: &DuplicateFiles) -> Outcome {
    for path in group.files.iter().filter_map(|paths| paths.first()) {
        context.out.write_all(path)?;
        context.out.write_all(b"\0")?;
    }
    Ok(context.out.write_all(b"\0")?)
}

fn print_json(context: &mut Context<'_>, group: &DuplicateFiles) -> Outcome {
    let path = |path: &Vec<u8>| {
        let mut object = serde_json::Map::new();
        json::add_name(&mut object, "path", path);
        serde_json::Value::Object(object)
    };
    let files: Vec<Vec<_>> = group.files.iter().map(|paths| paths.iter().map(path).collect()).collect();
    let hash: String = group.hash.iter().map(|byte| format!("{byte:02x}")).collect();
    let object = serde_json::json!({
        "bytes": group.size,
        "wasted": group.wasted(),
        "hash": hash,
        "files": files,
    });
    Ok(writeln!(context.out, "{}", json::text(&object))?)
}
