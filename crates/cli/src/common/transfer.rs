//! Arguments and report that `import` and `export` share.

use crate::session::context::Context;
use crate::terminal::console::say;
use crate::terminal::failure::{Failure, Outcome};
use crate::terminal::{exit, interrupt};
use crate::text::count::counted;
use crate::text::size::human;
use crate::text::{bytes, json};
use clap::Args;
use lanefs::FileSystem;
use lanefs_transfer::{Error, OVERWRITE_HINT, Problem, Report};
use rustix::io::Errno;
use std::ffi::OsStr;
use std::io::Write;

/// Problems that a report names without --verbose.
pub const NAMED_PROBLEMS: usize = 20;
/// Largest number of threads.
const MAX_THREADS: i64 = 1024;

/// Kind of a transfer's destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransferTarget {
    /// Each file is there as soon as it is complete.
    Files,
    /// A tree that follows another one: what is missing comes with the next sync.
    Followed,
    /// A list of differences: nothing is written.
    Compared,
    /// An archive, which is of use as a whole only.
    Archive,
}

/// Arguments that import and export share.
#[derive(Args, Clone, Debug, Default)]
pub struct TransferArgs {
    /// Number of threads [default: two per CPU]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=MAX_THREADS))]
    threads: Option<u16>,
    #[arg(long, short, help = format!("Name every file that was not transferred, not only the first {NAMED_PROBLEMS}"))]
    verbose: bool,
    /// Print the counts as one JSON object on standard output
    #[arg(long)]
    json: bool,
}

impl TransferArgs {
    /// Number of threads; `None` for the default.
    pub fn threads(&self) -> Option<usize> {
        self.threads.map(usize::from)
    }

    /// True if the report goes to standard output.
    pub fn is_json(&self) -> bool {
        self.json
    }

    /// Reports what was transferred and what was not. `verb` is "imported" or "exported".
    ///
    /// # Errors
    /// Standard output cannot be written.
    pub fn report(
        &self,
        verb: &str,
        target: TransferTarget,
        report: &Report,
        context: &mut Context<'_, impl FileSystem>,
    ) -> Outcome {
        self.tell(verb, target, report);
        if self.json {
            writeln!(context.out, "{}", json::text(&as_json(report)))?;
        } else {
            say(&format!("{verb} {}", summary(report)));
        }
        context.raise_status(report.exit_code());
        Ok(())
    }

    /// Names what was not transferred, and says why a transfer ended early.
    pub fn tell(&self, verb: &str, target: TransferTarget, report: &Report) {
        let limit = if self.verbose { usize::MAX } else { NAMED_PROBLEMS };
        for problem in report.problems.iter().take(limit) {
            say(&with_option(&problem.to_string()));
        }
        if report.problems.len() > limit {
            say(&format!("{} more of them (--verbose names all)", report.problems.len() - limit));
        }
        for note in &report.notes {
            say(&format!("note: {note}"));
        }
        report_end(verb, target, report);
    }
}

/// Reports why a transfer ended early.
fn report_end(verb: &str, target: TransferTarget, report: &Report) {
    let left = match target {
        TransferTarget::Archive => "the archive is not complete".to_string(),
        TransferTarget::Compared => "not everything was compared".to_string(),
        TransferTarget::Files | TransferTarget::Followed if report.lost.entries() > 0 => {
            let (kept, lost) = (report.counts.entries(), report.lost.entries());
            let again = match target {
                TransferTarget::Followed => "sync again",
                _ => "import again with --overwrite",
            };
            format!(
                "the volume has the {kept} names of the last commit; {lost} names that came later are lost or \
                 incomplete (mend the cause, and {again})"
            )
        }
        TransferTarget::Files | TransferTarget::Followed => format!("all files {verb} so far are complete"),
    };
    if let Some(error) = &report.stopped {
        say(&format!("{}; stopped, {left}", text_of(error)));
        if matches!(error, Error::Volume { source, .. } if source.code() == lanefs::Code::NoSpace) {
            say(match target {
                TransferTarget::Followed => "enlarge the volume with `lanefs grow` and sync again",
                TransferTarget::Files | TransferTarget::Archive | TransferTarget::Compared => {
                    "enlarge the volume with `lanefs grow` and import again; without --overwrite existing files stay"
                }
            });
        }
    } else if report.interrupted {
        say(&format!("interrupted; {left}"));
    }
}

