//! `lanefs diff`.

use crate::common::differences::{self, Collected, ComparisonArgs};
use crate::common::transfer::{self, Target, TransferArgs};
use crate::session::expansion;
use crate::session::image::Image;
use crate::session::mounted;
use crate::session::publication::LocationParser;
use crate::terminal::console::say;
use crate::terminal::failure::{Failure, Outcome};
use crate::terminal::progress::TransferProgress;
use crate::terminal::{console, exit, interrupt};
use crate::text::{bytes, json};
use clap::Args;
use clap::builder::TypedValueParser;
use lanefs::{Access, FileSystem, Volume};
use lanefs_fuse::RemoteVolume;
use lanefs_publish::Location;
use lanefs_transfer::{Control, Difference, Side, SyncReport, diff_trees};
use std::ffi::OsStr;
use std::io::Write;
use std::path::{Path, PathBuf};

/// Show the differences of two trees: directories of the host, volumes, publications
///
/// Each of A and B is a directory of the host; or a volume, as IMAGE or IMAGE:/PATH for a directory in it; or
/// the URL of a publication, with :/PATH or without. A line for each difference, sorted by path, says how B
/// would become the same as A: it has the form that `lanefs sync --help` explains, and is the line that `sync
/// --dry-run --delete` prints. So `+` marks names that only A has, and `*deleting` those that only B has.
///
/// Reads metadata; with --checksum contents, too. The exit code is 0 if there is no difference, and 1 if
/// there are some or a part could not be compared.
#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:
  lanefs diff /usr/share v.lane:/share
  lanefs diff v.lane copy.lane --checksum
  lanefs diff v.lane file:///srv/photos#2026-10")]
pub struct Diff {
    /// Directory of the host, IMAGE[:/PATH] or URL[:/PATH]
    #[arg(value_name = "A", value_parser = TreeParser)]
    from: Tree,
    /// The same of the tree that is compared with it
    #[arg(value_name = "B", value_parser = TreeParser)]
    to: Tree,
    #[command(flatten)]
    comparison: ComparisonArgs,
    #[command(flatten)]
    transfer: TransferArgs,
}

/// A tree of the command line.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Tree {
    Host(PathBuf),
    Volume(Image, Vec<u8>),
}

/// Parses a tree. A name that exists on the host is taken as it is, whatever it contains.
#[derive(Clone)]
struct TreeParser;

impl TypedValueParser for TreeParser {
    type Value = Tree;

    fn parse_ref(
        &self,
        command: &clap::Command,
        arg: Option<&clap::Arg>,
        value: &OsStr,
    ) -> Result<Tree, clap::Error> {
        let path = Path::new(value);
        let is_url = Location::is_url(bytes::of(value));
        if !is_url && path.is_dir() {
            return Ok(Tree::Host(path.to_owned()));
        }
        let (image, inside) = match split(bytes::of(value)) {
            Some((image, inside)) if is_url || !path.exists() => {
                (bytes::to_path(image).into_os_string(), inside.to_vec())
            }
            _ => (value.to_owned(), b"/".to_vec()),
        };
        let image = match is_url {
            true => LocationParser.parse_ref(command, arg, &image).map(Image::Publication)?,
            false => Image::Path(PathBuf::from(image)),
        };
        Ok(Tree::Volume(image, inside))
    }
}

/// Splits `IMAGE:/PATH`; `None` without a path. The `://` of a URL is none.
fn split(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let ends = |at: &usize| text[*at..].starts_with(b":/") && !text[*at..].starts_with(b"://");
    let at = (1..text.len()).rev().find(ends)?;
    Some((&text[..at], &text[at + 1..]))
}

/// A tree that is open.
enum Open<'t> {
    Host(&'t Path),
    Here(Box<Volume>, &'t [u8]),
    /// In the process that serves a mount of it.
    There(Box<RemoteVolume>, &'t [u8]),
}

impl Tree {
    fn open(&self) -> Result<Open<'_>, Failure> {
        let (image, path) = match self {
            Tree::Host(path) => return Ok(Open::Host(path)),
            Tree::Volume(image, path) => (image, &path[..]),
        };
        match image.open(Access::Read) {
            Ok(volume) => {
                image.warn_of_damage(&volume);
                volume.bound_expansion(expansion::DEFAULT);
                Ok(Open::Here(Box::new(volume), path))
            }
            Err(failure) => {
                let mount = mounted::in_place_of(image, failure)?;
                let volume = RemoteVolume::open(&mount, interrupt::raised).map_err(mounted::talk_failure)?;
                Ok(Open::There(Box::new(volume), path))
            }
        }
    }
}

impl Open<'_> {
    fn side(&self) -> Side<'_> {
        match self {
            Open::Host(path) => Side::Host(path),
            Open::Here(volume, path) => Side::Volume(&**volume as &dyn FileSystem, path),
            Open::There(volume, path) => Side::Volume(&**volume as &dyn FileSystem, path),
        }
    }
}

impl Diff {
    /// Compares the trees, and returns the exit code.
    ///
    /// # Errors
    /// A tree cannot be opened, or standard output not written.
    pub fn execute(&self) -> Result<u8, Failure> {
        let (from, to) = (self.from.open()?, self.to.open()?);
        interrupt::wait_for_commands();
        let collected = Collected::default();
        let report = self.compare(&from, &to, &|difference| collected.push(difference))?;
        let mut out = std::io::BufWriter::new(console::output());
        collected.print(&mut out, self.transfer.is_json())?;
        self.report(&mut out, &report)?;
        out.flush()?;
        let differs = report.counts.differences() > 0;
        Ok(report.report.exit_code().max(if differs { exit::PARTIAL } else { exit::OK }))
    }

    fn compare(
        &self,
        from: &Open<'_>,
        to: &Open<'_>,
        receiver: &(dyn Fn(&Difference) + Sync),
    ) -> Result<SyncReport, Failure> {
        let options = self.comparison.options(&self.transfer, Vec::new())?;
        let progress = TransferProgress::new("comparing");
        let interrupt = interrupt::flag();
        let control = Control { interrupt: &interrupt, progress: &progress };
        let outcome = diff_trees(from.side(), to.side(), &options, receiver, control);
        progress.clear();
        outcome.map_err(|error| transfer::failure(&error))
    }

    fn report(&self, out: &mut dyn Write, report: &SyncReport) -> Outcome {
        self.transfer.tell("compared", Target::Followed, &report.report);
        match self.transfer.is_json() {
            true => writeln!(out, "{}", json::text(&differences::as_json(report)))?,
            false => say(&differences::in_words(&report.counts)),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_in_a_volume_follows_the_last_colon_before_a_slash() {
        assert_eq!(split(b"v.lane"), None);
        assert_eq!(split(b"v.lane:/a/b"), Some((&b"v.lane"[..], &b"/a/b"[..])));
        assert_eq!(split(b"a:/b:/c"), Some((&b"a:/b"[..], &b"/c"[..])));
        assert_eq!(split(b"file:///srv/v"), None);
        assert_eq!(split(b"s3://b/p#tag:/d"), Some((&b"s3://b/p#tag"[..], &b"/d"[..])));
        assert_eq!(split(b":/a"), None);
    }
}
