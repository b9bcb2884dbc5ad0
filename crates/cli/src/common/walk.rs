//! Walk of a tree of the volume. It does not recurse, so no depth overflows the stack; it remembers the
//! directories that it entered, so no damaged volume keeps it for ever.

use super::engine::Prefetched;
use crate::session::context::Context;
use crate::terminal::failure::{Failure, check_interrupt};
use lanefs::{Attr, DirEntry, FileKind, FileSystem, Ino, path};
use std::collections::HashSet;

/// Entries in one read of a directory.
const PAGE_ENTRIES: usize = 4096;

/// Entries that a walk visits, and their order.
#[derive(Clone, Copy, Debug, Default)]
pub struct WalkOptions {
    /// Sorts entries by name; otherwise they come in the order of the directory.
    pub sorted: bool,
    /// Leaves out names that begin with a dot.
    pub skip_hidden: bool,
    /// Visits directories only.
    pub only_directories: bool,
    /// Enters no directory at this depth or deeper; the start has depth 0.
    pub max_depth: Option<usize>,
}

/// Kind of a visit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Visit {
    /// A directory before its entries, or any other file.
    Enter,
    /// A directory after its entries.
    Leave,
}

/// One step of a walk. [`Walk::path`] is its path.
#[derive(Clone, Copy, Debug)]
pub struct WalkStep {
    /// Before or after the entries.
    pub visit: Visit,
    /// Inode number.
    pub ino: Ino,
    /// Type.
    pub kind: FileKind,
    /// Number of directories between it and the start.
    pub depth: usize,
    /// True for the last entry that the walk visits in its directory. Known in sorted walks only.
    pub last: bool,
}

/// A directory that the walk is inside.
struct OpenDirectory {
    step: WalkStep,
    cookie: u64,
    entries: std::vec::IntoIter<DirEntry>,
    exhausted: bool,
    path_len: usize,
}

/// A walk in progress.
pub struct Walk<'v> {
    volume: &'v dyn FileSystem,
    options: WalkOptions,
    path: Vec<u8>,
    open: Vec<OpenDirectory>,
    start: Option<(Ino, FileKind)>,
    pending: Option<WalkStep>,
    entered: HashSet<Ino>,
    prefetched: Prefetched,
}

impl<'v> Walk<'v> {
    /// Starts a walk at an inode that was reached as `path`.
    pub fn new(
        volume: &'v dyn FileSystem,
        path: &[u8],
        ino: Ino,
        kind: FileKind,
        options: WalkOptions,
    ) -> Self {
        Walk {
            volume,
            options,
            path: path.to_vec(),
            open: Vec::new(),
            start: Some((ino, kind)),
            pending: None,
            entered: HashSet::new(),
            prefetched: Prefetched::default(),
        }
    }

    /// Takes entries from `prefetched` where it has them.
    pub fn with(self, prefetched: Prefetched) -> Self {
        Walk { prefetched, ..self }
    }

    /// Attributes that were prefetched.
    pub fn prefetched_attr(&self, ino: Ino) -> Option<Attr> {
        self.prefetched.attr(ino)
    }

    /// Path of the last visit: the path of the start and the names below it.
    pub fn path(&self) -> &[u8] {
        &self.path
    }

    /// Name of the last visit; empty for the root directory.
    pub fn name(&self) -> &[u8] {
        path::file_name(&self.path).unwrap_or_default()
    }

    /// Does not enter the directory that was visited last; no [`Visit::Leave`] follows.
    pub fn skip(&mut self) {
        self.pending = None;
    }

