//! Searches below a directory, with paths, in the order of a walk through the tree.

use super::find::{Candidate, Match};
use super::mirrored::Mirrored;
use crate::inputs::filter::Filter;
use lanefs::{BatchReport, FileKind, Ino, path};
use std::collections::HashSet;

/// An entry that a search below a directory found.
#[derive(Clone, Copy, Debug)]
pub struct Below<'f> {
    /// Path of the entry: the start's path and the names below it.
    pub path: &'f [u8],
    /// Number of names after the start's path.
    pub depth: usize,
    /// The entry.
    pub entry: &'f Match,
}

/// A directory on the way from the start to the current entry.
struct Frame {
    /// Its remaining entries: indexes of candidates, which are in order.
    left: std::ops::Range<usize>,
    path_len: usize,
}

impl Mirrored<'_> {
    /// Finds entries as [`find`](Self::find), below a directory with the path `path`, down to `max_depth`
    /// levels. Passes each entry to `each`, a directory before the entries in it, in the order of
    /// `readdir`; the search ends where `each` returns false. The device gives all directories too, for the
    /// paths.
    ///
    /// # Errors
    /// An error of the volume.
    pub fn find_below(
        &self,
        filter: &Filter,
        start: Ino,
        path: &[u8],
        max_depth: Option<usize>,
        each: &mut dyn FnMut(Below<'_>) -> bool,
    ) -> lanefs::Result<BatchReport> {
        let (all, report) = self.candidates(filter, true)?;
        let mut path = path.to_vec();
        let mut frames = Vec::new();
        // A damaged volume may name a directory more than once.
        let mut visited = HashSet::new();
        let mut enter = |dir: Ino, depth: usize, path: &[u8]| {
            let is_wanted = max_depth.is_none_or(|max| depth < max) && visited.insert(dir);
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
            if entry.kind == FileKind::Directory && path::is_name(&entry.name) {
                frames.extend(enter(entry.ino, depth, &path));
            }
        }
        Ok(report)
    }
}

/// Returns the indexes of a directory's candidates.
fn entries_of(all: &[Candidate], dir: Ino) -> std::ops::Range<usize> {
    all.partition_point(|(entry, _)| entry.dir < dir)..all.partition_point(|(entry, _)| entry.dir <= dir)
}
