//! `import` and `export`: whole trees and archives.

use crate::cli::Run;
use crate::console;
use crate::context::Context;
use crate::engine::EngineArgs;
use crate::exit::{self, Failure, Outcome};
use crate::image::Image;
use crate::maker::Maker;
use crate::{bytes, size};
use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use lanefs_transfer::{
    ArchiveSource, ArchiveTarget, Control, Error, ExportOptions, FileId, ImportOptions, Progress,
    ProgressState, Report, export_archive, export_tree, import_archive, import_tree, is_archive_name,
};
use serde_json::json;
use std::ffi::{OsStr, OsString};
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Problems that are shown unless all are asked for.
const SHOWN: usize = 20;

/// Bring a directory tree or a tar archive of the host into the volume
///
/// The content of the directory SRC goes into the directory DEST, which is made with its parents where it is not there:
/// `lanefs import v.lane /usr/share /share` puts /usr/share/doc at /share/doc. A single file goes to the path DEST, or
/// into the directory DEST. A file whose name ends in .tar, .tar.gz, .tgz, .tar.zst or .tzst is unpacked.
///
/// Kept are type, mode, owner, times to the nanosecond, symbolic and hard links, extended attributes and access control
/// lists, holes, fifos, sockets and devices. What cannot be read is named at the end, the rest is done, and the exit
/// code is 1. Ctrl-C stops cleanly: what was imported until then is whole. A full volume ends the import at once.
///
/// With --engine gpu small files of a tree are made by a device, thousands at a time; the outcome is the same. auto does so
/// where there is a GPU and a tree of thousands of files.
#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:
  lanefs import v.lane /usr/share /share
  lanefs import v.lane linux.tar.gz /src
  xz -dc linux.tar.xz | lanefs import --tar v.lane - /src")]
pub struct Import {
    /// A directory, a file or an archive of the host; - with --tar is standard input
    #[arg(value_name = "SRC")]
    pub source: PathBuf,
    /// Where it goes in the volume
    #[arg(value_name = "DEST", default_value = "/")]
    pub dest: OsString,
    /// SRC is a tar archive, whatever its name; packing by gzip or zstd is told by its content
    #[arg(long, conflicts_with = "no_tar")]
    pub tar: bool,
    /// SRC is a file of its own, even where its name is that of an archive
    #[arg(long)]
    pub no_tar: bool,
    /// Replace files that are in the way in the volume, instead of naming them and leaving them
    #[arg(long)]
    pub overwrite: bool,
    /// Do not enter directories on which another file system is mounted
    #[arg(long, short = 'x')]
    pub one_file_system: bool,
    /// What makes the files.
    #[command(flatten)]
    pub(crate) engine: EngineArgs,
    /// What import and export have in common.
    #[command(flatten)]
    pub common: CommonArgs,
}

/// Bring a directory tree of the volume to the host, or into a tar archive
///
/// The content of the directory SRC goes into the directory DEST of the host, which is made with its parents where it is
/// not there. A single file goes to the path DEST, or into the directory DEST. A DEST whose name ends in .tar, .tar.gz, .tgz,
/// .tar.zst or .tzst (and is no directory) is written as an archive, compressed as its name says.
///
/// Everything that `import` keeps is kept; owners and devices need root, and without it set-id bits of other people's
/// files are not kept. Nothing is written through symbolic links of the host, and a file that could not be finished is
/// removed. Sockets do not go into archives.
#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:
  lanefs export v.lane /share ./share
  lanefs export v.lane /share share.tar.gz
  lanefs export v.lane /share share.tar.zst
  lanefs export v.lane /share --tar - | xz > share.tar.xz")]
pub struct Export {
    /// A directory or file in the volume
    #[arg(value_name = "SRC")]
    pub source: OsString,
    /// Where it goes on the host
    #[arg(value_name = "DEST", required_unless_present = "tar", conflicts_with = "tar")]
    pub dest: Option<PathBuf>,
    /// Write a tar archive (POSIX pax) to FILE, or to standard output for -
    #[arg(long, value_name = "FILE")]
    pub tar: Option<PathBuf>,
    /// Replace files that are in the way on the host, instead of naming them and leaving them
    #[arg(long)]
    pub overwrite: bool,
    /// Do not wait until everything is on the host's disk
    #[arg(long)]
    pub no_sync: bool,
    /// What import and export have in common.
    #[command(flatten)]
    pub common: CommonArgs,
}

/// What import and export have in common.
#[derive(Args, Clone, Debug, Default)]
pub struct CommonArgs {
    /// Number of threads; twice the cores unless given
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub threads: Option<u16>,
    /// Name everything that could not be transferred, not only the first 20
    #[arg(long, short)]
    pub verbose: bool,
    /// Print what was done as one JSON object on standard output
    #[arg(long)]
    pub json: bool,
}

