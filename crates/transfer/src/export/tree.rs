//! The walk over the volume's tree.

mod attributes;
mod entry;

use super::ExportOptions;
use super::file::Fault;
use super::place::Refusal;
use crate::Report;
use crate::error::{Error, Result, errno_text};
use crate::hardlinks::HardLinks;
use crate::host::PIECE;
use crate::hostdir::{FileId, HostDir, OPEN_DIR, OpenDirs};
use crate::import::OWNER;
use crate::name::{is_entry_name, joined, shown};
use crate::queue::{Queue, default_threads, run_jobs};
use crate::run::{Control, Run, count};
use crate::xattrs::{Target, shed_inherited};
use lanefs::{Attr, FileKind, Ino, Volume};
use parking_lot::Mutex;
use rustix::fd::OwnedFd;
use rustix::fs::{CWD, Mode, OFlags, fstat, mkdirat, openat, syncfs};
use rustix::io::Errno;
use std::collections::HashSet;
use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Entries that are read from a directory at once, and that make one job.
const CHUNK: usize = 128;

/// A directory of which something is still to be done.
struct Dir {
    parent: Option<Arc<Dir>>,
    host: Arc<HostDir>,
    /// In the volume.
    attr: Attr,
    name: Vec<u8>,
    /// The export made it: nobody else has anything in it yet.
    made: bool,
    /// Jobs that will still put something into it; at 0 it gets its attributes.
    pending: AtomicUsize,
}

impl Drop for Dir {
    fn drop(&mut self) {
        // No recursion along a deep chain.
        let mut parent = self.parent.take();
        while let Some(mut dir) = parent.and_then(Arc::into_inner) {
            parent = dir.parent.take();
        }
    }
}

enum Job {
    Top,
    Directory(Arc<Dir>, Ino, Vec<u8>),
    Names(Arc<Dir>, Vec<(Ino, Vec<u8>)>),
}

/// A first name of a file with several: where it went.
#[derive(Clone)]
struct First {
    dir: Arc<Dir>,
    name: Vec<u8>,
    /// The name that it has until it replaces an old file.
    temporary: Option<Vec<u8>>,
    id: FileId,
}

struct Export<'a> {
    run: Run<'a>,
    volume: &'a Volume,
    options: &'a ExportOptions,
    source: &'a [u8],
    dirs: OpenDirs,
    /// Names on the host: directory and name.
    links: HardLinks<Ino, First, (Arc<Dir>, Vec<u8>)>,
    /// Directories seen: a damaged volume may have a directory in two places, and so a cycle.
    seen: Mutex<HashSet<Ino>>,
    is_root: bool,
    uid: u32,
    gid: u32,
}

impl<'a> Export<'a> {
    fn new(volume: &'a Volume, source: &'a [u8], options: &'a ExportOptions, control: Control<'a>) -> Self {
        let uid = rustix::process::geteuid();
        Export {
            run: Run::new(control),
            volume,
            options,
            source,
            dirs: OpenDirs::new(),
            links: HardLinks::new(),
            seen: Mutex::default(),
            is_root: uid.is_root(),
            uid: uid.as_raw(),
            gid: rustix::process::getegid().as_raw(),
        }
    }

    fn end(self, top: &OwnedFd, dest: &Path) -> Report {
        self.run.tick(true);
        if self.options.sync
            && let Err(errno) = syncfs(top)
        {
            self.run.stop(Error::host(format!("cannot make '{}' durable", dest.display()), errno));
        }
        self.run.report("the host")
    }
}

/// Opens the directory `dest` of the host, made with its parents where it is not there; true where it was made.
fn open_destination(dest: &Path) -> Result<(OwnedFd, bool)> {
    let cannot = |errno| Error::host(format!("cannot make the directory '{}'", dest.display()), errno);
    let io = |error: std::io::Error| cannot(Errno::from_io_error(&error).unwrap_or(Errno::IO));
    if let Some(parent) = dest.parent().filter(|parent| !parent.as_os_str().is_empty()) {
        // Rust's word for a file among the parents is that it exists.
        std::fs::create_dir_all(parent).map_err(|error| match error.kind() {
            std::io::ErrorKind::AlreadyExists => cannot(Errno::NOTDIR),
            _ => io(error),
        })?;
    }
    let made = match mkdirat(CWD, dest, Mode::RWXU) {
        Ok(()) => true,
        Err(Errno::EXIST) => false,
        Err(errno) => return Err(cannot(errno)),
    };
    // The caller's own path may be a link to a directory.
    let fd = openat(CWD, dest, OPEN_DIR.difference(OFlags::NOFOLLOW), Mode::empty()).map_err(cannot)?;
    Ok((fd, made))
}

