//! Arguments and output that `sync` and `diff` share.

use super::path_list::{ListedPath, PathList};
use super::transfer::{self, TransferArgs};
use crate::session::context::Context;
use crate::terminal::failure::{Failure, Outcome};
use crate::terminal::interrupt;
use crate::text::escape::escape;
use crate::text::{bytes, json};
use clap::Args;
use lanefs::{FileKind, FileSystem};
use lanefs_transfer::{Change, Difference, FileId, Filter, SyncOptions, SyncReport};
use parking_lot::Mutex;
use std::io::Write;
use std::path::PathBuf;

/// The part of a tree that a sync or a comparison looks at, and the rules by which it compares.
#[derive(Args, Clone, Debug, Default)]
pub struct ComparisonArgs {
    /// Compare the content of files of the same size, whatever their times. Without it two files of the same
    /// size and time of modification have the same content
    #[arg(long, short)]
    checksum: bool,
    /// Take a file or directory with another name in SRC for a new one, and its old name for one that SRC
    /// lacks. Without it such a file is renamed, once its content is found to be the same
    #[arg(long)]
    no_renames: bool,
    /// Leave out names that match PATTERN, on both sides: they are neither copied nor removed. Patterns are
    /// those of gitignore, from the top directory
    #[arg(long, value_name = "PATTERN")]
    exclude: Vec<String>,
    /// Leave in names that match PATTERN, whatever --exclude and --filter say; what is below a directory that
    /// is left out stays out
    #[arg(long, value_name = "PATTERN")]
    include: Vec<String>,
    /// Read patterns from FILE, which has the form of a .gitignore
    #[arg(long, value_name = "FILE")]
    filter: Vec<PathBuf>,
    /// Do not enter directories on which another file system is mounted
    #[arg(long, short = 'x')]
    one_file_system: bool,
}

impl ComparisonArgs {
    /// The options of a comparison, without `skip`ped files.
    ///
    /// # Errors
    /// Names a file that cannot be read, or a pattern that is none.
    pub fn options(&self, transfer: &TransferArgs, skip: Vec<FileId>) -> Result<SyncOptions, Failure> {
        Ok(SyncOptions {
            checksum: self.checksum,
            one_file_system: self.one_file_system,
            no_renames: self.no_renames,
            filter: self.filter()?,
            threads: transfer.threads(),
            skip,
            ..SyncOptions::default()
        })
    }

    /// The names that are left out.
    ///
    /// # Errors
    /// As [`options`](Self::options).
    pub fn filter(&self) -> Result<Filter, Failure> {
        let mut lines = Vec::new();
        for file in &self.filter {
            let text = std::fs::read(file).map_err(|error| Failure::host(file, &error))?;
            let text = String::from_utf8(text).map_err(|_| {
                let advice = "write its patterns in UTF-8; `?` and `*` match any byte of a name";
                Failure::usage(bytes::of_path(file), "is not text", advice)
            })?;
            for (at, line) in text.lines().enumerate() {
                Filter::new([line]).map_err(|error| {
                    let name = [bytes::of_path(file), format!(":{}", at + 1).as_bytes()].concat();
                    Failure::usage(name, &error.to_string(), "")
                })?;
                lines.push(line.to_owned());
            }
        }
        for (option, patterns) in [("--exclude", &self.exclude), ("--include", &self.include)] {
            // An empty line and a comment match nothing, which the user cannot mean here.
            if let Some(pattern) = patterns.iter().find(|pattern| Filter::is_no_rule(pattern)) {
                let name = format!("{option} '{pattern}'");
                let advice = "a name that begins with # is `\\#...`";
                return Err(Failure::usage(name, "matches nothing, as an empty line or a comment", advice));
            }
        }
        lines.extend(self.exclude.iter().cloned());
        lines.extend(self.include.iter().map(|pattern| format!("!{pattern}")));
        Filter::new(lines.iter().map(String::as_str)).map_err(|error| transfer::failure(&error))
    }
}

/// A difference without its path.
struct CollectedChange {
    kind: FileKind,
    change: Change,
    from: Option<ListedPath>,
}

/// The differences of a run, for output in the order of their paths.
#[derive(Default)]
pub struct Collected(Mutex<PathList<CollectedChange>>);

impl Collected {
    /// Keeps a difference.
    pub fn push(&self, difference: &Difference) {
        let Difference { path, kind, change, from } = difference;
        let mut all = self.0.lock();
        let (from, path) = (from.as_deref().map(|from| all.path(from)), all.path(path));
        all.push(path, CollectedChange { kind: *kind, change: *change, from });
    }

    /// Prints the differences, a directory before the names in it.
    ///
    /// # Errors
    /// Standard output cannot be written; the user asks to stop.
    pub fn print(self, out: &mut dyn Write, as_json: bool) -> Outcome {
        // A user who stopped the sync has the list of what was done, and may stop that, too.
        let requests = interrupt::requests();
        self.0.into_inner().each(|paths, path, CollectedChange { kind, change, from }| {
            if interrupt::requests() > requests {
                return Err(Failure::Interrupted);
            }
            let (path, from) = (paths.path(path), from.as_ref().map(|from| paths.path(from)));
            print(out, &Difference { path, kind: *kind, change: *change, from }, as_json)
        })
    }
}

