//! Searches below a directory, with paths, in the order in which one who walks through the tree comes past.

use crate::filter::Filter;
use crate::find::{Candidate, Match};
use crate::mirrored::{Mirrored, Report};
use lanefs::{FileKind, Ino};
use std::collections::HashSet;

/// Where a search has come.
#[derive(Clone, Copy, Debug)]
pub struct Below<'f> {
    /// Path of the entry: the start's path and the names below it.
    pub path: &'f [u8],
    /// Names behind the start's path.
    pub depth: usize,
    /// The entry.
    pub entry: &'f Match,
}

/// A directory that is being gone through.
struct Frame {
    /// Its entries that are left: numbers of candidates, which are in order.
    left: std::ops::Range<usize>,
    path_len: usize,
}

impl Mirrored<'_, '_> {
    /// As [`find`](Self::find), below a directory that was reached as `path`, down to `max_depth` levels. `each` is told every entry, of
    /// a directory before those in it, in the order of `readdir`; where it says false the search ends. The device gives all directories
    /// too, for the paths.
    ///
    /// # Errors
    /// The volume's.
    pub fn find_below(
        &self,
        filter: &Filter,
        start: Ino,
        path: &[u8],
        max_depth: Option<usize>,
        each: &mut dyn FnMut(Below<'_>) -> bool,
    ) -> lanefs::Result<Report> {
        let (all, report) = self.candidates(filter, true)?;
        let mut path = path.to_vec();
        let mut frames = Vec::new();
        // A damaged volume may name a directory more than once.
        let mut seen = HashSet::new();
        let mut enter = |dir: Ino, depth: usize, path: &[u8]| {
            let is_wanted = max_depth.is_none_or(|max| depth < max) && seen.insert(dir);
            is_wanted.then(|| Frame { left: entries_of(&all, dir), path_len: path.len() })
        };
        frames.extend(enter(start, 0, &path));
        while let Some(frame) = frames.last_mut() {
            path.truncate(frame.path_len);
            let Some((entry, is_match)) = frame.left.next().and_then(|number| all.get(number)) else {
                frames.pop();
                continue;
            };
            if !path.is_empty() && !path.ends_with(b"/") {
                path.push(b'/');
            }
            path.extend_from_slice(&entry.name);
            let depth = frames.len();
            if *is_match && !each(Below { path: &path, depth, entry }) {
                break;
            }
            if entry.kind == FileKind::Directory && is_possible(&entry.name) {
                frames.extend(enter(entry.ino, depth, &path));
            }
        }
        Ok(report)
    }
}

/// The numbers of a directory's candidates.
fn entries_of(all: &[Candidate], dir: Ino) -> std::ops::Range<usize> {
    all.partition_point(|(entry, _)| entry.dir < dir)..all.partition_point(|(entry, _)| entry.dir <= dir)
}

/// Names that no sound volume has lead elsewhere.
fn is_possible(name: &[u8]) -> bool {
    !matches!(name, b"" | b"." | b"..") && !name.iter().any(|byte| matches!(byte, 0 | b'/'))
}
