//! `lanefs inventory`.

mod listing;
mod rows;
mod table;

use crate::common::engine::{self, EngineArgs};
use crate::common::search_files::absolute;
use crate::session::command::Command;
use crate::session::context::Context;
use crate::session::expansion::ExpansionArgs;
use crate::session::new_file::NewFile;
use crate::terminal::console;
use crate::terminal::failure::{Failure, Outcome};
use crate::terminal::progress::Progress;
use crate::text::bytes;
use clap::Args;
use lanefs_search::{ContentHash, CpuHash, DeviceHash, Selection, SelectionOptions};
use listing::Listing;
use std::ffi::OsString;
use std::io::{self, Write};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use table::Table;

/// Write all names with their attributes to a Parquet file, for SQL
///
/// Writes a row for PATH and for each name below it: path, parent, name, type, inode, links, size, allocated
/// (bytes of blocks), mode (the permission bits), uid, gid, owner, owner_group, mtime, ctime, atime, btime,
/// and with --digest the BLAKE3 hash of a file's content, as b3sum prints it. Programs such as DuckDB, Polars
/// and pandas read the file and answer questions about the tree. A name that is not UTF-8 has the nearest
/// text, and the row's path_hex has the bytes.
///
/// The rows are in the order of the directories. The memory does not depend on their number. FILE appears
/// when it is complete.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  lanefs inventory v.lane -o v.parquet
  lanefs inventory v.lane /usr -o usr.parquet -g '!*.o'
  lanefs inventory v.lane --digest -o - > v.parquet")]
pub struct InventoryCommand {
    /// The directory or file to start at [default: the root directory; in a shell the working directory]
    #[arg(value_name = "PATH")]
    path: Option<OsString>,
    /// File of the host for the rows; - for standard output
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    /// Add the BLAKE3 hashes of the contents of files, which are read for it
    #[arg(long)]
    digest: bool,
    /// Only names that match GLOB or, with ! before it, do not; the last that matches counts
    #[arg(short = 'g', long, value_name = "GLOB", allow_hyphen_values = true)]
    glob: Vec<String>,
    /// Threads of --digest [default: as many as processors]
    #[arg(long, value_name = "COUNT")]
    threads: Option<NonZeroUsize>,
    #[command(flatten)]
    expansion: ExpansionArgs,
    #[command(flatten)]
    engine: EngineArgs,
}

impl Command for InventoryCommand {
    fn new_file(&self) -> Option<&Path> {
        (self.output != Path::new("-")).then_some(&*self.output)
    }

    fn execute(&self, context: &mut Context<'_>) -> Outcome {
        let selection = SelectionOptions { globs: self.glob.clone(), ..SelectionOptions::default() };
        let selection =
            Selection::new(&selection).map_err(|error| Failure::usage("--glob", &error.to_string(), ""))?;
        let path = self.path.as_ref().map_or(&[][..], |path| bytes::of(path));
        let path = absolute(&context.cwd, path);
        let start = context.resolve(&path, false)?;
        let gpu = if self.digest { self.engine.open_device()? } else { None };
        let device = gpu.as_ref().map(DeviceHash::new);
        let hasher = device.as_ref().map_or(&CpuHash as &dyn ContentHash, |device| device);
        // The client of a mount has made the file, and writes the output to it.
        let file = match self.new_file() {
            Some(path) if console::client().is_none() => Some(NewFile::create(path, context.image)?),
            Some(_) => None,
            None if console::output_is_terminal() => {
                let advice = "redirect it, or name a file";
                return Err(Failure::usage("standard output", "a table cannot go to a terminal", advice));
            }
            None => None,
        };
        let out: Box<dyn Write + Send> = match &file {
            Some(file) => Box::new(file.writer()?),
            None => console::output(),
        };
        let failed = |error: io::Error| match &file {
            Some(file) => file.failure(&error),
            None => Failure::from(error),
        };
        let table = Table::create(out, self.digest)?;
        let listing = Listing {
            selection,
            digest: self.digest.then_some(hasher),
            threads: self.threads.or(std::thread::available_parallelism().ok()).map_or(1, usize::from),
            expansion: self.expansion,
            progress: Progress::new("listed"),
        };
        let table = listing.write(context, &path, &start, table, &failed)?;
        engine::report(device.as_ref().and_then(DeviceHash::failure));
        table.finish().map_err(failed)?;
        file.map_or(Ok(()), NewFile::finish)
    }

    fn max_expansion(&self) -> u64 {
        self.expansion.max_expansion
    }
}
