//! A tree of the host that is watched: which of its directories have changed.
//!
//! inotify(7) watches one directory at a time, so each has its watch, and new ones get theirs while their
//! names are still unread by whoever asks for the changes. It is used by rustix and not through a crate for
//! watching: the one that most people take asks for each opening of a file as well, so that reading a large
//! tree overflows the queue of whoever reads it.
//!
//! A watch tells that a directory is to be looked at, and nothing else: its names prove nothing,
//! and a link that somebody puts in the place of a directory costs a look in vain.

use super::filter::Filter;
use super::scope::{Depth, Scope};
use crate::vocabulary::error::{Error, Result};
use crate::vocabulary::name::shown_path;
use lanefs::path::join;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::OwnedFd;
use rustix::fs::inotify::{self, CreateFlags, ReadFlags, Reader, WatchFlags};
use rustix::io::Errno;
use std::collections::{BTreeMap, HashMap};
use std::ffi::OsStr;
use std::mem::MaybeUninit;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Time without a change after which changes are told: what a program does at once is one round.
const QUIET: Duration = Duration::from_millis(500);
/// Longest time from a change until it is told, where others follow all the time.
const LONGEST: Duration = Duration::from_secs(10);
/// Time after which a wait looks for an interrupt.
const LOOK: Duration = Duration::from_millis(100);
/// Bytes of events that are read at once.
const EVENTS_BYTES: usize = 64 << 10;

const WATCHED: WatchFlags = WatchFlags::CREATE
    .union(WatchFlags::DELETE)
    .union(WatchFlags::MODIFY)
    .union(WatchFlags::CLOSE_WRITE)
    .union(WatchFlags::ATTRIB)
    .union(WatchFlags::MOVED_FROM)
    .union(WatchFlags::MOVED_TO)
    .union(WatchFlags::ONLYDIR)
    .union(WatchFlags::DONT_FOLLOW)
    .union(WatchFlags::EXCL_UNLINK);

/// A watch on each directory of a tree. It ends with the value.
pub struct TreeWatch {
    top: PathBuf,
    filter: Filter,
    queue: OwnedFd,
    dirs: WatchedDirs,
}

/// The directories that are watched, below the top.
#[derive(Default)]
struct WatchedDirs {
    by_watch: HashMap<i32, Vec<u8>>,
    by_path: BTreeMap<Vec<u8>, i32>,
}

impl WatchedDirs {
    /// Adds a directory. One that has the watch already has another path by now.
    fn add(&mut self, watch: i32, dir: Vec<u8>) {
        self.remove(watch);
        self.by_path.insert(dir.clone(), watch);
        self.by_watch.insert(watch, dir);
    }

    fn get(&self, watch: i32) -> Option<&Vec<u8>> {
        self.by_watch.get(&watch)
    }

    /// Removes the directory of a watch, and returns its path.
    fn remove(&mut self, watch: i32) -> Option<Vec<u8>> {
        let dir = self.by_watch.remove(&watch)?;
        // A new directory may have the path of one that is gone before the kernel tells the end of its watch.
        if self.by_path.get(&dir) == Some(&watch) {
            self.by_path.remove(&dir);
        }
        Some(dir)
    }

    /// Removes a directory with all below it, and returns their watches.
    fn remove_below(&mut self, dir: &[u8]) -> Vec<i32> {
        let first = under(dir, b"");
        let below = self.by_path.range(first.clone()..).take_while(|(path, _)| path.starts_with(&first));
        let mut watches: Vec<i32> = below.map(|(_, watch)| *watch).collect();
        watches.extend(self.by_path.get(dir));
        watches.iter().for_each(|watch| _ = self.remove(*watch));
        watches
    }

    fn len(&self) -> usize {
        self.by_watch.len()
    }
}

/// The findings of a wait.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WatchOutcome {
    /// These parts of the tree have changed.
    Changed(Scope),
    /// More has changed than the kernel's queue holds, so anything may have.
    Overflow,
    /// The time is over, or the caller was interrupted, and nothing has changed.
    Nothing,
}

impl TreeWatch {
    /// Watches all directories of `top`, but for those that `filter` leaves out.
    ///
    /// # Errors
    /// `top` cannot be watched, or the host's limit of watches is reached.
    pub fn new(top: &Path, filter: &Filter, interrupt: &dyn Fn() -> bool) -> Result<TreeWatch> {
        let mut watch = TreeWatch {
            top: top.to_owned(),
            filter: filter.clone(),
            queue: new_queue(top)?,
            dirs: WatchedDirs::default(),
        };
        watch.add(b"", interrupt)?;
        match watch.dirs.len() == 0 {
            true => Err(watch.gone()),
            false => Ok(watch),
        }
    }

