//! The walk over the host's tree.

mod batch;
mod entry;

use super::place::place_directory;
use super::{ImportOptions, OWNER, destination};
use crate::Report;
use crate::error::{Error, Result};
use crate::hardlinks::HardLinks;
use crate::host::{Meta, PIECE};
use crate::hostdir::{FileId, HostDir, OPEN_DIR, OpenDirs};
use crate::name::shown;
use crate::queue::{Queue, default_threads, run_jobs};
use crate::run::{Control, Run, count};
use crate::xattrs::XattrBuffers;
use batch::Batches;
use lanefs::{FileKind, Ino, SetAttr, Volume, path};
use rustix::fd::OwnedFd;
use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, RawDir, fstat, openat, statat};
use rustix::io::Errno;
use std::ffi::{CStr, CString};
use std::mem::MaybeUninit;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Files of one directory that are one job; more are divided among the threads.
const CHUNK: usize = 128;

/// A directory of which something is still to be done.
struct Dir {
    parent: Option<Arc<Dir>>,
    host: Arc<HostDir>,
    ino: Ino,
    /// Set when all that is below is there.
    attr: SetAttr,
    /// Jobs that will still put something into it; at 0 it gets its attributes.
    pending: AtomicUsize,
}

impl Drop for Dir {
    fn drop(&mut self) {
        // As of `HostDir`: no recursion along a deep chain.
        let mut parent = self.parent.take();
        while let Some(mut dir) = parent.and_then(Arc::into_inner) {
            parent = dir.parent.take();
        }
    }
}

enum Job {
    /// A directory to be walked: the top one, or a name in one.
    Top,
    Directory(Arc<Dir>, CString),
    /// Other names of a directory.
    Names(Arc<Dir>, Vec<Found>),
}

/// An entry of a directory; ordered by inode number, which is the order on disk.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Found {
    ino: u64,
    name: CString,
    /// `None`: the host does not say without being asked.
    kind: Option<Kind>,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    File,
    Directory,
    Other,
}

impl Kind {
    fn new(kind: FileType) -> Option<Self> {
        match kind {
            FileType::RegularFile => Some(Kind::File),
            FileType::Directory => Some(Kind::Directory),
            FileType::Unknown => None,
            _ => Some(Kind::Other),
        }
    }
}

/// What a thread keeps from file to file.
struct Local {
    content: Vec<u8>,
    entries: Vec<MaybeUninit<u8>>,
    xattrs: XattrBuffers,
}

impl Local {
    fn new() -> Self {
        Local {
            content: vec![0; PIECE],
            entries: vec![MaybeUninit::uninit(); 64 << 10],
            xattrs: XattrBuffers::new(),
        }
    }
}

struct Import<'a> {
    run: Run<'a>,
    volume: &'a Volume,
    options: &'a ImportOptions<'a>,
    dirs: OpenDirs,
    /// Small files that wait to be made together, where they are.
    batches: Option<Batches<'a>>,
    /// Names in the volume: directory, name, and the source's path.
    links: HardLinks<FileId, Ino, (Ino, Vec<u8>, Vec<u8>)>,
    /// Reading does not touch access times where this may be asked for.
    no_atime: OFlags,
}

impl<'a> Import<'a> {
    fn new(volume: &'a Volume, options: &'a ImportOptions<'a>, control: Control<'a>) -> Self {
        let no_atime = if rustix::process::geteuid().is_root() { OFlags::NOATIME } else { OFlags::empty() };
        Import {
            run: Run::new(control),
            volume,
            options,
            dirs: OpenDirs::new(),
            batches: None,
            links: HardLinks::new(),
            no_atime,
        }
    }

    /// Makes everything durable and closes the account.
    fn end(self) -> Report {
        self.run.tick(true);
        if let Err(error) = self.volume.sync() {
            self.run.stop(Error::volume("cannot make the import durable", error));
        }
        self.run.report("the host or the volume")
    }
}