impl CommonArgs {
    fn threads(&self) -> Option<usize> {
        self.threads.map(usize::from)
    }
}

impl Run for Import {
    fn changes(&self) -> bool {
        true
    }

    fn run(&self, context: &mut Context<'_>) -> Outcome {
        let report = self.transfer(context)?;
        tell("imported", &report, &self.common, context)
    }
}

impl Import {
    fn transfer(&self, context: &Context<'_>) -> Result<Report, Failure> {
        let volume = context.volume;
        let gpu = self.engine.open()?;
        let maker = gpu.as_ref().map(|gpu| Maker::new(&self.engine, gpu, context)).transpose()?;
        let options = ImportOptions {
            overwrite: self.overwrite,
            one_file_system: self.one_file_system,
            threads: self.common.threads(),
            skip: own_image(context.image),
            maker: maker.as_ref().map(|maker| maker as &dyn lanefs_transfer::Maker),
        };
        let dest = &inside(context, &self.dest)[..];
        let bar = Bar::new("importing");
        let stop = console::stop();
        let control = Control { interrupt: &stop, progress: &bar };
        let outcome = if self.tar && self.source == Path::new("-") {
            import_archive(volume, ArchiveSource::StandardInput(console::input()), dest, &options, control)
        } else if self.tar || !self.no_tar && is_archive(&self.source) {
            import_archive(volume, ArchiveSource::File(&self.source), dest, &options, control)
        } else {
            import_tree(volume, &self.source, dest, &options, control)
        };
        bar.clear();
        outcome.map_err(|error| failure(&error))
    }
}

/// A path of the volume, from the working directory on.
fn inside(context: &Context<'_>, path: &OsStr) -> Vec<u8> {
    let path = bytes::of(path);
    match path {
        [b'/', ..] => path.to_vec(),
        _ => [&context.cwd[..], b"/", path].concat(),
    }
}

impl Run for Export {
    fn run(&self, context: &mut Context<'_>) -> Outcome {
        let report = self.transfer(context)?;
        tell("exported", &report, &self.common, context)
    }
}

impl Export {
    fn transfer(&self, context: &Context<'_>) -> Result<Report, Failure> {
        let (args, volume) = (self, context.volume);
        let source = &inside(context, &self.source)[..];
        let bar = Bar::new("exporting");
        let stop = console::stop();
        let control = Control { interrupt: &stop, progress: &bar };
        let target = match (&args.tar, &args.dest) {
            (Some(file), _) if file == Path::new("-") => {
                Some(ArchiveTarget::StandardOutput(console::output()))
            }
            (Some(file), _) => Some(ArchiveTarget::File(file)),
            (None, Some(dest)) if is_archive_name(bytes::of_path(dest)) && !dest.is_dir() => {
                Some(ArchiveTarget::File(dest))
            }
            (None, _) => None,
        };
        let to_output = matches!(target, Some(ArchiveTarget::StandardOutput(_)));
        if to_output && args.common.json {
            return Err(Failure::usage(
                "--json",
                "goes to standard output, as the archive does",
                "leave one out",
            ));
        }
        if to_output && console::output_is_terminal() {
            let advice = "redirect standard output, or name a file";
            return Err(Failure::usage("--tar -", "an archive is nothing for a terminal", advice));
        }
        let outcome = match (target, &args.dest) {
            (Some(target), _) => export_archive(volume, source, target, args.overwrite, control),
            (None, Some(dest)) => {
                let options = ExportOptions {
                    overwrite: args.overwrite,
                    threads: args.common.threads(),
                    sync: !args.no_sync,
                };
                export_tree(volume, source, dest, &options, control)
            }
            (None, None) => {
                return Err(Failure::usage("DEST", "is missing", "name a directory, or use --tar"));
            }
        };
        bar.clear();
        outcome.map_err(|error| failure(&error))
    }
}

/// A regular file with the name of an archive.
fn is_archive(path: &Path) -> bool {
    is_archive_name(bytes::of_path(path)) && path.is_file()
}

/// The volume's image must not be imported into itself.
fn own_image(image: &Image) -> Vec<FileId> {
    let Image::Path(path) = image else { return Vec::new() };
    let meta = std::fs::metadata(path);
    meta.map_or_else(|_| Vec::new(), |meta| vec![FileId { dev: meta.dev(), ino: meta.ino() }])
}

/// What kept a transfer from beginning, with the exit code of its kind.
pub(crate) fn failure(error: &Error) -> Failure {
    let exit = match error {
        Error::Usage(_) => exit::USAGE,
        Error::Volume { source: lanefs::Error::Damaged { .. } | lanefs::Error::Image { .. }, .. } => {
            exit::IMAGE
        }
        Error::Volume { source: lanefs::Error::Code(_) | lanefs::Error::At { .. }, .. } => exit::PARTIAL,
        Error::Host { .. } | Error::Volume { .. } | Error::Archive { .. } => exit::HOST,
    };
    Failure::Message { exit, text: error.to_string(), ends: true }
}

