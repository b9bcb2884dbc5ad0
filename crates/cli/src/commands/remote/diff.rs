//! `lanefs remote diff`.

use crate::session::publication::{self, LocationParser, Tell};
use crate::terminal::console;
use crate::terminal::failure::{Failure, Outcome, check_interrupt};
use crate::text::escape::escape;
use crate::text::json;
use clap::Args;
use lanefs::{Attr, Caller, FileKind, Ino, OpenOptions, Volume};
use lanefs_publish::{Hash, Location, Shard};
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::io::Write;
use std::ops::Bound;

/// Entries in one read of a directory.
const PAGE_ENTRIES: usize = 4096;

/// Show the paths that differ between two versions
///
/// One line for each path: `+` is only in the second version, `-` only in the first, `M` is in both with
/// other content or other attributes. Of a directory that is only in one version, all that is below it
/// follows. Reads metadata and no data: a change sets the change time of a file, so equal attributes mean
/// equal content. The versions are of one volume, or of one join. A shard that both versions of a join have
/// is not opened.
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
    /// The shards of a join by their prefixes; none of one volume.
    shards: BTreeMap<Vec<u8>, Hash>,
}

impl<'d> Side<'d> {
    fn open(location: &'d Location) -> Result<Self, Failure> {
        let (volume, reading) = publication::open(location, OpenOptions::default(), Tell::User)?;
        let shards = reading.shards().iter().map(|shard: &Shard| (shard.prefix.clone(), shard.version));
        let shards = shards.collect();
        Ok(Side { volume, location, shards })
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

/// The shards of two joins, compared before any directory is read.
#[derive(Default)]
struct Shards {
    /// Prefixes of shards, and whether both versions have the same shard there.
    is_same: BTreeMap<Vec<u8>, bool>,
}

impl Shards {
    fn compare(from: &BTreeMap<Vec<u8>, Hash>, to: &BTreeMap<Vec<u8>, Hash>) -> Shards {
        let prefixes = from.keys().chain(to.keys());
        let is_same = prefixes.map(|prefix| (prefix.clone(), from.get(prefix) == to.get(prefix))).collect();
        Shards { is_same }
    }

    /// True for a path that is in a shard which both versions have.
    fn has_same(&self, path: &[u8]) -> bool {
        let mut prefix = path;
        loop {
            if let Some(is_same) = self.is_same.get(prefix) {
                return *is_same;
            }
            let Some(slash) = prefix.iter().rposition(|byte| *byte == b'/') else { return false };
            prefix = &prefix[..slash];
        }
    }

    /// True where nothing differs at a path, nor below it.
    fn has_same_tree(&self, path: &[u8]) -> bool {
        let below = [path, b"/"].concat();
        let after = (Bound::Included(&below[..]), Bound::Unbounded);
        let mut inside =
            self.is_same.range::<[u8], _>(after).take_while(|(other, _)| other.starts_with(&below));
        self.has_same(path) && inside.all(|(_, is_same)| *is_same)
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
        let shards = Shards::compare(&from.shards, &to.shards);
        if shards.has_same_tree(b"") {
            return Ok(());
        }
        let mut out = console::output();
        let root = |side: &Side<'_>| side.attr(side.volume.root()).map(Some);
        let mut pending = vec![Pair { path: Vec::new(), from: root(&from)?, to: root(&to)? }];
        // No damaged volume, whose directories lead in a circle, keeps it for ever.
        let mut entered = HashSet::new();
        while let Some(pair) = pending.pop() {
            check_interrupt()?;
            if !shards.has_same(&pair.path) {
                self.print(&mut out, &pair, !shards.is_same.is_empty())?;
            }
            let ino = |attr: Option<Attr>| attr.map(|attr| attr.ino);
            if entered.insert((ino(pair.from), ino(pair.to))) {
                // The next one in the order of the names is the last one of the list.
                pending.extend(below(&from, &to, &pair, &shards)?.into_iter().rev());
            }
        }
        Ok(out.flush()?)
    }

    fn print(&self, out: &mut dyn Write, pair: &Pair, of_joins: bool) -> Outcome {
        let change = match (&pair.from, &pair.to) {
            (Some(from), Some(to)) if is_same(from, to, of_joins) => return Ok(()),
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

/// The entries of a directory in one or both of the versions, by name, but for those that are known to be
/// the same with all below them.
fn below(from: &Side<'_>, to: &Side<'_>, pair: &Pair, shards: &Shards) -> Result<Vec<Pair>, Failure> {
    let (there, here) = (from.entries(pair.from.as_ref())?, to.entries(pair.to.as_ref())?);
    let names: BTreeSet<&Vec<u8>> = there.keys().chain(here.keys()).collect();
    let named = names.into_iter().map(|name| (name, [&pair.path[..], b"/", name].concat()));
    let entry = |(name, path): (&Vec<u8>, Vec<u8>)| {
        let before = there.get(name).map(|ino| from.attr(*ino)).transpose()?;
        let after = here.get(name).map(|ino| to.attr(*ino)).transpose()?;
        Ok(Pair { path, from: before, to: after })
    };
    named.filter(|(_, path)| !shards.has_same_tree(path)).map(entry).collect()
}

/// True for the same file without a change: a change sets the change time. Reading sets the access time,
/// which is not a change. The number of an inode of a join says where its shard lies, which is not one
/// either.
fn is_same(a: &Attr, b: &Attr, of_joins: bool) -> bool {
    let ino = if of_joins { b.ino } else { a.ino };
    Attr { atime: b.atime, ino, ..*a } == *b
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_shards_that_differ_and_the_way_to_them_are_read() {
        let of = |shards: &[(&str, &str)]| -> BTreeMap<Vec<u8>, Hash> {
            let shards = shards.iter();
            shards.map(|(at, version)| (at.as_bytes().to_vec(), Hash::of(version.as_bytes()))).collect()
        };
        let from = of(&[("", "frame"), ("/a", "1"), ("/a/in", "2"), ("/a-b", "3"), ("/gone", "4")]);
        let to = of(&[("", "frame"), ("/a", "1"), ("/a/in", "other"), ("/a-b", "3")]);
        let shards = Shards::compare(&from, &to);
        // The path, whether its own shard is the same, and whether all below is.
        for (path, same, tree) in [
            ("", true, false),
            ("/a", true, false),
            ("/a/in", false, false),
            ("/a/in/x", false, false),
            ("/a/inner", true, true),
            ("/a-b", true, true),
            ("/a-b/x/y", true, true),
            ("/gone", false, false),
            ("/z", true, true),
        ] {
            let found = (shards.has_same(path.as_bytes()), shards.has_same_tree(path.as_bytes()));
            assert_eq!(found, (same, tree), "{path}");
        }
        assert!(Shards::compare(&from, &from).has_same_tree(b""));
        assert!(!Shards::default().has_same_tree(b""), "of one volume nothing is known");
    }
}
