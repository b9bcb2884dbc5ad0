//! Names, read by several threads, a directory at a time.

use super::names::{Dir, Entry, Names, mask};
use lanefs::{DirEntry, Error, FileKind, FileSystem, Ino, path};
use lanefs_sync::lock::{Condvar, Mutex, MutexGuard};
use std::collections::HashSet;

/// Entries in one read of a directory.
const PAGE_ENTRIES: usize = 8192;
/// Bytes of a path of a directory at most.
const MAX_PATH_BYTES: usize = 1 << 30;

/// A directory, or any other file, below which names are gathered.
#[derive(Clone, Debug)]
pub struct Start {
    /// The path with which the paths below it begin.
    pub path: Vec<u8>,
    /// Its inode.
    pub ino: Ino,
    /// Its type.
    pub kind: FileKind,
}

/// Options of [`Names::gather`].
#[derive(Clone, Copy, Debug)]
pub struct GatherOptions {
    /// Threads that read directories.
    pub threads: usize,
    /// The starts themselves are entries too, and not only those that are not a directory.
    pub with_starts: bool,
    /// Levels of directories below a start that are entered; none: all.
    pub max_depth: Option<usize>,
}

/// A directory that was not read to its end, or a name that was left out.
#[derive(Debug)]
pub struct Unread {
    /// The path of the directory.
    pub path: Vec<u8>,
    /// The reason.
    pub why: UnreadReason,
}

/// Reason of [`Unread`].
#[derive(Debug)]
pub enum UnreadReason {
    /// The volume cannot list the directory.
    Volume(Error),
    /// The directory has an impossible name: the volume is damaged.
    ImpossibleName,
    /// The directory has more than one name: the volume is damaged.
    SecondName,
    /// There are more entries than numbers for them, or the path is too long.
    TooMany,
}

/// A directory that was read.
struct ReadDir {
    number: u32,
    text: Vec<u8>,
    entries: Vec<(Entry, Ino)>,
    /// The directories among the entries that were put into the queue.
    below: Vec<Below>,
    unread: Vec<UnreadReason>,
}

/// A directory among the entries of another one.
#[derive(Clone, Copy)]
struct Below {
    entry: u32,
    number: u32,
}

struct Queue {
    waiting: Vec<Waiting>,
    /// Threads that read a directory.
    busy: usize,
    /// The directories below each start, by its number: a start may lie below another one.
    entered: HashSet<(usize, Ino)>,
    next_number: u32,
}

/// A directory that is to be read.
#[derive(Clone, Copy)]
struct Waiting {
    number: u32,
    ino: Ino,
    /// Depth of its entries.
    depth: usize,
    start: usize,
}

struct Gathering<'v> {
    volume: &'v dyn FileSystem,
    options: GatherOptions,
    stop: &'v (dyn Fn() -> bool + Sync),
    queue: Mutex<Queue>,
    changed: Condvar,
}

impl Names {
    /// Reads the names of all files below the starts. `stop` is asked before each directory; when it returns
    /// true, the names so far are the result.
    pub fn gather(
        volume: &dyn FileSystem,
        starts: &[Start],
        options: &GatherOptions,
        stop: &(dyn Fn() -> bool + Sync),
    ) -> (Names, Vec<Unread>) {
        let mut top = ReadDir::new(0);
        let next_number = starts.len() as u32 + 1;
        let mut queue = Queue { waiting: Vec::new(), busy: 0, entered: HashSet::new(), next_number };
        for (index, start) in starts.iter().enumerate() {
            if start.kind == FileKind::Directory && options.max_depth != Some(0) {
                let below = Below { entry: index as u32, number: index as u32 + 1 };
                queue.waiting.push(Waiting { number: below.number, ino: start.ino, depth: 1, start: index });
                queue.entered.insert((index, start.ino));
                top.below.push(below);
            }
            top.add(&start.path, start.kind, start.ino);
        }
        // The first start is read first.
        queue.waiting.reverse();
        let changed = Condvar::new();
        let gathering = Gathering { volume, options: *options, stop, queue: Mutex::new(queue), changed };
        let mut read = Vec::new();
        std::thread::scope(|scope| {
            let others: Vec<_> = (1..options.threads)
                .map_while(|_| std::thread::Builder::new().spawn_scoped(scope, || gathering.work()).ok())
                .collect();
            read.extend(gathering.work());
            for other in others {
                match other.join() {
                    Ok(more) => read.extend(more),
                    Err(panic) => std::panic::resume_unwind(panic),
                }
            }
        });
        read.push(top);
        assemble(read, options.with_starts)
    }
}