fn print(out: &mut dyn Write, difference: &Difference, as_json: bool) -> Outcome {
    match as_json {
        true => writeln!(out, "{}", json::text(&object(difference)))?,
        false => {
            let from = difference
                .from
                .as_deref()
                .map_or(String::new(), |from| format!(" <- {}", name(from, difference.kind)));
            let name = name(&difference.path, difference.kind);
            writeln!(out, "{} {name}{from}", difference.letters())?;
        }
    }
    Ok(())
}

/// The path as rsync has it: directories end with a slash, and the top is `./`.
fn name(path: &[u8], kind: FileKind) -> String {
    match (path.is_empty(), kind == FileKind::Directory) {
        (true, _) => "./".into(),
        (false, true) => format!("{}/", escape(path)),
        (false, false) => escape(path).to_string(),
    }
}

fn object(difference: &Difference) -> serde_json::Map<String, serde_json::Value> {
    let mut object = serde_json::Map::new();
    object.insert("change".into(), difference.change.word().into());
    object.insert("type".into(), difference.kind.word().into());
    json::add_name(&mut object, "path", &difference.path);
    if let Some(from) = &difference.from {
        json::add_name(&mut object, "from", from);
    }
    let aspects: Vec<_> = difference.change.aspects().names().collect();
    object.insert("differs".into(), aspects.into());
    object
}

/// The numbers of differences as JSON, beside those of a transfer.
pub fn as_json(report: &SyncReport) -> serde_json::Value {
    let c = &report.counts;
    let mut object = transfer::as_json(&report.report);
    for (key, count) in [
        ("compared", c.compared),
        ("passed_over", c.passed_over),
        ("added", c.added),
        ("replaced", c.replaced),
        ("attributes", c.attributes),
        ("linked", c.linked),
        ("removed", c.removed),
        ("renamed", c.renamed),
    ] {
        object[key] = count.into();
    }
    object
}

/// The numbers of differences in words, those that are not 0: of changes that were made, or that are `to_do`.
pub fn in_words(report: &SyncReport, to_do: bool) -> String {
    let counts = &report.counts;
    let parts = [
        (counts.added, "added", "to add"),
        (counts.replaced, "replaced", "to replace"),
        (counts.attributes, "with new attributes", "to get new attributes"),
        (counts.linked, "hard-linked", "to hard-link"),
        (counts.removed, "removed", "to remove"),
        (counts.renamed, "renamed", "to rename"),
    ];
    let parts = parts.iter().filter(|part| part.0 > 0);
    let parts: Vec<String> =
        parts.map(|(count, done, wanted)| format!("{count} {}", if to_do { wanted } else { done })).collect();
    let names = if counts.compared == 1 { "name" } else { "names" };
    // The rest may have some.
    let is_whole = !report.report.interrupted && report.report.stopped.is_none();
    match parts.is_empty() {
        true if is_whole => format!("{} {names} compared, no differences", counts.compared),
        true => format!("{} {names} compared", counts.compared),
        false => format!("{} {names} compared; {}", counts.compared, parts.join(", ")),
    }
}

/// Prints the table of `--stats`.
///
/// # Errors
/// Standard output cannot be written.
pub fn print_stats(context: &mut Context<'_, impl FileSystem>, report: &SyncReport) -> Outcome {
    let (c, copied) = (&report.counts, &report.report.counts);
    let seconds = report.report.elapsed.as_secs_f64().max(1e-9);
    for (what, number) in [
        ("names compared", c.compared),
        ("of these passed over", c.passed_over),
        ("names added", c.added),
        ("names replaced", c.replaced),
        ("names with other attributes", c.attributes),
        ("names linked", c.linked),
        ("names removed", c.removed),
        ("names renamed", c.renamed),
        ("files copied", copied.files),
        ("bytes copied", copied.bytes),
        ("names compared per second", (c.compared as f64 / seconds) as u64),
        ("bytes copied per second", (copied.bytes as f64 / seconds) as u64),
    ] {
        writeln!(context.out, "{what:<27} {number}")?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use lanefs_transfer::{Report, SyncCounts};

    #[test]
    fn only_a_whole_comparison_says_that_there_are_no_differences() {
        let words = |counts: SyncCounts, interrupted: bool, to_do: bool| {
            let report = Report { interrupted, ..Report::default() };
            in_words(&SyncReport { report, counts, ..SyncReport::default() }, to_do)
        };
        let none = SyncCounts { compared: 2, ..SyncCounts::default() };
        assert_eq!(words(none, false, false), "2 names compared, no differences");
        assert_eq!(words(none, true, false), "2 names compared");
        let some = SyncCounts { compared: 1, added: 1, removed: 2, ..SyncCounts::default() };
        assert_eq!(words(some, true, false), "1 name compared; 1 added, 2 removed");
        assert_eq!(words(some, false, true), "1 name compared; 1 to add, 2 to remove");
    }
}
