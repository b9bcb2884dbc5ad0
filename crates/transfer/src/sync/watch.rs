//! A tree of the host that is watched: which of its directories have changed.
//!
//! inotify(7) watches one directory at a time, so each has its watch, and new ones get theirs while their
//! names are still unread by whoever asks for the changes. It is used by rustix and not through a crate for
//! watching: the one that most people take asks for each opening of a file as well, so that reading a large
//! tree overflows the queue of whoever reads it.
//!
//! A watch tells that a directory is to be looked at, and nothing else: its names prove nothing. A directory
//! is opened by one step from the directory above it, none of which follows a link, and its watch goes by the
//! descriptor: whoever puts a link in the place of a directory cannot lead the watch out of the tree.

mod queue;
mod watched_dirs;

use super::filter::Filter;
use super::scope::{Depth, Scope};
use crate::on_host::hostdir::{FileId, HostDir, OPEN_DIR, OpenDirs};
use crate::on_host::opener::Opener;
use crate::vocabulary::error::{Error, Result};
use crate::vocabulary::name::shown_path;
use lanefs::path::join;
use queue::Event;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::{AsRawFd, OwnedFd};
use rustix::fs::inotify::{self, ReadFlags, WatchFlags};
use rustix::fs::{CWD, FileType, Mode, OFlags, RawDir, fstat, openat, stat};
use rustix::io::{self, Errno};
use std::ffi::{CString, OsStr};
use std::mem::MaybeUninit;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};
use watched_dirs::WatchedDirs;

/// Time without a change after which changes are told: what a program does at once is one round.
const QUIET: Duration = Duration::from_millis(500);
/// Longest time from a change until it is told, where others follow all the time.
const LONGEST: Duration = Duration::from_secs(10);
/// Time after which a wait looks for an interrupt.
const LOOK: Duration = Duration::from_millis(100);
/// Time after which a wait looks whether the top is still the same directory: no event tells of a link to it,
/// or of its own name.
const LOOK_AT_TOP: Duration = Duration::from_secs(1);
/// Bytes of names that are read at once.
const NAMES_BYTES: usize = 32 << 10;

const WATCHED: WatchFlags = WatchFlags::CREATE
    .union(WatchFlags::DELETE)
    .union(WatchFlags::MODIFY)
    .union(WatchFlags::CLOSE_WRITE)
    .union(WatchFlags::ATTRIB)
    .union(WatchFlags::MOVED_FROM)
    .union(WatchFlags::MOVED_TO)
    .union(WatchFlags::ONLYDIR)
    .union(WatchFlags::EXCL_UNLINK);

/// A watch on each directory of a tree. It ends with the value.
pub struct TreeWatch {
    top: PathBuf,
    filter: Filter,
    queue: OwnedFd,
    dirs: WatchedDirs,
    opener: Opener,
    /// The top that is watched; `None` once its watch has ended.
    id: Option<FileId>,
}

/// A walk that gives directories their watches.
struct WatchWalk {
    open: OpenDirs,
    /// Names in directories that have theirs.
    waiting: Vec<UnseenDir>,
    buffer: Vec<MaybeUninit<u8>>,
}

struct UnseenDir {
    parent: Arc<HostDir>,
    /// The watch of the parent.
    above: i32,
    name: CString,
}

/// The findings of a wait.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WatchOutcome {
    /// These parts of the tree have changed.
    Changed(Scope),
    /// More has changed than the kernel's queue holds, so anything may have.
    Overflow,
    /// The path of the top names another directory than before. That is watched from now on.
    Replaced,
    /// The time is over, or the caller was interrupted, and nothing has changed.
    Nothing,
}

