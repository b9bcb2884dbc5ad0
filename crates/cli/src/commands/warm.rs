//! `lanefs warm`.

use crate::session::expansion;
use crate::session::path_lines::PathLines;
use crate::session::publication::{self, LocationParser};
use crate::terminal::failure::{Failure, Outcome, check_interrupt, exit_of_code};
use crate::terminal::progress::Progress;
use crate::terminal::{console, exit, interrupt};
use crate::text::count::counted;
use crate::text::json;
use crate::text::size::human;
use clap::Args;
use lanefs::{Code, FileLayout, FileSink, PathSet, ReadFiles, Volume};
use lanefs_publish::{Location, Publication, WarmPart};
use std::cell::RefCell;
use std::ffi::{OsStr, OsString};
use std::io::Write;

/// Memory for the bytes of files that are read together.
const MEMORY_BYTES: usize = 32 << 20;

/// Message of an interruption.
const INTERRUPTED: &str = "interrupted; the cache has what was fetched";

/// Bring a publication, or a part of it, into the local cache
///
/// Fetches what later commands and mounts on this machine will read from the store at URL, many requests at
/// the same time, and verifies it: all of the version, its metadata alone, or some files. Pieces that the
/// cache has already are not fetched. Ctrl-C keeps those that were. A cache that is smaller (--cache-size)
/// forgets the first ones.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  lanefs warm s3://bucket/photos
  lanefs warm file:///srv/photos#2026-10 --metadata
  lanefs warm s3://bucket/photos --trace read.txt
  lanefs find s3://bucket/photos --type f --name '*.jpg' | lanefs warm s3://bucket/photos --list -")]
pub struct Warm {
    /// The store, and a tag or a version
    #[arg(value_name = "URL", value_parser = LocationParser)]
    from: Location,
    /// Names, attributes, and where the data are; no data
    #[arg(long)]
    metadata: bool,
    /// The files whose paths FILE has, one per line; `-` is standard input. Files of more than 4G are refused
    #[arg(long, value_name = "FILE", conflicts_with = "metadata")]
    list: Option<OsString>,
    /// As --list, for a list that was made earlier, such as those of `mount --record`: paths that are not
    /// there any more are left out
    #[arg(long, value_name = "FILE", conflicts_with_all = ["metadata", "list"])]
    trace: Option<OsString>,
    /// Stop where the files are more than FACTOR times the bytes that were fetched, and more than 1G
    /// [default: 100; 0 for no limit]
    #[arg(long, value_name = "FACTOR", default_value_t = expansion::DEFAULT, hide_default_value = true)]
    max_expansion: u64,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Counts of the work so far.
#[derive(Default)]
struct Done {
    /// Pieces, or files.
    count: u64,
    bytes: u64,
    /// Pieces that the cache had.
    found: u64,
    /// Paths that could not be read.
    failed: u64,
    /// The exit code for these.
    exit: u8,
}

impl Warm {
    /// Makes the end of the process by a request say what it means. To be called before the handler of
    /// requests is installed.
    pub fn explain_interrupts() {
        interrupt::before_exit(|| console::say(INTERRUPTED));
    }

    /// Fills the cache. Returns an exit code.
    ///
    /// # Errors
    /// There is no cache; the store's; the list cannot be read.
    pub fn execute(&self) -> Result<u8, Failure> {
        let publication = publication::open_to_warm(&self.from)?;
        interrupt::wait_for_commands();
        self.fill(&publication).inspect_err(|failure| {
            if matches!(failure, Failure::Interrupted) {
                console::say(INTERRUPTED);
            }
        })
    }

