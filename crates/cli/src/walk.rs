//! Walks a tree of the volume without recursion, so that no depth overflows the stack, and without trusting that
//! directories form a tree, so that no damaged volume keeps it forever.

use crate::ahead::Ahead;
use crate::context::OWNER;
use crate::exit::{self, Failure};
use lanefs::{Attr, DirEntry, FileKind, Ino, Volume};
use std::collections::HashSet;

/// Entries read at once where the order does not matter.
const PAGE: usize = 4096;

/// Which entries a walk shows, and in which order.
#[derive(Clone, Copy, Debug, Default)]
pub struct WalkOptions {
    /// Entries sorted by name; else in the order of the directory.
    pub sorted: bool,
    /// Leaves out names that begin with a dot.
    pub skip_hidden: bool,
    /// Shows directories only.
    pub only_directories: bool,
    /// Enters no directory at this depth or deeper; the start has depth 0.
    pub max_depth: Option<usize>,
}

/// What a walk shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Visit {
    /// A directory, before its entries; or anything else.
    Enter,
    /// A directory, after its entries.
    Leave,
}

/// One step of a walk. [`Walk::path`] is the path of what is visited.
#[derive(Clone, Copy, Debug)]
pub struct Step {
    /// Before or after the entries.
    pub visit: Visit,
    /// Inode number.
    pub ino: Ino,
    /// Type.
    pub kind: FileKind,
    /// Directories between it and the start.
    pub depth: usize,
    /// True for the last entry that the walk shows in its directory. Known in sorted walks only.
    pub last: bool,
}

struct Frame {
    step: Step,
    cookie: u64,
    entries: std::vec::IntoIter<DirEntry>,
    exhausted: bool,
    path_len: usize,
}

/// A walk in progress.
pub struct Walk<'v> {
    volume: &'v Volume,
    options: WalkOptions,
    path: Vec<u8>,
    frames: Vec<Frame>,
    start: Option<(Ino, FileKind)>,
    pending: Option<Step>,
    seen: HashSet<Ino>,
    ahead: Ahead,
}

impl<'v> Walk<'v> {
    /// A walk from an inode that was reached as `path`.
    pub fn new(volume: &'v Volume, path: &[u8], ino: Ino, kind: FileKind, options: WalkOptions) -> Self {
        Walk {
            volume,
            options,
            path: path.to_vec(),
            frames: Vec::new(),
            start: Some((ino, kind)),
            pending: None,
            seen: HashSet::new(),
            ahead: Ahead::default(),
        }
    }

    /// Takes from what was listed ahead what is there.
    pub(crate) fn with(self, ahead: Ahead) -> Self {
        Walk { ahead, ..self }
    }

    /// Attributes that were read ahead.
    pub(crate) fn attr(&self, ino: Ino) -> Option<Attr> {
        self.ahead.attr(ino)
    }

    /// The path of what was visited last: the start's path and the names below it.
    pub fn path(&self) -> &[u8] {
        &self.path
    }

    /// The name of what was visited last; empty for the root directory.
    pub fn name(&self) -> &[u8] {
        crate::context::split(&self.path).1
    }

    /// Does not enter the directory that was visited last; no [`Visit::Leave`] follows.
    pub fn skip(&mut self) {
        self.pending = None;
    }