    /// Waits for changes until `until`, if that is given: until nothing has changed for half a second, or ten
    /// seconds have gone by since the first change.
    ///
    /// # Errors
    /// The top directory is gone, or the host's limit of watches is reached.
    pub fn wait(&mut self, until: Option<Instant>, interrupt: &dyn Fn() -> bool) -> Result<WatchOutcome> {
        let mut scope = Scope::empty();
        // The first change, and the last one.
        let mut since: Option<(Instant, Instant)> = None;
        loop {
            let now = Instant::now();
            let end = match since {
                Some((first, last)) => Some((first + LONGEST).min(last + QUIET)),
                None => until,
            };
            if interrupt() || end.is_some_and(|end| now >= end) {
                return Ok(if scope.is_empty() {
                    WatchOutcome::Nothing
                } else {
                    WatchOutcome::Changed(scope)
                });
            }
            if self.has_events(end.map_or(LOOK, |end| (end - now).min(LOOK)))? {
                if !self.read(&mut scope, interrupt)? {
                    return self.begin_again(interrupt).map(|()| WatchOutcome::Overflow);
                }
                let now = Instant::now();
                since = (!scope.is_empty()).then(|| (since.map_or(now, |(first, _)| first), now));
            }
        }
    }

    /// Tells the changes so far, without waiting.
    ///
    /// # Errors
    /// As [`wait`](Self::wait).
    pub fn now(&mut self, interrupt: &dyn Fn() -> bool) -> Result<WatchOutcome> {
        let mut scope = Scope::empty();
        match self.read(&mut scope, interrupt)? {
            false => self.begin_again(interrupt).map(|()| WatchOutcome::Overflow),
            true if scope.is_empty() => Ok(WatchOutcome::Nothing),
            true => Ok(WatchOutcome::Changed(scope)),
        }
    }

    fn has_events(&self, most: Duration) -> Result<bool> {
        let mut fds = [PollFd::new(&self.queue, PollFlags::IN)];
        let most = Timespec { tv_sec: 0, tv_nsec: i64::from(most.subsec_nanos()).max(1) };
        match poll(&mut fds, Some(&most)) {
            Ok(ready) => Ok(ready > 0),
            Err(Errno::INTR) => Ok(false),
            Err(errno) => Err(self.cannot(errno)),
        }
    }

    /// Reads the events that are there; false where some were lost.
    fn read(&mut self, scope: &mut Scope, interrupt: &dyn Fn() -> bool) -> Result<bool> {
        loop {
            let events = events(&self.queue).map_err(|errno| self.cannot(errno))?;
            if events.is_empty() {
                return Ok(true);
            }
            for event in events {
                if event.what.contains(ReadFlags::QUEUE_OVERFLOW) {
                    return Ok(false);
                }
                self.happened(event, scope, interrupt)?;
            }
        }
    }

    fn happened(&mut self, event: Event, scope: &mut Scope, interrupt: &dyn Fn() -> bool) -> Result<()> {
        let Event { watch, what, name } = event;
        if what.contains(ReadFlags::IGNORED) {
            // The kernel gives no number twice.
            return match self.dirs.remove(watch) {
                Some(dir) if dir.is_empty() => Err(self.gone()),
                _ => Ok(()),
            };
        }
        let Some(dir) = self.dirs.get(watch).cloned() else { return Ok(()) };
        let is_dir = what.contains(ReadFlags::ISDIR);
        let below = name.map(|name| under(&dir, &name));
        if below.as_ref().is_some_and(|below| self.filter.leaves_out(below, is_dir)) {
            return Ok(());
        }
        scope.add(&dir, Depth::Names);
        let Some(below) = below.filter(|_| is_dir) else { return Ok(()) };
        if what.contains(ReadFlags::MOVED_FROM) {
            self.remove(&below);
        }
        if what.intersects(ReadFlags::CREATE | ReadFlags::MOVED_TO) {
            self.add(&below, interrupt)?;
            scope.add(&below, Depth::Below);
        }
        Ok(())
    }