/// The content of the directory `source` into the directory `dest`.
pub(super) fn import_directory(
    volume: &Volume,
    source: &Path,
    dest: &[u8],
    options: &ImportOptions<'_>,
    control: Control<'_>,
) -> Result<Report> {
    let mut import = Import::new(volume, options, control);
    let cannot = |errno| Error::host(format!("cannot open '{}'", source.display()), errno);
    // The caller's own path may be a link to the directory.
    let fd = openat(CWD, source, OPEN_DIR.difference(OFlags::NOFOLLOW), Mode::empty()).map_err(cannot)?;
    let meta = fstat(&fd).map_err(cannot)?;
    let meta = Meta::new(&meta).ok_or_else(|| cannot(Errno::INVAL))?;
    let path = CString::new(source.as_os_str().as_bytes()).map_err(|_| cannot(Errno::INVAL))?;
    let ino = destination(volume, dest)?.ino;
    import.batches = options.maker.map(|maker| Batches::new(maker, ino));
    let top = Arc::new(Dir {
        parent: None,
        host: HostDir::top(path, fd).map_err(cannot)?,
        ino,
        attr: meta.set_attr(),
        pending: AtomicUsize::new(1),
    });
    count(&import.run.counters.directories);
    run_jobs(
        options.threads.unwrap_or_else(default_threads),
        Job::Top,
        Local::new,
        |queue, local, job| import.job(queue, local, &top, job),
        || import.run.tick(false),
    );
    import.make_rest();
    drop(top);
    Ok(import.end())
}

/// A file that is no directory.
pub(super) fn import_single(
    volume: &Volume,
    source: &Path,
    dest: &[u8],
    options: &ImportOptions<'_>,
    control: Control<'_>,
) -> Result<Report> {
    let import = Import::new(volume, options, control);
    let cannot = |errno| Error::host(format!("cannot import '{}'", source.display()), errno);
    let name = source.file_name().ok_or_else(|| cannot(Errno::INVAL))?;
    let name = CString::new(name.as_bytes()).map_err(|_| cannot(Errno::INVAL))?;
    let parent = source.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let fd = openat(CWD, parent, OPEN_DIR.difference(OFlags::NOFOLLOW), Mode::empty()).map_err(cannot)?;
    let parent_path = source.parent().map_or(&b""[..], |parent| parent.as_os_str().as_bytes());
    let path = CString::new(parent_path).map_err(|_| cannot(Errno::INVAL))?;
    let (ino, new_name) = single_destination(volume, dest, name.to_bytes())?;
    let dir = Arc::new(Dir {
        parent: None,
        host: HostDir::top(path, fd).map_err(cannot)?,
        ino,
        attr: SetAttr::default(),
        pending: AtomicUsize::new(usize::MAX / 2),
    });
    let fd = dir.host.fd(&import.dirs).map_err(cannot)?;
    import.entry(&mut Local::new(), &dir, &fd, &name, None, &new_name);
    Ok(import.end())
}

/// Directory and name of a single file's destination.
fn single_destination(volume: &Volume, dest: &[u8], own_name: &[u8]) -> Result<(Ino, Vec<u8>)> {
    if let Ok(attr) = volume.resolve(dest)
        && attr.kind == FileKind::Directory
    {
        return Ok((attr.ino, own_name.to_vec()));
    }
    if dest.ends_with(b"/") {
        return Ok((destination(volume, dest)?.ino, own_name.to_vec()));
    }
    let (parent, name) = path::split_last(dest).unwrap_or_default();
    if !crate::name::is_entry_name(name) {
        return Err(Error::Usage(format!("'{}' cannot name a file in the volume", shown(dest))));
    }
    let ino = if parent.is_empty() { volume.root() } else { destination(volume, parent)?.ino };
    Ok((ino, name.to_vec()))
}