impl Gathering<'_> {
    /// Reads directories until none is left.
    fn work(&self) -> Vec<ReadDir> {
        let mut read = Vec::new();
        let mut queue = self.queue.lock();
        loop {
            if (self.stop)() {
                queue.waiting.clear();
            }
            let Some(next) = queue.waiting.pop() else {
                if queue.busy == 0 {
                    self.changed.notify_all();
                    return read;
                }
                self.changed.wait(&mut queue);
                continue;
            };
            queue.busy += 1;
            let mut dir = MutexGuard::unlocked(&mut queue, || self.read(next));
            queue.busy -= 1;
            if self.options.max_depth.is_none_or(|max| next.depth < max) {
                queue.put_below(next, &mut dir);
            }
            self.changed.notify_all();
            read.push(dir);
        }
    }

    fn read(&self, next: Waiting) -> ReadDir {
        let mut dir = ReadDir::new(next.number);
        let mut all: Vec<DirEntry> = Vec::new();
        while !(self.stop)() {
            let cookie = all.last().map_or(0, |last| last.cookie);
            match self.volume.readdir(next.ino, cookie, PAGE_ENTRIES) {
                Ok(page) if page.is_empty() => break,
                Ok(page) => all.extend(page),
                Err(error) => {
                    dir.unread.push(UnreadReason::Volume(error));
                    break;
                }
            }
        }
        all.sort_unstable_by(|a, b| a.name.cmp(&b.name));
        for entry in &all {
            let name = &entry.name[..];
            if !path::is_name(name) {
                dir.unread.push(UnreadReason::ImpossibleName);
            } else if !dir.add(name, entry.kind, entry.ino) {
                dir.unread.push(UnreadReason::TooMany);
                break;
            }
        }
        dir
    }
}

impl Queue {
    /// Puts the directories of a directory that was read into the queue.
    fn put_below(&mut self, read: Waiting, dir: &mut ReadDir) {
        for (index, (entry, ino)) in dir.entries.iter().enumerate() {
            if entry.kind != FileKind::Directory {
                continue;
            }
            if !self.entered.insert((read.start, *ino)) {
                dir.unread.push(UnreadReason::SecondName);
            } else if self.next_number == u32::MAX {
                dir.unread.push(UnreadReason::TooMany);
            } else {
                let number = self.next_number;
                self.next_number += 1;
                self.waiting.push(Waiting { number, ino: *ino, depth: read.depth + 1, start: read.start });
                dir.below.push(Below { entry: index as u32, number });
            }
        }
    }
}

impl ReadDir {
    fn new(number: u32) -> Self {
        ReadDir { number, text: Vec::new(), entries: Vec::new(), below: Vec::new(), unread: Vec::new() }
    }

    /// Adds an entry; false if there is no room for it.
    fn add(&mut self, name: &[u8], kind: FileKind, ino: Ino) -> bool {
        let (Ok(at), Ok(len)) = (u32::try_from(self.text.len()), u16::try_from(name.len())) else {
            return false;
        };
        self.text.extend_from_slice(name);
        self.entries.push((Entry { at, len, kind, is_ascii: name.is_ascii() }, ino));
        true
    }

    fn name(&self, index: u32) -> &[u8] {
        let (entry, _) = self.entries[index as usize];
        &self.text[entry.at as usize..][..usize::from(entry.len)]
    }
}