    /// Returns the next step; `None` at the end. After an error (a directory that cannot be read) the walk
    /// continues.
    #[allow(
        clippy::should_implement_trait,
        reason = "the path is borrowed from the walk, which an Iterator cannot express"
    )]
    pub fn next(&mut self) -> Option<Result<WalkStep, Failure>> {
        if let Some((ino, kind)) = self.start.take() {
            return Some(Ok(self.visit(WalkStep { visit: Visit::Enter, ino, kind, depth: 0, last: true })));
        }
        if let Some(step) = self.pending.take()
            && let Err(failure) = self.enter(step)
        {
            return Some(Err(failure));
        }
        loop {
            let dir = self.open.last_mut()?;
            self.path.truncate(dir.path_len);
            if let Some(entry) = dir.entries.next() {
                return Some(self.visit_entry(entry));
            }
            if dir.exhausted {
                let step = WalkStep { visit: Visit::Leave, ..dir.step };
                self.open.pop();
                return Some(Ok(step));
            }
            if let Err(failure) = self.read_page() {
                return Some(Err(failure));
            }
        }
    }

    /// Returns the next step of a walk that reports each directory that cannot be read, and continues.
    ///
    /// # Errors
    /// A failure that ends the command, such as Ctrl-C.
    pub fn advance(&mut self, context: &mut Context<'_>) -> Result<Option<WalkStep>, Failure> {
        while let Some(step) = self.next() {
            match step {
                Ok(step) => return check_interrupt().map(|()| Some(step)),
                Err(failure) => context.go_on(Err(failure))?,
            }
        }
        Ok(None)
    }

    /// Visits an entry of the innermost directory, which is at the end of the path.
    fn visit_entry(&mut self, entry: DirEntry) -> Result<WalkStep, Failure> {
        if !path::is_name(&entry.name) {
            return Err(impossible(path::join(&self.path, &entry.name)));
        }
        let (depth, last) = match self.open.last() {
            Some(dir) => (dir.step.depth + 1, self.options.sorted && dir.entries.len() == 0),
            None => (0, true),
        };
        if !self.path.is_empty() && !self.path.ends_with(b"/") {
            self.path.push(b'/');
        }
        self.path.extend_from_slice(&entry.name);
        Ok(self.visit(WalkStep { visit: Visit::Enter, ino: entry.ino, kind: entry.kind, depth, last }))
    }

    fn visit(&mut self, step: WalkStep) -> WalkStep {
        if step.kind == FileKind::Directory && self.options.max_depth.is_none_or(|max| step.depth < max) {
            self.pending = Some(step);
        }
        step
    }

    fn enter(&mut self, step: WalkStep) -> Result<(), Failure> {
        if !self.entered.insert(step.ino) {
            return Err(Failure::damage(&self.path, "the directory has more than one name"));
        }
        let entries = Vec::new().into_iter();
        let path_len = self.path.len();
        self.open.push(OpenDirectory { step, cookie: 0, entries, exhausted: false, path_len });
        Ok(())
    }

    /// Reads the next page of the innermost directory, or all of it if entries are sorted.
    fn read_page(&mut self) -> Result<(), Failure> {
        let Some(dir) = self.open.last_mut() else { return Ok(()) };
        let mut entries = Vec::new();
        if let Some(listed) = self.prefetched.take(dir.step.ino) {
            entries.extend(listed.into_iter().filter(|entry| self.options.shows(entry)));
            dir.exhausted = true;
        }
        while !dir.exhausted && (entries.is_empty() || self.options.sorted) {
            match self.volume.readdir(dir.step.ino, dir.cookie, PAGE_ENTRIES) {
                Ok(page) => {
                    dir.exhausted = page.is_empty();
                    dir.cookie = page.last().map_or(dir.cookie, |entry| entry.cookie);
                    entries.extend(page.into_iter().filter(|entry| self.options.shows(entry)));
                }
                Err(error) => {
                    dir.exhausted = true;
                    return Err(Failure::volume(&self.path, &error));
                }
            }
        }
        if self.options.sorted {
            entries.sort_unstable_by(|a, b| a.name.cmp(&b.name));
        }
        dir.entries = entries.into_iter();
        Ok(())
    }
}

/// The failure for a name that no sound volume has ([`path::is_name`]).
pub fn impossible(path: impl AsRef<[u8]>) -> Failure {
    Failure::damage(path, "the directory has an impossible name")
}

impl WalkOptions {
    fn shows(&self, entry: &DirEntry) -> bool {
        !(self.skip_hidden && entry.name.starts_with(b".")
            || self.only_directories && entry.kind != FileKind::Directory)
    }
}

/// Lists one directory, sorted by name.
///
/// # Errors
/// Names the path.
pub fn list(volume: &dyn FileSystem, path: &[u8], dir: Ino) -> Result<Vec<DirEntry>, Failure> {
    let mut entries: Vec<DirEntry> = Vec::new();
    loop {
        let cookie = entries.last().map_or(0, |entry| entry.cookie);
        let page = volume.readdir(dir, cookie, PAGE_ENTRIES).map_err(|e| Failure::volume(path, &e))?;
        if page.is_empty() {
            break;
        }
        entries.extend(page);
        check_interrupt()?;
    }
    entries.sort_unstable_by(|a, b| a.name.cmp(&b.name));
    Ok(entries)
}