    fn fill(&self, publication: &Publication) -> Result<u8, Failure> {
        let done = match self.list.as_ref().or(self.trace.as_ref()) {
            Some(file) => {
                let volume = publication.volume(lanefs::Access::Read);
                let volume = volume.map_err(|error| publication::failure(&error))?;
                volume.interrupt_waits_by(interrupt::raised);
                volume.bound_expansion(self.max_expansion);
                self.read_files(&volume, file)?
            }
            None => {
                let progress = RefCell::new(Progress::new("warming"));
                let update = |done, all| {
                    progress.borrow_mut().set(done, all);
                    !interrupt::raised()
                };
                let part = if self.metadata { WarmPart::Metadata } else { WarmPart::All };
                let report = publication.warm(part, &update).map_err(|error| publication::failure(&error))?;
                let (count, bytes, found) = (report.pieces, report.bytes, report.found);
                Done { count, bytes, found, ..Done::default() }
            }
        };
        let counts = publication.counts();
        self.print(&publication.version().to_string(), &done, counts.requests, counts.bytes)?;
        Ok(done.exit)
    }

    fn read_files(&self, volume: &Volume, file: &OsStr) -> Result<Done, Failure> {
        let (mut lines, mut paths, mut done) = (PathLines::open(file)?, PathSet::new(), Done::default());
        let mut memory = Dropped(vec![0; MEMORY_BYTES]);
        let mut progress = Progress::new("warming");
        while lines.next_batch(&mut paths)? {
            self.read_batch(volume, &paths, &mut memory, &mut done)?;
            progress.set(done.count + done.failed, 0);
        }
        Ok(done)
    }

    /// Reads some files, which brings what they need into the cache.
    fn read_batch(&self, volume: &Volume, paths: &PathSet, memory: &mut Dropped, done: &mut Done) -> Outcome {
        let mut layout = FileLayout::default();
        let read = volume.read_files_in_parts(&ReadFiles::default(), paths, memory, &mut layout);
        check_interrupt()?;
        let read = read.map_err(|error| Failure::volume(self.from.to_string(), &error))?;
        done.count += read as u64;
        done.bytes += layout.bytes();
        done.failed += (paths.len() - read) as u64;
        for (path, code) in paths.view().iter().zip(layout.codes()) {
            let exit = exit_of_code(*code);
            // A path of a trace may be gone by now, or lead to another kind of file.
            let is_left_out = self.trace.is_some() && exit == exit::PARTIAL && *code != Code::FileTooLarge;
            if *code != Code::Success && !is_left_out {
                done.exit = done.exit.max(exit);
                Failure::partial(path, code.text(), "").print();
            }
        }
        Ok(())
    }

    fn print(&self, version: &str, done: &Done, requests: u64, fetched: u64) -> Outcome {
        let mut out = console::output();
        let Done { count, bytes, found, failed, .. } = done;
        let is_list = self.list.is_some() || self.trace.is_some();
        if self.json {
            let object = serde_json::json!({
                "url": self.from.to_string(),
                "version": version,
                "pieces": (!is_list).then_some(count),
                "files": is_list.then_some(count),
                "failed": failed,
                "bytes": bytes,
                "found": found,
                "requests": requests,
                "fetched_bytes": fetched,
            });
            writeln!(out, "{}", json::text(&object))?;
            return Ok(out.flush()?);
        }
        let cached = match is_list {
            true => counted(*count, "file", "files"),
            false => counted(*count, "piece", "pieces"),
        };
        writeln!(out, "version {version}: in the cache: {cached}, {}B", human(*bytes))?;
        writeln!(out, "fetched {}B in {}", human(fetched), counted(requests, "request", "requests"))?;
        if *failed > 0 {
            writeln!(out, "{} could not be read", counted(*failed, "path", "paths"))?;
        }
        Ok(out.flush()?)
    }
}

/// Memory for the bytes of files that nobody looks at.
struct Dropped(Vec<u8>);

impl FileSink for Dropped {
    type Error = lanefs::Error;

    fn capacity(&self) -> u64 {
        u64::MAX
    }

    fn memory(&mut self, _at: u64) -> lanefs::Result<&mut [u8]> {
        Ok(&mut self.0)
    }

    fn take(&mut self, _at: u64, _len: usize) -> lanefs::Result<()> {
        Ok(())
    }
}