/// A directory whose entries are still to come.
struct Pending {
    read: ReadDir,
    /// The directory above; none at the top.
    parent: Option<u32>,
    segment: Vec<u8>,
}

/// Puts directories in the order of a walk.
fn assemble(read: Vec<ReadDir>, with_starts: bool) -> (Names, Vec<Unread>) {
    let count = read.iter().map(|dir| dir.number as usize + 1).max().unwrap_or(0);
    let mut by_number: Vec<Option<ReadDir>> = std::iter::repeat_with(|| None).take(count).collect();
    let mut names = Names::default();
    let entries = read.iter().map(|dir| dir.entries.len()).sum();
    names.text.reserve(read.iter().map(|dir| dir.text.len()).sum());
    names.entries.reserve(entries);
    names.masks.reserve(entries);
    names.inodes.reserve(entries);
    for dir in read {
        let number = dir.number as usize;
        by_number[number] = Some(dir);
    }
    let mut unread = Vec::new();
    let top = by_number.first_mut().and_then(Option::take);
    let mut pending: Vec<Pending> =
        top.into_iter().map(|read| Pending { read, parent: None, segment: Vec::new() }).collect();
    while let Some(Pending { mut read, parent, segment }) = pending.pop() {
        let is_top = parent.is_none();
        let number = names.dirs.len() as u32;
        for below in read.below.iter().rev() {
            // A walk that was stopped has not read all.
            let Some(dir) = by_number.get_mut(below.number as usize).and_then(Option::take) else { continue };
            let mut segment = read.name(below.entry).to_vec();
            if !segment.ends_with(b"/") {
                segment.push(b'/');
            }
            pending.push(Pending { read: dir, parent: Some(number), segment });
        }
        if is_top {
            // A start that is a file counts in any case.
            read.entries.retain(|(entry, _)| with_starts || entry.kind != FileKind::Directory);
        }
        let why = names.add_dir(&read, parent, &segment).err();
        if why.is_some() || !read.unread.is_empty() {
            let mut path = Vec::new();
            parent.into_iter().for_each(|parent| names.push_dir(parent as usize, &mut path));
            path.extend_from_slice(&segment);
            let reasons = read.unread.into_iter().chain(why);
            unread.extend(reasons.map(|why| Unread { path: path.clone(), why }));
        }
    }
    (names, unread)
}

impl Names {
    /// Adds a directory with its entries; without them where there is no room.
    fn add_dir(&mut self, read: &ReadDir, parent: Option<u32>, segment: &[u8]) -> Result<(), UnreadReason> {
        let number = self.dirs.len() as u32;
        let above = parent.and_then(|parent| self.dirs.get(parent as usize));
        let (path_len, level, depth, is_ascii) =
            above.map_or((0, 0, 0, true), |dir| (dir.path_len, dir.level + 1, dir.depth + 1, dir.is_ascii));
        let fits = (path_len as usize + segment.len()).max(segment.len()) < MAX_PATH_BYTES;
        let segment = if fits { segment } else { &[] };
        let first = self.entries.len();
        let room = (u32::MAX as usize).saturating_sub(first);
        let taken = if fits { read.entries.len().min(room) } else { 0 };
        self.dirs.push(Dir {
            parent: parent.unwrap_or(number),
            level,
            depth,
            segment_at: self.segments.len(),
            segment_len: segment.len() as u32,
            path_len: path_len + segment.len() as u32,
            is_ascii: is_ascii && segment.is_ascii(),
            has_ascii: read.text.is_ascii(),
            mask: mask(&read.text),
            text_at: self.text.len(),
            entries: (first as u32, (first + taken) as u32),
        });
        self.segments.extend_from_slice(segment);
        self.text.extend_from_slice(&read.text);
        for (entry, ino) in &read.entries[..taken] {
            let name = &read.text[entry.at as usize..][..usize::from(entry.len)];
            self.masks.push(mask(name));
            self.entries.push(*entry);
            self.inodes.push(*ino);
        }
        if taken == read.entries.len() { Ok(()) } else { Err(UnreadReason::TooMany) }
    }
}