fn top_dir(path: &Path, fd: OwnedFd, attr: &Attr, made: bool) -> Result<Arc<Dir>> {
    let cannot = |errno| Error::host(format!("cannot export to '{}'", path.display()), errno);
    let name = CString::new(path.as_os_str().as_bytes()).map_err(|_| cannot(Errno::INVAL))?;
    Ok(Arc::new(Dir {
        parent: None,
        host: HostDir::top(name, fd).map_err(cannot)?,
        attr: *attr,
        name: Vec::new(),
        made,
        pending: AtomicUsize::new(1),
    }))
}

/// The content of the directory `source` into the directory `dest`.
pub(super) fn export_directory(
    volume: &Volume,
    source: &[u8],
    attr: &Attr,
    dest: &Path,
    options: &ExportOptions,
    control: Control<'_>,
) -> Result<Report> {
    let export = Export::new(volume, source, options, control);
    let (fd, made) = open_destination(dest)?;
    if made {
        shed_inherited(&Target::Open(&fd));
    }
    let top = top_dir(dest, fd, attr, made)?;
    let fd = top.host.fd(&export.dirs).map_err(|e| Error::host(format!("'{}'", dest.display()), e))?;
    export.seen.lock().insert(attr.ino);
    count(&export.run.counters.directories);
    run_jobs(
        options.threads.unwrap_or_else(default_threads),
        Job::Top,
        || vec![0; PIECE],
        |queue, buffer: &mut Vec<u8>, job| export.job(queue, buffer, &top, job),
        || export.run.tick(false),
    );
    drop(top);
    Ok(export.end(&fd, dest))
}

/// A file that is no directory.
pub(super) fn export_single(
    volume: &Volume,
    source: &[u8],
    attr: &Attr,
    dest: &Path,
    options: &ExportOptions,
    control: Control<'_>,
) -> Result<Report> {
    let no_name = || Error::Usage(format!("'{}' cannot name a file of the host", dest.display()));
    let trimmed = source.strip_suffix(b"/").unwrap_or(source);
    let own_name = &trimmed[trimmed.iter().rposition(|byte| *byte == b'/').map_or(0, |slash| slash + 1)..];
    let into_directory = dest.is_dir() || dest.as_os_str().as_bytes().ends_with(b"/");
    let (parent, name) = if into_directory {
        (dest, own_name.to_vec())
    } else {
        let parent = dest.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        (parent, dest.file_name().ok_or_else(no_name)?.as_bytes().to_vec())
    };
    if !is_entry_name(&name) {
        return Err(no_name());
    }
    // Problems are told by the volume's path, of which the directory's part is this.
    let base = &trimmed[..trimmed.len() - own_name.len()];
    let export = Export::new(volume, base, options, control);
    let (fd, made) = open_destination(parent)?;
    let top = top_dir(parent, fd, attr, made)?;
    let fd = top.host.fd(&export.dirs).map_err(|e| Error::host(format!("'{}'", parent.display()), e))?;
    export.entry(&mut vec![0; PIECE], &top, &fd, attr.ino, &name);
    Ok(export.end(&fd, dest))
}