impl Import<'_> {
    fn job(&self, queue: &Queue<Job>, local: &mut Local, top: &Arc<Dir>, job: Job) {
        match job {
            Job::Top => {
                if let Ok(fd) = top.host.fd(&self.dirs) {
                    self.dir_xattrs(local, &fd, top, b"");
                    self.walk(queue, local, top, &fd);
                }
                self.done(top.clone());
            }
            Job::Directory(parent, name) => {
                if !self.run.ends() {
                    self.directory(queue, local, &parent, &name);
                }
                self.done(parent);
            }
            Job::Names(dir, names) => {
                self.names(local, &dir, names);
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
            if let Err(error) = self.volume.setattr(&OWNER, dir.ino, &dir.attr) {
                self.run.volume_refused(dir.host.path(b""), "cannot set the attributes of", error);
            }
            at = dir.parent.clone();
        }
    }

    fn names(&self, local: &mut Local, dir: &Arc<Dir>, mut names: Vec<Found>) {
        let fd = match dir.host.fd(&self.dirs) {
            Ok(fd) => fd,
            Err(errno) => return self.host_problem(dir, b"", errno),
        };
        names.sort_unstable();
        for found in names {
            if self.run.ends() {
                return;
            }
            let name = found.name.to_bytes().to_vec();
            self.entry(local, dir, &fd, &found.name, found.kind, &name);
        }
    }

    /// Makes the directory `name` of `parent` and walks it.
    fn directory(&self, queue: &Queue<Job>, local: &mut Local, parent: &Arc<Dir>, name: &CStr) {
        let opened = parent.host.fd(&self.dirs).and_then(|fd| {
            let fd = self.open(&fd, name, OPEN_DIR)?;
            let meta = Meta::new(&fstat(&fd)?).ok_or(Errno::INVAL)?;
            Ok((Arc::new(fd), meta))
        });
        let (fd, meta) = match opened {
            Ok(opened) => opened,
            Err(errno) => return self.host_problem(parent, name.to_bytes(), errno),
        };
        let ino = match place_directory(self.volume, parent.ino, name.to_bytes(), self.options.overwrite) {
            Ok((ino, _)) => ino,
            Err(refusal) => return self.refused(parent, name.to_bytes(), refusal),
        };
        count(&self.run.counters.directories);
        // The parent waits for this directory, as this directory does for its own walk.
        parent.pending.fetch_add(1, Ordering::Relaxed);
        let dir = Arc::new(Dir {
            parent: Some(parent.clone()),
            host: HostDir::below(&self.dirs, &parent.host, name.to_owned(), meta.id, fd.clone()),
            ino,
            attr: meta.set_attr(),
            pending: AtomicUsize::new(1),
        });
        self.dir_xattrs(local, &fd, &dir, b"");
        if !(self.options.one_file_system && meta.id.dev != parent.host.id().dev) {
            self.walk(queue, local, &dir, &fd);
        }
        self.done(dir);
    }

    /// Divides a directory's entries into jobs, and does the last one.
    fn walk(&self, queue: &Queue<Job>, local: &mut Local, dir: &Arc<Dir>, fd: &OwnedFd) {
        let mut names = Vec::new();
        let mut entries = RawDir::new(fd, &mut local.entries[..]);
        let failed = loop {
            match entries.next() {
                None => break None,
                Some(Err(errno)) => break Some(errno),
                Some(Ok(entry)) => {
                    let name = entry.file_name();
                    if matches!(name.to_bytes(), b"." | b"..") {
                        continue;
                    }
                    let kind = Kind::new(entry.file_type());
                    if kind == Some(Kind::Directory) {
                        dir.pending.fetch_add(1, Ordering::Relaxed);
                        queue.push(Job::Directory(dir.clone(), name.to_owned()));
                        continue;
                    }
                    if names.len() == CHUNK {
                        dir.pending.fetch_add(1, Ordering::Relaxed);
                        queue.push(Job::Names(dir.clone(), std::mem::take(&mut names)));
                    }
                    names.push(Found { ino: entry.ino(), name: name.to_owned(), kind });
                }
            }
        };
        if let Some(errno) = failed {
            self.host_problem(dir, b"", errno);
        }
        // A file system that does not tell the types: each name is asked, and directories become jobs.
        for found in names.extract_if(.., |found| found.kind.is_none()) {
            dir.pending.fetch_add(1, Ordering::Relaxed);
            let is_dir = statat(fd, &*found.name, AtFlags::SYMLINK_NOFOLLOW)
                .is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Directory);
            queue.push(if is_dir {
                Job::Directory(dir.clone(), found.name)
            } else {
                Job::Names(dir.clone(), vec![Found { kind: Some(Kind::Other), ..found }])
            });
        }
        self.names(local, dir, names);
    }
}
