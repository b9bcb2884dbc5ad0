//! `lanefs remote diff`.

use crate::session::publication::{self, LocationParser, Tell};
use crate::terminal::console;
use crate::terminal::failure::{Failure, Outcome, check_interrupt};
use crate::text::escape::escape;
use crate::text::json;
use clap::Args;
use lanefs::{Attr, Caller, FileKind, Ino, OpenOptions, Volume};
use lanefs_publish::Location;
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::io::Write;

/// Entries in one read of a directory.
const PAGE_ENTRIES: usize = 4096;

/// Show the paths that differ between two versions
///
/// One line for each path: `+` is only in the second version, `-` only in the first, `M` is in both with
/// other content or other attributes. Of a directory that is only in one version, all that is below it
/// follows. Reads metadata and no data: a change sets the change time of a file, so equal attributes mean
/// equal content. The versions are of one volume.
#[derive(Debug, Args)]
pub(super) struct DiffVersions {
    /// The store, and a tag or a version
    #[arg(value_name = "URL", value_parser = LocationParser)]
    from: Location,
    /// The same or another store, and a tag or a version
    #[arg(value_name = "URL", value_parser = LocationParser)]
    to: Location,
    /// Print one JSON object per line: change, path
    #[arg(long)]
    json: bool,
}

/// The entries of a directory by name.
type Entries = BTreeMap<Vec<u8>, Ino>;

/// A path in one or both of the versions.
struct Pair {
    path: Vec<u8>,
    from: Option<Attr>,
    to: Option<Attr>,
}

/// A version that is compared.
struct Side<'d> {
    volume: Volume,
    location: &'d Location,
}

impl<'d> Side<'d> {
    fn open(location: &'d Location) -> Result<Self, Failure> {
        let (volume, _) = publication::open(location, OpenOptions::default(), Tell::User)?;
        Ok(Side { volume, location })
    }

    fn attr(&self, ino: Ino) -> Result<Attr, Failure> {
        self.volume.getattr(ino).map_err(|error| self.failed(&error))
    }

    /// All entries of a directory; none of another file.
    fn entries(&self, attr: Option<&Attr>) -> Result<Entries, Failure> {
        let Some(dir) = attr.filter(|attr| attr.kind == FileKind::Directory) else {
            return Ok(Entries::new());
        };
        let (mut found, mut cookie) = (Entries::new(), 0);
        loop {
            let page = self.volume.readdir(&Caller::OWNER, dir.ino, cookie, PAGE_ENTRIES);
            let page = page.map_err(|error| self.failed(&error))?;
            let Some(last) = page.last() else { return Ok(found) };
            cookie = last.cookie;
            let named = page.iter().filter(|entry| !matches!(&entry.name[..], b"." | b".."));
            found.extend(named.map(|entry| (entry.name.to_vec(), entry.ino)));
        }
    }

    fn failed(&self, error: &lanefs::Error) -> Failure {
        Failure::volume(self.location.to_string(), error)
    }
}

impl DiffVersions {
    /// Compares the versions.
    pub(super) fn execute(&self) -> Outcome {
        let (from, to) = (Side::open(&self.from)?, Side::open(&self.to)?);
        if from.volume.superblock().uuid != to.volume.superblock().uuid {
            let advice = "compare versions of one volume; `diff -r` compares mounted ones";
            return Err(Failure::usage(self.to.to_string(), "has versions of another volume", advice));
        }
        let mut out = console::output();
        let root = |side: &Side<'_>| side.attr(side.volume.root()).map(Some);
        let mut pending = vec![Pair { path: Vec::new(), from: root(&from)?, to: root(&to)? }];
        // No damaged volume, whose directories lead in a circle, keeps it for ever.
        let mut entered = HashSet::new();
        while let Some(pair) = pending.pop() {
            check_interrupt()?;
            self.print(&mut out, &pair)?;
            let ino = |attr: Option<Attr>| attr.map(|attr| attr.ino);
            if entered.insert((ino(pair.from), ino(pair.to))) {
                // The next one in the order of the names is the last one of the list.
                pending.extend(below(&from, &to, &pair)?.into_iter().rev());
            }
        }
        Ok(out.flush()?)
    }

    fn print(&self, out: &mut dyn Write, pair: &Pair) -> Outcome {
        let change = match (&pair.from, &pair.to) {
            (Some(from), Some(to)) if is_same(from, to) => return Ok(()),
            (Some(_), Some(_)) => 'M',
            (Some(_), None) => '-',
            (None, _) => '+',
        };
        let path = if pair.path.is_empty() { b"/" } else { &pair.path[..] };
        if self.json {
            let mut object = serde_json::Map::new();
            object.insert("change".into(), change.to_string().into());
            json::add_name(&mut object, "path", path);
            return Ok(writeln!(out, "{}", json::text(&object))?);
        }
        Ok(writeln!(out, "{change} {}", escape(path))?)
    }
}

/// The entries of a directory in one or both of the versions, by name.
fn below(from: &Side<'_>, to: &Side<'_>, pair: &Pair) -> Result<Vec<Pair>, Failure> {
    let (there, here) = (from.entries(pair.from.as_ref())?, to.entries(pair.to.as_ref())?);
    let names: BTreeSet<&Vec<u8>> = there.keys().chain(here.keys()).collect();
    let entry = |name: &Vec<u8>| {
        let path = [&pair.path[..], b"/", name].concat();
        let before = there.get(name).map(|ino| from.attr(*ino)).transpose()?;
        let after = here.get(name).map(|ino| to.attr(*ino)).transpose()?;
        Ok(Pair { path, from: before, to: after })
    };
    names.into_iter().map(entry).collect()
}

/// True for the same file without a change: a change sets the change time. Reading sets the access time,
/// which is not a change.
fn is_same(a: &Attr, b: &Attr) -> bool {
    Attr { atime: b.atime, ..*a } == *b
}
