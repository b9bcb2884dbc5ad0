//! The files of a search, in the order of their paths.

use super::walk::{Visit, Walk, WalkOptions};
use crate::session::context::Context;
use crate::session::expansion::ExpansionArgs;
use crate::terminal::failure::Failure;
use crate::terminal::interrupt;
use crate::text::bytes;
use crate::text::escape::escape;
use lanefs::{Attr, FileKind, Volume, path};
use lanefs_search::{Candidate, FileError, Selection};
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;

/// A PATH of the command line.
struct Start {
    path: Vec<u8>,
    /// The same from the root directory on, without `.` and `..`.
    absolute: Vec<u8>,
    attr: Attr,
}

/// Finds the files below some paths.
pub struct SearchFiles<'v> {
    volume: &'v Volume,
    starts: std::vec::IntoIter<Start>,
    /// The walk below a directory, and its start.
    walk: Option<(Walk<'v>, Start)>,
    selection: Selection,
    expansion: ExpansionArgs,
    is_one_file: bool,
    /// True where the shown paths are escaped.
    pub escapes: bool,
    /// Paths that are missing, directories that cannot be read, and files of impossible sizes.
    pub failures: Vec<Failure>,
    /// The search cannot go on.
    is_over: bool,
}

impl<'v> SearchFiles<'v> {
    /// Looks at the paths; the working directory where there are none.
    ///
    /// # Errors
    /// The volume's, if it cannot answer.
    pub fn new(
        context: &Context<'v>,
        paths: Vec<&OsString>,
        selection: Selection,
        expansion: ExpansionArgs,
    ) -> Result<Self, Failure> {
        let (mut starts, mut failures) = (Vec::new(), Vec::new());
        let here = [OsString::from_vec(context.cwd.clone())];
        let paths = if paths.is_empty() { here.iter().collect() } else { paths };
        for path in &paths {
            let path = bytes::of(path).to_vec();
            match context.resolve(&path, true) {
                Ok(attr) => starts.push(Start { absolute: absolute(&context.cwd, &path), path, attr }),
                Err(failure @ Failure::Message { ends: false, .. }) => failures.push(failure),
                Err(failure) => return Err(failure),
            }
        }
        let is_one_file = paths.len() == 1 && starts.iter().all(|start| start.attr.kind == FileKind::File);
        let (volume, starts) = (context.volume, starts.into_iter());
        Ok(SearchFiles {
            volume,
            starts,
            walk: None,
            selection,
            expansion,
            is_one_file,
            escapes: false,
            failures,
            is_over: false,
        })
    }

    /// True where the only path is a file.
    pub fn is_one_file(&self) -> bool {
        self.is_one_file
    }

    fn next_of_walk(&mut self) -> Option<Candidate> {
        let (mut walk, start) = self.walk.take()?;
        while !self.is_over {
            let step = match walk.next()? {
                Ok(step) => step,
                Err(failure) => {
                    self.fail(failure);
                    continue;
                }
            };
            if step.visit == Visit::Leave || step.depth == 0 {
                continue;
            }
            // Globs with slashes are anchored at the root of the volume.
            let below = walk.path().get(start.path.len()..).unwrap_or_default();
            let absolute = path::join(&start.absolute, below.strip_prefix(b"/").unwrap_or(below));
            match step.kind {
                FileKind::Directory if !self.selection.enters(&absolute) => walk.skip(),
                FileKind::Directory => self.is_over = interrupt::raised(),
                FileKind::File if self.selection.takes(&absolute) => match self.volume.getattr(step.ino) {
                    Ok(attr) => {
                        if let Some(found) = self.candidate(walk.path(), &attr, false) {
                            self.walk = Some((walk, start));
                            return Some(found);
                        }
                    }
                    Err(error) => self.fail(Failure::volume(walk.path(), &error)),
                },
                _ => {}
            }
        }
        None
    }

    /// Keeps a failure. One after which the others would fail alike ends the search.
    fn fail(&mut self, failure: Failure) {
        self.is_over |= !matches!(failure, Failure::Message { ends: false, .. });
        self.failures.push(failure);
    }

    /// A file to search in; `None` for one that is far larger than the volume.
    fn candidate(&mut self, path: &[u8], attr: &Attr, is_named: bool) -> Option<Candidate> {
        let bytes = self.volume.superblock().volume_bytes;
        if let Err(failure) = self.expansion.check(bytes, path, attr.size, TOO_LARGE) {
            self.fail(failure);
            return None;
        }
        let shown = self.escapes.then(|| escape(path).into_bytes());
        Some(Candidate { path: path.to_vec(), shown, ino: attr.ino, size: attr.size, is_named })
    }
}

/// Keeps the failure of a file. False for one after which the others would fail alike.
pub fn keep(failures: &mut Vec<Failure>, path: &[u8], error: &FileError) -> bool {
    let failure = match error {
        FileError::Volume(error) => Failure::volume(path, error),
        error => Failure::partial(path, &error.to_string(), "it is searched up to there"),
    };
    let goes_on = matches!(failure, Failure::Message { ends: false, .. });
    failures.push(failure);
    goes_on
}

/// Advice on a file that is not searched.
const TOO_LARGE: &str = "it is left out; --max-expansion 0 reads it";

/// The path from the root directory on, without `.` and `..`, as its text says. (Links are not followed: the
/// path of a file in the output is that of the link, too.)
pub fn absolute(cwd: &[u8], path: &[u8]) -> Vec<u8> {
    let from = if path.starts_with(b"/") { &b""[..] } else { cwd };
    let mut names: Vec<&[u8]> = Vec::new();
    for name in path::components(from).chain(path::components(path)) {
        match name {
            b"." => {}
            b".." => drop(names.pop()),
            name => names.push(name),
        }
    }
    [b"/", &names.join(&b'/')[..]].concat()
}

impl Iterator for SearchFiles<'_> {
    type Item = Candidate;

    fn next(&mut self) -> Option<Candidate> {
        while !self.is_over {
            if let Some(found) = self.next_of_walk() {
                return Some(found);
            }
            let start = self.starts.next()?;
            match start.attr.kind {
                FileKind::Directory => {
                    let options = WalkOptions { sorted: true, ..WalkOptions::default() };
                    let walk = Walk::new(self.volume, &start.path, start.attr.ino, start.attr.kind, options);
                    self.walk = Some((walk, start));
                }
                // Globs and types do not count for a file that is named.
                FileKind::File => match self.candidate(&start.path, &start.attr, true) {
                    Some(found) => return Some(found),
                    None => continue,
                },
                // Of other files there is nothing to read.
                _ => {}
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::absolute;

    #[test]
    fn a_path_is_made_absolute_by_its_text() {
        for (cwd, path, expected) in [
            ("/", "", "/"),
            ("/a/b", "c", "/a/b/c"),
            ("/a/b", "./../c/.", "/a/c"),
            ("/a", "/x//y/", "/x/y"),
            ("/a", "../../..", "/"),
        ] {
            let found = absolute(cwd.as_bytes(), path.as_bytes());
            assert_eq!(String::from_utf8_lossy(&found), expected, "{path} in {cwd}");
        }
    }
}