    /// Watches a directory with all below it. A directory that is gone meanwhile, or may not be read, is left
    /// out: the sync that follows names it.
    fn add(&mut self, dir: &[u8], interrupt: &dyn Fn() -> bool) -> Result<()> {
        let mut waiting = vec![dir.to_vec()];
        while let Some(dir) = waiting.pop() {
            if interrupt() {
                return Ok(());
            }
            let path = self.path(&dir);
            // The watch comes before the list: a directory that is made in between is in one of both.
            let watch = if dir.is_empty() { WATCHED.difference(WatchFlags::DONT_FOLLOW) } else { WATCHED };
            match inotify::add_watch(&self.queue, &path, watch) {
                Ok(number) => self.dirs.add(number, dir.clone()),
                Err(Errno::NOSPC) => return Err(self.too_many()),
                Err(_) => continue,
            };
            for entry in std::fs::read_dir(&path).into_iter().flatten().flatten() {
                let below = under(&dir, entry.file_name().as_bytes());
                let is_dir = entry.file_type().is_ok_and(|kind| kind.is_dir());
                if is_dir && !self.filter.leaves_out(&below, true) {
                    waiting.push(below);
                }
            }
        }
        Ok(())
    }

    /// Ends the watches of a directory that has gone elsewhere, with all below it.
    fn remove(&mut self, dir: &[u8]) {
        for watch in self.dirs.remove_below(dir) {
            // One that is gone has no watch any more.
            let _ = inotify::remove_watch(&self.queue, watch);
        }
    }

    /// Watches the tree with a new queue, after events were lost.
    fn begin_again(&mut self, interrupt: &dyn Fn() -> bool) -> Result<()> {
        self.queue = new_queue(&self.top)?;
        self.dirs = WatchedDirs::default();
        self.add(b"", interrupt)?;
        match self.dirs.len() == 0 {
            true => Err(self.gone()),
            false => Ok(()),
        }
    }

    fn path(&self, dir: &[u8]) -> PathBuf {
        if dir.is_empty() { self.top.clone() } else { self.top.join(OsStr::from_bytes(dir)) }
    }

    fn gone(&self) -> Error {
        self.cannot(Errno::NOENT)
    }

    fn cannot(&self, errno: Errno) -> Error {
        Error::host(format!("cannot watch '{}'", shown_path(&self.top)), errno)
    }

    fn too_many(&self) -> Error {
        Error::Usage(format!(
            "cannot watch all directories of '{}': after {} the host's limit of watches is reached; raise it \
             (sysctl fs.inotify.max_user_watches), leave directories out, or sync at times without a watch",
            shown_path(&self.top),
            self.dirs.len()
        ))
    }
}

/// A change of a directory, or of a name in it.
struct Event {
    watch: i32,
    what: ReadFlags,
    name: Option<Vec<u8>>,
}

/// Reads some events; none where there are no more.
fn events(queue: &OwnedFd) -> std::result::Result<Vec<Event>, Errno> {
    let mut buffer = vec![MaybeUninit::uninit(); EVENTS_BYTES];
    let mut reader = Reader::new(queue, &mut buffer);
    let mut events = Vec::new();
    loop {
        match reader.next() {
            Ok(event) => {
                let name = event.file_name().map(|name| name.to_bytes().to_vec());
                let name = name.filter(|name| !name.is_empty());
                events.push(Event { watch: event.wd(), what: event.events(), name });
            }
            Err(Errno::AGAIN | Errno::INTR) => return Ok(events),
            Err(errno) => return Err(errno),
        }
        if reader.is_buffer_empty() {
            return Ok(events);
        }
    }
}

fn new_queue(top: &Path) -> Result<OwnedFd> {
    inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC)
        .map_err(|errno| Error::host(format!("cannot watch '{}'", shown_path(top)), errno))
}