    /// The next step; `None` at the end. After an error (a directory that cannot be read) the walk goes on.
    #[allow(
        clippy::should_implement_trait,
        reason = "the path is borrowed from the walk, which an Iterator cannot say"
    )]
    pub fn next(&mut self) -> Option<Result<Step, Failure>> {
        if let Some((ino, kind)) = self.start.take() {
            return Some(Ok(self.enter(Step { visit: Visit::Enter, ino, kind, depth: 0, last: true })));
        }
        if let Some(step) = self.pending.take()
            && let Err(failure) = self.push(step)
        {
            return Some(Err(failure));
        }
        loop {
            let frame = self.frames.last_mut()?;
            self.path.truncate(frame.path_len);
            if let Some(entry) = frame.entries.next() {
                if !is_possible(&entry.name) {
                    return Some(Err(impossible(crate::context::join(&self.path, &entry.name))));
                }
                let last = self.options.sorted && frame.entries.len() == 0;
                let depth = frame.step.depth + 1;
                if !self.path.is_empty() && !self.path.ends_with(b"/") {
                    self.path.push(b'/');
                }
                self.path.extend_from_slice(&entry.name);
                let step = Step { visit: Visit::Enter, ino: entry.ino, kind: entry.kind, depth, last };
                return Some(Ok(self.enter(step)));
            }
            if frame.exhausted {
                let step = Step { visit: Visit::Leave, ..frame.step };
                self.frames.pop();
                return Some(Ok(step));
            }
            if let Err(failure) = self.fill() {
                return Some(Err(failure));
            }
        }
    }

    fn enter(&mut self, step: Step) -> Step {
        if step.kind == FileKind::Directory && self.options.max_depth.is_none_or(|max| step.depth < max) {
            self.pending = Some(step);
        }
        step
    }

    fn push(&mut self, step: Step) -> Result<(), Failure> {
        if !self.seen.insert(step.ino) {
            let what = "the directory has more than one name";
            return Err(Failure::new(exit::IMAGE, &self.path, what, "run `lanefs fsck` on the image"));
        }
        let entries = Vec::new().into_iter();
        self.frames.push(Frame { step, cookie: 0, entries, exhausted: false, path_len: self.path.len() });
        Ok(())
    }

    /// Reads the next page of the innermost directory, or all of it where it is to be sorted.
    fn fill(&mut self) -> Result<(), Failure> {
        let Some(frame) = self.frames.last_mut() else { return Ok(()) };
        let mut entries = Vec::new();
        if let Some(listed) = self.ahead.take(frame.step.ino) {
            entries.extend(listed.into_iter().filter(|entry| self.options.shows(entry)));
            frame.exhausted = true;
        }
        while !frame.exhausted && (entries.is_empty() || self.options.sorted) {
            match self.volume.readdir(&OWNER, frame.step.ino, frame.cookie, PAGE) {
                Ok(page) => {
                    frame.exhausted = page.is_empty();
                    frame.cookie = page.last().map_or(frame.cookie, |entry| entry.cookie);
                    entries.extend(page.into_iter().filter(|entry| self.options.shows(entry)));
                }
                Err(error) => {
                    frame.exhausted = true;
                    return Err(Failure::volume(&self.path, &error));
                }
            }
        }
        if self.options.sorted {
            entries.sort_unstable_by(|a, b| a.name.cmp(&b.name));
        }
        frame.entries = entries.into_iter();
        Ok(())
    }
}

/// False for a name that no sound volume has: it would lead its reader to another place.
pub fn is_possible(name: &[u8]) -> bool {
    !matches!(name, b"" | b"." | b"..") && !name.iter().any(|byte| matches!(byte, 0 | b'/'))
}

/// The volume holds such a name.
pub fn impossible(path: impl AsRef<[u8]>) -> Failure {
    Failure::new(exit::IMAGE, path, "the volume holds an impossible name", "run `lanefs fsck` on the image")
}

impl WalkOptions {
    fn shows(&self, entry: &DirEntry) -> bool {
        !(self.skip_hidden && entry.name.starts_with(b".")
            || self.only_directories && entry.kind != FileKind::Directory)
    }
}

/// All entries of one directory, sorted by name.
///
/// # Errors
/// Name the path.
pub fn list(volume: &Volume, path: &[u8], dir: Ino) -> Result<Vec<DirEntry>, Failure> {
    let mut entries: Vec<DirEntry> = Vec::new();
    loop {
        let cookie = entries.last().map_or(0, |entry| entry.cookie);
        let page = volume.readdir(&OWNER, dir, cookie, PAGE).map_err(|e| Failure::volume(path, &e))?;
        if page.is_empty() {
            break;
        }
        entries.extend(page);
        crate::interrupt::check()?;
    }
    entries.sort_unstable_by(|a, b| a.name.cmp(&b.name));
    Ok(entries)
}
