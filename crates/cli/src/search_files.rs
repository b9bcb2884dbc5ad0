//! The files of a search, in the order of their paths.

use crate::bytes;
use crate::context::Context;
use crate::escape::escape;
use crate::failure::Failure;
use crate::walk::{Visit, Walk, WalkOptions};
use lanefs::{Attr, FileKind, Volume};
use lanefs_search::{Candidate, Selection};
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;

/// A PATH of the command line.
struct Start {
    path: Vec<u8>,
    attr: Attr,
}

/// Finds the files below some paths.
pub struct SearchFiles<'v> {
    volume: &'v Volume,
    starts: std::vec::IntoIter<Start>,
    walk: Option<Walk<'v>>,
    selection: Selection,
    is_one_file: bool,
    /// True where the shown paths are escaped.
    pub escapes: bool,
    /// Paths that are missing, and directories that cannot be read.
    pub failures: Vec<Failure>,
}

impl<'v> SearchFiles<'v> {
    /// Looks at the paths; the working directory where there are none.
    ///
    /// # Errors
    /// The volume's, if it cannot answer.
    pub fn new(context: &Context<'v>, paths: Vec<&OsString>, selection: Selection) -> Result<Self, Failure> {
        let (mut starts, mut failures) = (Vec::new(), Vec::new());
        let here = [OsString::from_vec(context.cwd.clone())];
        let paths = if paths.is_empty() { here.iter().collect() } else { paths };
        for path in &paths {
            let path = bytes::of(path).to_vec();
            match context.resolve(&path, true) {
                Ok(attr) => starts.push(Start { path, attr }),
                Err(failure @ Failure::Message { ends: false, .. }) => failures.push(failure),
                Err(failure) => return Err(failure),
            }
        }
        let is_one_file = paths.len() == 1 && starts.iter().all(|start| start.attr.kind == FileKind::File);
        let (volume, starts) = (context.volume, starts.into_iter());
        Ok(SearchFiles { volume, starts, walk: None, selection, is_one_file, escapes: false, failures })
    }

    /// True where the only path is a file.
    pub fn is_one_file(&self) -> bool {
        self.is_one_file
    }

    fn next_of_walk(&mut self) -> Option<Candidate> {
        let mut walk = self.walk.take()?;
        while let Some(step) = walk.next() {
            let step = match step {
                Ok(step) => step,
                Err(failure) => {
                    self.failures.push(failure);
                    continue;
                }
            };
            if step.visit == Visit::Leave || step.depth == 0 {
                continue;
            }
            // Globs with slashes are anchored at the root of the volume.
            let path = [b"/", walk.path()].concat();
            let absolute = if walk.path().starts_with(b"/") { &path[1..] } else { &path[..] };
            match step.kind {
                FileKind::Directory if !self.selection.enters(absolute) => walk.skip(),
                FileKind::File if self.selection.takes(absolute) => match self.volume.getattr(step.ino) {
                    Ok(attr) => {
                        let found = self.candidate(walk.path(), &attr, false);
                        self.walk = Some(walk);
                        return Some(found);
                    }
                    Err(error) => self.failures.push(Failure::volume(walk.path(), &error)),
                },
                _ => {}
            }
        }
        None
    }

    fn candidate(&self, path: &[u8], attr: &Attr, is_named: bool) -> Candidate {
        let path = if self.escapes { escape(path).into_bytes() } else { path.to_vec() };
        Candidate { path, ino: attr.ino, size: attr.size, is_named }
    }
}

impl Iterator for SearchFiles<'_> {
    type Item = Candidate;

    fn next(&mut self) -> Option<Candidate> {
        loop {
            if let Some(found) = self.next_of_walk() {
                return Some(found);
            }
            let Start { path, attr } = self.starts.next()?;
            match attr.kind {
                FileKind::Directory => {
                    let options = WalkOptions { sorted: true, ..WalkOptions::default() };
                    self.walk = Some(Walk::new(self.volume, &path, attr.ino, attr.kind, options));
                }
                // Globs and types do not count for a file that is named.
                FileKind::File => return Some(self.candidate(&path, &attr, true)),
                // Of other files there is nothing to read.
                _ => {}
            }
        }
    }
}