/// The path of a name in a directory, both below the top.
fn under(dir: &[u8], name: &[u8]) -> Vec<u8> {
    if dir.is_empty() { name.to_vec() } else { join(dir, name) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn on() -> bool {
        false
    }

    /// A scope of these directories, of which those that end with `/` are whole.
    fn scope(dirs: &[&str]) -> WatchOutcome {
        let mut scope = Scope::empty();
        for dir in dirs {
            match dir.strip_suffix('/') {
                Some(dir) => scope.add(dir.as_bytes(), Depth::Below),
                None => scope.add(dir.as_bytes(), Depth::Names),
            }
        }
        WatchOutcome::Changed(scope)
    }

    #[test]
    fn a_directory_is_removed_with_all_below_it_and_nothing_else() {
        let mut dirs = WatchedDirs::default();
        for (watch, dir) in ["", "a", "a.b", "a/b", "a/b/c", "a0", "ab", "b"].into_iter().enumerate() {
            dirs.add(watch as i32, dir.into());
        }
        let mut removed = dirs.remove_below(b"a");
        removed.sort_unstable();
        assert_eq!(removed, [1, 3, 4]);
        assert_eq!(dirs.remove_below(b"none"), [0; 0]);
        let left: Vec<_> = dirs.by_path.keys().map(|path| String::from_utf8_lossy(path)).collect();
        assert_eq!((left, dirs.len()), (["", "a.b", "a0", "ab", "b"].map(Into::into).to_vec(), 5));
        // Another directory gets the path before the end of the first watch is told; one gets another path.
        dirs.add(9, b"b".to_vec());
        assert_eq!(dirs.remove(7), Some(b"b".to_vec()));
        dirs.add(9, b"c".to_vec());
        assert_eq!((dirs.remove_below(b"b"), dirs.remove_below(b"c")), (vec![], vec![9]));
    }

    #[test]
    fn changes_are_told_by_directory() {
        let temp = tempfile::tempdir().unwrap();
        let at = |name: &str| temp.path().join(name);
        fs::create_dir_all(at("a/b")).unwrap();
        fs::create_dir(at("target")).unwrap();
        let filter = Filter::new(["target/"]).unwrap();
        let mut watch = TreeWatch::new(temp.path(), &filter, &on).unwrap();
        let mut found = || watch.wait(None, &on).unwrap();
        fs::write(at("a/b/f"), "1").unwrap();
        fs::write(at("target/g"), "1").unwrap();
        assert_eq!(found(), scope(&["a/b"]));
        fs::write(at("f"), "1").unwrap();
        fs::remove_file(at("a/b/f")).unwrap();
        assert_eq!(found(), scope(&["", "a/b"]));
        // A new directory is watched from then on, under its new name after a move.
        fs::create_dir_all(at("c/d")).unwrap();
        assert_eq!(found(), scope(&["", "c/"]));
        fs::write(at("c/d/f"), "1").unwrap();
        assert_eq!(found(), scope(&["c/d"]));
        fs::rename(at("c"), at("a/c")).unwrap();
        assert_eq!(found(), scope(&["", "a", "a/c/"]));
        fs::write(at("a/c/d/f"), "2").unwrap();
        assert_eq!(found(), scope(&["a/c/d"]));
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o700);
        fs::set_permissions(at("a/c/d"), mode).unwrap();
        assert_eq!(found(), scope(&["a/c", "a/c/d"]));
        // A read is not a change.
        fs::read(at("a/c/d/f")).unwrap();
        assert_eq!(watch.now(&on).unwrap(), WatchOutcome::Nothing);
        assert_eq!(watch.wait(Some(Instant::now()), &on).unwrap(), WatchOutcome::Nothing);
        assert_eq!(watch.wait(None, &|| true).unwrap(), WatchOutcome::Nothing);
    }

    #[test]
    fn lost_events_are_told_and_a_tree_that_is_gone_is_an_error() {
        let temp = tempfile::tempdir().unwrap();
        let top = temp.path().join("top");
        fs::create_dir(&top).unwrap();
        let mut watch = TreeWatch::new(&top, &Filter::default(), &on).unwrap();
        let text = fs::read_to_string("/proc/sys/fs/inotify/max_queued_events").unwrap();
        let most: usize = text.trim().parse().unwrap();
        for number in 0..=most / 2 {
            // Two events that differ from the ones before.
            fs::create_dir(top.join(format!("{number}"))).unwrap();
            fs::remove_dir(top.join(format!("{number}"))).unwrap();
        }
        assert_eq!(watch.wait(None, &on).unwrap(), WatchOutcome::Overflow);
        fs::write(top.join("f"), "1").unwrap();
        assert_eq!(watch.wait(None, &on).unwrap(), scope(&[""]));
        fs::remove_dir_all(&top).unwrap();
        let error = loop {
            match watch.wait(None, &on) {
                Ok(_) => {}
                Err(error) => break error,
            }
        };
        assert!(error.to_string().contains("top"), "{error}");
        assert!(TreeWatch::new(&top, &Filter::default(), &on).is_err());
    }
}