impl TreeWatch {
    /// Watches all directories of `top`, but for those that `filter` leaves out.
    ///
    /// # Errors
    /// `top`, or a directory below it that this user may read, cannot be watched; the host's limit of watches
    /// is reached.
    pub fn new(top: &Path, filter: &Filter, interrupt: &dyn Fn() -> bool) -> Result<TreeWatch> {
        let mut watch = TreeWatch {
            top: top.to_owned(),
            filter: filter.clone(),
            queue: queue::new().map_err(|errno| cannot_watch(top, errno))?,
            dirs: WatchedDirs::default(),
            opener: Opener::new(),
            id: None,
        };
        watch.add(b"", interrupt)?;
        Ok(watch)
    }

    /// Waits for changes until `until`, if that is given: until nothing has changed for half a second, or ten
    /// seconds have gone by since the first change.
    ///
    /// # Errors
    /// The top directory is gone, a directory cannot be watched, or the host's limit of watches is reached.
    pub fn wait(&mut self, until: Option<Instant>, interrupt: &dyn Fn() -> bool) -> Result<WatchOutcome> {
        let mut scope = Scope::empty();
        // The first change, and the last one.
        let mut since: Option<(Instant, Instant)> = None;
        let mut next_look = Instant::now();
        loop {
            let now = Instant::now();
            let end = match since {
                Some((first, last)) => Some((first + LONGEST).min(last + QUIET)),
                None => until,
            };
            let (is_stopped, is_over) = (interrupt(), end.is_some_and(|end| now >= end));
            if !is_stopped && (is_over || now >= next_look || self.id.is_none()) {
                if self.follow_top(interrupt)? {
                    return Ok(WatchOutcome::Replaced);
                }
                next_look = now + LOOK_AT_TOP;
            }
            if is_stopped || is_over {
                return Ok(told(scope));
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
        if !self.read(&mut scope, interrupt)? {
            return self.begin_again(interrupt).map(|()| WatchOutcome::Overflow);
        }
        Ok(if self.follow_top(interrupt)? { WatchOutcome::Replaced } else { told(scope) })
    }

    /// Begins again where the path of the top names another directory by now; true if so.
    fn follow_top(&mut self, interrupt: &dyn Fn() -> bool) -> Result<bool> {
        let found = stat(&self.top).map_err(|errno| self.cannot(errno))?;
        if self.id == Some(FileId::of(&found)) {
            return Ok(false);
        }
        // The end of a file system that is unmounted is an error, and not a tree without names.
        self.read(&mut Scope::empty(), interrupt)?;
        self.begin_again(interrupt).map(|()| true)
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
            let events = queue::events(&self.queue).map_err(|errno| self.cannot(errno))?;
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
            if self.dirs.remove(watch) == Some(true) {
                self.id = None;
            }
            return Ok(());
        }
        let Some(dir) = self.dirs.path(watch) else { return Ok(()) };
        if what.contains(ReadFlags::UNMOUNT) && dir.is_empty() {
            return Err(self.gone());
        }
        let is_dir = what.contains(ReadFlags::ISDIR);
        let below = name.map(|name| under(&dir, &name));
        if below.as_ref().is_some_and(|below| self.filter.leaves_out(below, is_dir)) {
            return Ok(());
        }
        scope.add(&dir, Depth::Names);
        let Some(below) = below else {
            // Directories that this user could not reach in it may be in reach now.
            if what.contains(ReadFlags::ATTRIB) && self.dirs.remove_closed_below(&dir) {
                self.add(&dir, interrupt)?;
                scope.add(&dir, Depth::Below);
            }
            return Ok(());
        };
        if !is_dir {
            return Ok(());
        }
        if what.intersects(ReadFlags::MOVED_FROM | ReadFlags::DELETE) {
            self.remove(&below);
        }
        // A directory that could not be read has no watch, and may be open to this user now.
        let may_be_open = what.contains(ReadFlags::ATTRIB) && !self.dirs.has(&below);
        if may_be_open || what.intersects(ReadFlags::CREATE | ReadFlags::MOVED_TO) {
            self.add(&below, interrupt)?;
            scope.add(&below, Depth::Below);
        }
        Ok(())
    }

    /// Watches a directory with all below it. A directory that is gone meanwhile, or may not be read, is left
    /// out: the sync that follows names it. Any other error would leave changes untold.
    fn add(&mut self, dir: &[u8], interrupt: &dyn Fn() -> bool) -> Result<()> {
        let buffer = vec![MaybeUninit::uninit(); NAMES_BYTES];
        let mut walk = WatchWalk { open: OpenDirs::new(), waiting: Vec::new(), buffer };
        let at = dir.iter().rposition(|byte| *byte == b'/');
        let above = match (dir, at) {
            (b"", _) => None,
            // The directory above has a watch: it has just told of this one.
            (_, at) => match self.dirs.find(at.map_or(b"", |at| &dir[..at])) {
                None => return Ok(()),
                above => above,
            },
        };
        let name = dir[at.map_or(0, |at| at + 1)..].to_vec();
        let mut next = (above, name, self.find(&walk.open, dir));
        loop {
            let (above, name, found) = next;
            match found.and_then(|dir| self.watch(&mut walk, &dir, above, &name)) {
                Err(Errno::NOSPC) => return Err(self.too_many()),
                Err(Errno::STALE) => {}
                Err(errno) if above.is_none() => return Err(self.cannot(errno)),
                Err(Errno::ACCESS) => self.dirs.add_closed(self.below(above, &name)),
                Ok(()) | Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => {}
                Err(errno) => return Err(cannot_watch(&self.path(&self.below(above, &name)), errno)),
            }
            let Some(UnseenDir { parent, above, name }) = walk.waiting.pop() else { return Ok(()) };
            if interrupt() {
                return Ok(());
            }
            next = (Some(above), name.to_bytes().to_vec(), self.enter(&walk.open, &parent, name));
        }
    }

    /// The path of a name in a directory that is watched.
    fn below(&self, above: Option<i32>, name: &[u8]) -> Vec<u8> {
        under(&above.and_then(|above| self.dirs.path(above)).unwrap_or_default(), name)
    }

    /// Opens a directory. The top may be a link to it; `ESTALE` where it is another one than before.
    fn find(&self, open: &OpenDirs, path: &[u8]) -> io::Result<Arc<HostDir>> {
        let fd = openat(CWD, &self.top, OPEN_DIR.difference(OFlags::NOFOLLOW), Mode::empty())?;
        let mut dir = HostDir::top(CString::default(), fd)?;
        if !self.dirs.is_empty() && self.id != Some(dir.id()) {
            return Err(Errno::STALE);
        }
        for name in path.split(|byte| *byte == b'/').filter(|name| !name.is_empty()) {
            dir = self.enter(open, &dir, CString::new(name).map_err(|_| Errno::INVAL)?)?;
        }
        Ok(dir)
    }

    fn enter(&self, open: &OpenDirs, parent: &Arc<HostDir>, name: CString) -> io::Result<Arc<HostDir>> {
        let fd = self.opener.open(&*parent.fd(open)?, &name, OPEN_DIR)?;
        let id = FileId::of(&fstat(&fd)?);
        Ok(HostDir::below(open, parent, name, id, Arc::new(fd)))
    }

    /// Watches one directory, and finds those in it. `above`: the watch of the directory above, if it is not
    /// the top.
    fn watch(
        &mut self,
        walk: &mut WatchWalk,
        dir: &Arc<HostDir>,
        above: Option<i32>,
        name: &[u8],
    ) -> io::Result<()> {
        let fd = dir.fd(&walk.open)?;
        // The watch comes before the list: a directory that is made in between is in one of both.
        let by_descriptor = format!("/proc/self/fd/{}", fd.as_raw_fd());
        let number = inotify::add_watch(&self.queue, by_descriptor, WATCHED)?;
        if above.is_none() {
            self.id = Some(dir.id());
        }
        self.dirs.add(number, above, name);
        let mut entries = RawDir::new(&*fd, &mut walk.buffer[..]);
        while let Some(entry) = entries.next() {
            let entry = entry?;
            let name = entry.file_name();
            // Some file systems list names without types. Only a directory opens as one.
            let may_be_dir = matches!(entry.file_type(), FileType::Directory | FileType::Unknown);
            if !may_be_dir || matches!(name.to_bytes(), b"." | b"..") {
                continue;
            }
            let is_out = || self.filter.leaves_out(&dir.path_below_top(name.to_bytes()), true);
            if self.filter.is_empty() || !is_out() {
                walk.waiting.push(UnseenDir { parent: dir.clone(), above: number, name: name.to_owned() });
            }
        }
        Ok(())
    }

    /// Ends the watches of a directory that is not there any more, with all below it.
    fn remove(&mut self, dir: &[u8]) {
        for watch in self.dirs.remove_below(dir) {
            // One that is gone has no watch any more.
            let _ = inotify::remove_watch(&self.queue, watch);
        }
    }

    /// Watches the tree with a new queue, after events were lost, or where it is another one.
    fn begin_again(&mut self, interrupt: &dyn Fn() -> bool) -> Result<()> {
        self.queue = queue::new().map_err(|errno| self.cannot(errno))?;
        self.dirs = WatchedDirs::default();
        self.id = None;
        self.add(b"", interrupt)
    }

    fn path(&self, dir: &[u8]) -> PathBuf {
        self.top.join(OsStr::from_bytes(dir))
    }

    fn gone(&self) -> Error {
        self.cannot(Errno::NOENT)
    }

    fn cannot(&self, errno: Errno) -> Error {
        cannot_watch(&self.top, errno)
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

fn told(scope: Scope) -> WatchOutcome {
    if scope.is_empty() { WatchOutcome::Nothing } else { WatchOutcome::Changed(scope) }
}

fn cannot_watch(path: &Path, errno: Errno) -> Error {
    Error::host(format!("cannot watch '{}'", shown_path(path)), errno)
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
    fn a_link_in_the_place_of_a_directory_leads_no_watch_out_of_the_tree() {
        let temp = tempfile::tempdir().unwrap();
        let (top, outside) = (temp.path().join("top"), temp.path().join("outside"));
        fs::create_dir_all(outside.join("usr")).unwrap();
        fs::create_dir_all(top.join("a")).unwrap();
        fs::create_dir_all(top.join("b/usr")).unwrap();
        let mut watch = TreeWatch::new(&top, &Filter::default(), &on).unwrap();
        // All of it happens before the first event is read.
        fs::create_dir(top.join("a/usr")).unwrap();
        for dir in ["a", "b"] {
            fs::remove_dir(top.join(dir).join("usr")).unwrap();
            fs::remove_dir(top.join(dir)).unwrap();
            std::os::unix::fs::symlink(&outside, top.join(dir)).unwrap();
        }
        assert_ne!(watch.now(&on).unwrap(), WatchOutcome::Nothing);
        assert_eq!(watch.dirs.len(), 1);
        fs::write(outside.join("usr/f"), "1").unwrap();
        fs::create_dir(outside.join("usr/d")).unwrap();
        assert_eq!(watch.now(&on).unwrap(), WatchOutcome::Nothing);
        // The top may be a link.
        std::os::unix::fs::symlink(&outside, temp.path().join("link")).unwrap();
        let mut watch = TreeWatch::new(&temp.path().join("link"), &Filter::default(), &on).unwrap();
        assert_eq!(watch.dirs.len(), 3);
        fs::write(outside.join("usr/f"), "2").unwrap();
        assert_eq!(watch.now(&on).unwrap(), scope(&["usr"]));
    }

    /// Runs `test` in a thread that obeys the modes of files, also where the process is root's.
    fn as_a_user(test: impl FnOnce() + Send + 'static) {
        let in_thread = || {
            if rustix::process::geteuid().is_root() {
                rustix::thread::set_thread_uid(rustix::process::Uid::from_raw(65534)).expect("root may");
            }
            test();
        };
        std::thread::spawn(in_thread).join().expect("no panic");
    }

    #[test]
    fn a_directory_that_opens_later_is_watched_from_then_on() {
        let temp = tempfile::tempdir().unwrap();
        let mode = |path: &Path, mode: u32| {
            let mode = std::os::unix::fs::PermissionsExt::from_mode(mode);
            fs::set_permissions(path, mode).unwrap();
        };
        let top = temp.path().join("top");
        mode(temp.path(), 0o777);
        as_a_user(move || {
            fs::create_dir_all(top.join("closed/in")).unwrap();
            fs::create_dir_all(top.join("listed/in")).unwrap();
            mode(&top.join("closed"), 0o000);
            mode(&top.join("listed"), 0o400);
            let mut watch = TreeWatch::new(&top, &Filter::default(), &on).unwrap();
            assert_eq!(watch.dirs.len(), 2);
            for dir in ["closed", "listed"] {
                mode(&top.join(dir), 0o700);
            }
            assert_eq!(watch.now(&on).unwrap(), scope(&["", "closed/", "listed/"]));
            assert_eq!(watch.dirs.len(), 5);
            for dir in ["closed/in", "listed/in"] {
                fs::write(top.join(dir).join("f"), "1").unwrap();
            }
            assert_eq!(watch.now(&on).unwrap(), scope(&["closed/in", "listed/in"]));
        });
        // The top itself has to be open.
        let closed = temp.path().join("none");
        fs::create_dir(&closed).unwrap();
        mode(&closed, 0o000);
        as_a_user(move || {
            let error = TreeWatch::new(&closed, &Filter::default(), &on).map(drop).unwrap_err();
            assert!(error.to_string().contains("Permission denied"), "{error}");
        });
    }

    #[test]
    fn another_directory_under_the_name_of_the_top_is_told_and_followed() {
        let temp = tempfile::tempdir().unwrap();
        let at = |name: &str| temp.path().join(name);
        for dir in ["one/d", "two/d"] {
            fs::create_dir_all(at(dir)).unwrap();
        }
        std::os::unix::fs::symlink("one", at("link")).unwrap();
        let mut watch = TreeWatch::new(&at("link"), &Filter::default(), &on).unwrap();
        assert_eq!(watch.now(&on).unwrap(), WatchOutcome::Nothing);
        // The link is switched, and the old directory changes as well.
        std::os::unix::fs::symlink("two", at("new")).unwrap();
        fs::rename(at("new"), at("link")).unwrap();
        fs::write(at("one/d/f"), "1").unwrap();
        assert_eq!(watch.wait(None, &on).unwrap(), WatchOutcome::Replaced);
        fs::write(at("one/d/f"), "2").unwrap();
        fs::write(at("two/d/f"), "1").unwrap();
        assert_eq!(watch.now(&on).unwrap(), scope(&["d"]));
        // The directory gets another name, and a new one takes its place, once with and once without a link.
        fs::rename(at("two"), at("old")).unwrap();
        fs::create_dir_all(at("two/e")).unwrap();
        assert_eq!(watch.now(&on).unwrap(), WatchOutcome::Replaced);
        fs::remove_dir_all(at("two")).unwrap();
        fs::create_dir(at("two")).unwrap();
        assert_eq!(watch.now(&on).unwrap(), WatchOutcome::Replaced);
        let mut watch = TreeWatch::new(&at("one"), &Filter::default(), &on).unwrap();
        fs::rename(at("one"), at("moved")).unwrap();
        let error = watch.wait(None, &on).unwrap_err().to_string();
        assert!(error.contains("one': No such file"), "{error}");
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
        assert!(watch.now(&on).is_err());
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