/// A path of the volume, taken from the working directory.
pub fn volume_path(context: &Context<'_, impl FileSystem>, path: &OsStr) -> Vec<u8> {
    let path = bytes::of(path);
    match path {
        [b'/', ..] => path.to_vec(),
        _ => [&context.cwd[..], b"/", path].concat(),
    }
}

/// The text of an error that ends a transfer, with the option that changes a bound.
fn text_of(error: &Error) -> String {
    match error {
        Error::Volume { source: lanefs::Error::Expansion { .. }, .. } | Error::Expansion { .. } => {
            format!("{error} (--max-expansion)")
        }
        error => with_option(&error.to_string()),
    }
}

/// Returns a text of the library with the option as it is on the command line.
fn with_option(text: &str) -> String {
    match text.strip_suffix(OVERWRITE_HINT) {
        Some(text) => format!("{text}(--overwrite replaces it)"),
        None => text.to_owned(),
    }
}

/// Converts an error that kept a transfer from starting.
pub fn failure(error: &Error) -> Failure {
    if interrupt::raised() && error.errno() == Errno::INTR.raw_os_error() {
        return Failure::Interrupted;
    }
    let exit = match error {
        Error::Usage(_) => exit::USAGE,
        error if error.is_damage() => exit::IMAGE,
        Error::Volume { source: lanefs::Error::Code(_) | lanefs::Error::At { .. }, .. } => exit::PARTIAL,
        Error::Host { .. } | Error::Volume { .. } | Error::Archive { .. } | Error::Expansion { .. } => {
            exit::HOST
        }
    };
    Failure::Message { exit, text: text_of(error), ends: true }
}

/// One line: names by kind, bytes, time and rates.
fn summary(report: &Report) -> String {
    let c = &report.counts;
    let kinds = [
        (c.files, "file", "files"),
        (c.directories, "directory", "directories"),
        (c.symlinks, "symbolic link", "symbolic links"),
        (c.hard_links, "hard link", "hard links"),
        (c.specials, "special file", "special files"),
    ];
    let kinds = kinds.into_iter().filter(|(count, ..)| *count > 0);
    let parts: Vec<String> = kinds.map(|(count, one, many)| counted(count, one, many)).collect();
    let problems = report.problems.len();
    format!(
        "{}, {}B in {:.2} s ({:.0} names/s, {}B/s){}",
        if parts.is_empty() { "nothing".to_string() } else { parts.join(", ") },
        human(c.bytes),
        report.elapsed.as_secs_f64(),
        report.entries_per_second(),
        human(report.bytes_per_second() as u64),
        if problems == 0 { String::new() } else { format!("; {problems} not done") },
    )
}

/// The report as one JSON object.
pub fn as_json(report: &Report) -> serde_json::Value {
    let c = &report.counts;
    let problem = |p: &Problem| serde_json::json!({"path": lanefs_transfer::shown(&p.path), "what": p.what});
    serde_json::json!({
        "files": c.files,
        "directories": c.directories,
        "symlinks": c.symlinks,
        "hard_links": c.hard_links,
        "specials": c.specials,
        "xattrs": c.xattrs,
        "bytes": c.bytes,
        "elapsed_s": report.elapsed.as_secs_f64(),
        "lost": report.lost.entries(),
        "problems": report.problems.iter().map(problem).collect::<Vec<_>>(),
        "notes": report.notes,
        "interrupted": report.interrupted,
        "stopped": report.stopped.as_ref().map(ToString::to_string),
    })
}