/// Says what was done and what was not.
fn tell(done: &str, report: &Report, args: &CommonArgs, context: &mut Context<'_>) -> Outcome {
    let limit = if args.verbose { usize::MAX } else { SHOWN };
    for problem in report.problems.iter().take(limit) {
        say(&problem.to_string());
    }
    if report.problems.len() > limit {
        say(&format!("{} more of the kind (--verbose names all)", report.problems.len() - limit));
    }
    for note in &report.notes {
        say(&format!("note: {note}"));
    }
    if let Some(error) = &report.stopped {
        say(&format!("{error}; stopped, what was {done} until then is whole"));
        if matches!(error, Error::Volume { source, .. } if source.code() == lanefs::Code::NoSpace) {
            say(
                "enlarge the volume with `lanefs grow` and import again; without --overwrite what is there stays",
            );
        }
    } else if report.interrupted {
        say(&format!("interrupted; what was {done} until then is whole"));
    }
    if args.json {
        writeln!(context.out, "{}", as_json(report))?;
    } else {
        say(&format!("{done} {}", summary(report)));
    }
    context.status = context.status.max(report.exit_code());
    Ok(())
}

/// One line: names by kind, bytes, time and rates.
pub(crate) fn summary(report: &Report) -> String {
    let c = &report.counts;
    let kinds = [
        (c.files, "file", "files"),
        (c.directories, "directory", "directories"),
        (c.symlinks, "symbolic link", "symbolic links"),
        (c.hard_links, "hard link", "hard links"),
        (c.specials, "special file", "special files"),
    ];
    let mut parts = Vec::new();
    for (count, one, many) in kinds {
        match count {
            0 => (),
            1 => parts.push(format!("1 {one}")),
            _ => parts.push(format!("{count} {many}")),
        }
    }
    let not = report.problems.len();
    format!(
        "{}, {}B in {:.2} s ({:.0} names/s, {}B/s){}",
        if parts.is_empty() { "nothing".to_string() } else { parts.join(", ") },
        size::human(c.bytes),
        report.elapsed.as_secs_f64(),
        report.entries_per_second(),
        size::human(report.bytes_per_second() as u64),
        if not == 0 { String::new() } else { format!("; {not} not, or not as on the other side") },
    )
}

fn as_json(report: &Report) -> serde_json::Value {
    let c = &report.counts;
    let problem =
        |p: &lanefs_transfer::Problem| json!({"path": lanefs_transfer::shown(&p.path), "what": p.what});
    json!({
        "files": c.files,
        "directories": c.directories,
        "symlinks": c.symlinks,
        "hard_links": c.hard_links,
        "specials": c.specials,
        "xattrs": c.xattrs,
        "bytes": c.bytes,
        "elapsed_s": report.elapsed.as_secs_f64(),
        "problems": report.problems.iter().map(problem).collect::<Vec<_>>(),
        "notes": report.notes,
        "interrupted": report.interrupted,
        "stopped": report.stopped.as_ref().map(ToString::to_string),
    })
}

/// To standard error; a closed one is no reason to stop.
pub(crate) fn say(text: &str) {
    console::complain(format!("lanefs: {text}\n").as_bytes());
}

/// How far a transfer is, on standard error where that is a terminal.
pub(crate) struct Bar {
    bar: ProgressBar,
    what: &'static str,
}

impl Bar {
    pub(crate) fn new(what: &'static str) -> Self {
        let bar = if console::errors_are_seen() { ProgressBar::new_spinner() } else { ProgressBar::hidden() };
        if console::errors_are_seen() {
            bar.set_draw_target(console::progress_target());
        }
        let style = ProgressStyle::with_template("{spinner} {wide_msg}");
        Bar { bar: bar.with_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner())), what }
    }

    /// Leaves no trace.
    pub(crate) fn clear(&self) {
        self.bar.finish_and_clear();
    }
}

impl Progress for Bar {
    fn update(&self, now: &ProgressState) {
        // What is done in a moment needs no bar.
        if now.elapsed < Duration::from_millis(400) || self.bar.is_hidden() {
            return;
        }
        let seconds = now.elapsed.as_secs_f64();
        let (names, bytes) = (now.counts.entries(), now.counts.bytes);
        let (rate, speed) = (names as f64 / seconds, size::human((bytes as f64 / seconds) as u64));
        let what = if now.syncing { "writing out" } else { self.what };
        let message =
            format!("{what}: {names} names, {}B ({rate:.0} names/s, {speed}B/s)", size::human(bytes));
        self.bar.set_message(message);
        self.bar.tick();
    }
}