impl Export<'_> {
    fn job(&self, queue: &Queue<Job>, buffer: &mut [u8], top: &Arc<Dir>, job: Job) {
        match job {
            Job::Top => {
                if let Ok(fd) = top.host.fd(&self.dirs) {
                    self.walk(queue, buffer, top, &fd);
                }
                self.done(top.clone());
            }
            Job::Directory(parent, ino, name) => {
                if !self.run.ends() {
                    self.directory(queue, buffer, &parent, ino, &name);
                }
                self.done(parent);
            }
            Job::Names(dir, names) => {
                match dir.host.fd(&self.dirs) {
                    Ok(fd) => self.names(buffer, &dir, &fd, names),
                    Err(errno) => self.host_refused(&dir, b"", "cannot be opened again", errno),
                }
                self.done(dir);
            }
        }
    }

    /// One job of `dir` has ended; the last one sets the directory's attributes, which ends a job of its parent.
    fn done(&self, dir: Arc<Dir>) {
        let mut at = Some(dir);
        while let Some(dir) = at {
            if dir.pending.fetch_sub(1, Ordering::AcqRel) != 1 {
                return;
            }
            let set = dir.host.fd(&self.dirs).and_then(|fd| self.set_open(&fd, &dir.attr, false));
            if let Err(errno) = set {
                self.host_refused(&dir, b"", "cannot set the attributes", errno);
            }
            at = dir.parent.clone();
        }
    }

    fn names(&self, buffer: &mut [u8], dir: &Arc<Dir>, fd: &OwnedFd, names: Vec<(Ino, Vec<u8>)>) {
        for (ino, name) in names {
            if self.run.ends() {
                return;
            }
            self.entry(buffer, dir, fd, ino, &name);
        }
    }

    fn directory(&self, queue: &Queue<Job>, buffer: &mut [u8], parent: &Arc<Dir>, ino: Ino, name: &[u8]) {
        if !self.seen.lock().insert(ino) {
            return self.problem(
                parent,
                name,
                "is a directory that has a name elsewhere (run `lanefs fsck`)",
            );
        }
        let attr = match self.volume.getattr(ino) {
            Ok(attr) => attr,
            Err(error) => return self.problem(parent, name, Fault::Volume(error).text()),
        };
        let (fd, made) = match self.make_directory(parent, name) {
            Ok(opened) => opened,
            Err(refusal) => return self.refused(parent, name, &refusal),
        };
        let (id, c_name) = match (fstat(&fd), CString::new(name)) {
            (Ok(stat), Ok(c_name)) => (FileId { dev: stat.st_dev, ino: stat.st_ino }, c_name),
            _ => return self.refused(parent, name, &Refusal::Host(Errno::INVAL)),
        };
        if made && !parent.made {
            shed_inherited(&Target::Open(&fd));
        }
        count(&self.run.counters.directories);
        // The parent waits for this directory, as this directory does for its own walk.
        parent.pending.fetch_add(1, Ordering::Relaxed);
        let fd = Arc::new(fd);
        let dir = Arc::new(Dir {
            parent: Some(parent.clone()),
            host: HostDir::below(&self.dirs, &parent.host, c_name, id, fd.clone()),
            attr,
            name: name.to_vec(),
            made,
            pending: AtomicUsize::new(1),
        });
        self.walk(queue, buffer, &dir, &fd);
        self.done(dir);
    }

    /// Makes and opens a directory, or opens the one that is there; never through a link.
    fn make_directory(
        &self,
        parent: &Arc<Dir>,
        name: &[u8],
    ) -> std::result::Result<(OwnedFd, bool), Refusal> {
        let at = parent.host.fd(&self.dirs)?;
        let made = match mkdirat(&*at, name, Mode::RWXU) {
            Ok(()) => true,
            Err(Errno::EXIST) => false,
            Err(errno) => return Err(errno.into()),
        };
        match openat(&*at, name, OPEN_DIR, Mode::empty()) {
            Ok(fd) => Ok((fd, made)),
            Err(Errno::NOTDIR | Errno::LOOP) => Err(Refusal::NoDirectory),
            Err(errno) => Err(errno.into()),
        }
    }

    /// Divides a directory's entries into jobs, and does the last one.
    fn walk(&self, queue: &Queue<Job>, buffer: &mut [u8], dir: &Arc<Dir>, fd: &OwnedFd) {
        let mut names = Vec::new();
        let mut cookie = 0;
        loop {
            let entries = match self.volume.readdir(&OWNER, dir.attr.ino, cookie, CHUNK) {
                Ok(entries) => entries,
                Err(error) => {
                    self.problem(dir, b"", Fault::Volume(error).text());
                    break;
                }
            };
            let Some(last) = entries.last() else { break };
            cookie = last.cookie;
            for entry in entries {
                if !is_entry_name(&entry.name) {
                    self.problem(dir, &entry.name, "cannot be a file's name (run `lanefs fsck`)");
                } else if entry.kind == FileKind::Directory {
                    dir.pending.fetch_add(1, Ordering::Relaxed);
                    queue.push(Job::Directory(dir.clone(), entry.ino, entry.name));
                } else {
                    names.push((entry.ino, entry.name));
                }
            }
            if names.len() >= CHUNK {
                dir.pending.fetch_add(1, Ordering::Relaxed);
                queue.push(Job::Names(dir.clone(), std::mem::take(&mut names)));
            }
            if self.run.ends() {
                return;
            }
        }
        self.names(buffer, dir, fd, names);
    }
}

impl Export<'_> {
    /// Path in the volume of `name` in `dir`.
    fn path(&self, dir: &Dir, name: &[u8]) -> Vec<u8> {
        let mut parts = vec![name];
        let mut at = Some(dir);
        while let Some(dir) = at {
            parts.push(&dir.name);
            at = dir.parent.as_deref();
        }
        let mut path = self.source.to_vec();
        for part in parts.into_iter().rev().filter(|part| !part.is_empty()) {
            path = joined(&path, part);
        }
        path
    }

    fn problem(&self, dir: &Dir, name: &[u8], what: impl Into<String>) {
        self.run.problem(self.path(dir, name), what);
    }

    fn host_refused(&self, dir: &Dir, name: &[u8], doing: &str, errno: Errno) {
        if crate::error::ends_writing(errno) {
            let path = shown(&dir.host.path(name));
            self.run.stop(Error::host(format!("{doing} '{path}' on the host"), errno));
        } else {
            self.problem(dir, name, format!("{doing}: {}", errno_text(errno)));
        }
    }

    fn refused(&self, dir: &Dir, name: &[u8], refusal: &Refusal) {
        match refusal {
            Refusal::Host(errno) => self.host_refused(dir, name, "cannot make", *errno),
            taken => self.problem(dir, name, taken.text()),
        }
    }
}
