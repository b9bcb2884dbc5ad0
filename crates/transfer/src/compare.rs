//! Two trees of the host compared whole: the judge of a round trip, independent of the code that made it.

use crate::error::{Error, Result, errno_text};
use crate::host::Meta;
use crate::hostdir::{FileId, HostDir, OPEN_DIR, OpenDirs};
use crate::name::shown;
use crate::queue::{Queue, default_threads, run_jobs};
use crate::run::{Control, Run, count};
use crate::xattrs::{Target, XattrBuffers};
use crate::{Counts, Problem};
use lanefs::FileKind;
use parking_lot::Mutex;
use rustix::fd::OwnedFd;
use rustix::fs::{AtFlags, CWD, Mode, OFlags, RawDir, SeekFrom, fstat, openat, readlinkat, seek, statat};
use rustix::io::{Errno, pread};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ffi::CString;
use std::mem::MaybeUninit;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// Bytes of each side that are compared at once.
const PIECE: usize = 1 << 20;

/// What is compared besides names, types, content, link targets, device numbers and which names share an inode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CompareOptions {
    /// Owner and group.
    pub owner: bool,
    /// Extended attributes (those that transfers keep).
    pub xattrs: bool,
    /// Modification times, to the nanosecond.
    pub times: bool,
    /// The bits of modes that are compared; 0o1777 leaves out the set-id bits, which are lost without root.
    pub mode_mask: u16,
}

impl Default for CompareOptions {
    fn default() -> Self {
        CompareOptions { owner: true, xattrs: true, times: true, mode_mask: 0o7777 }
    }
}

/// The outcome.
#[derive(Debug, Default)]
pub struct Comparison {
    /// What was compared (bytes: of one side).
    pub counts: Counts,
    /// Each difference, by the path in the first tree.
    pub differences: Vec<Problem>,
    /// The caller asked to stop before the end.
    pub interrupted: bool,
    /// How long it took.
    pub elapsed: Duration,
}

/// The same directory in both trees.
struct Pair {
    a: Arc<HostDir>,
    b: Arc<HostDir>,
}

enum Job {
    Top,
    Below(Arc<Pair>, CString),
}

struct Compare<'a> {
    run: Run<'a>,
    options: CompareOptions,
    dirs: OpenDirs,
    /// Files with several names, both ways: two names share an inode here exactly if they do there.
    there: Mutex<HashMap<FileId, FileId>>,
    here: Mutex<HashMap<FileId, FileId>>,
}

struct Local {
    a: Vec<u8>,
    b: Vec<u8>,
    entries: Vec<MaybeUninit<u8>>,
    xattrs: XattrBuffers,
}

/// Compares the tree `a` with the tree `b`.
///
/// # Errors
///
/// Where either top directory cannot be opened; all else is a difference.
pub fn compare_trees(
    a: &Path,
    b: &Path,
    options: CompareOptions,
    control: Control<'_>,
) -> Result<Comparison> {
    let dirs = OpenDirs::new();
    let top = Pair { a: open_top(a)?, b: open_top(b)? };
    let compare =
        Compare { run: Run::new(control), options, dirs, there: Mutex::default(), here: Mutex::default() };
    let top = Arc::new(top);
    run_jobs(
        default_threads(),
        Job::Top,
        || Local {
            a: vec![0; PIECE],
            b: vec![0; PIECE],
            entries: vec![MaybeUninit::uninit(); 64 << 10],
            xattrs: XattrBuffers::new(),
        },
        |queue, local, job| match job {
            Job::Top => compare.directory(queue, local, &top),
            Job::Below(parent, name) => {
                if !compare.run.ends() {
                    compare.below(queue, local, &parent, name);
                }
            }
        },
        || compare.run.tick(false),
    );
    let report = compare.run.report("");
    Ok(Comparison {
        counts: report.counts,
        differences: report.problems,
        interrupted: report.interrupted,
        elapsed: report.elapsed,
    })
}

fn open_top(path: &Path) -> Result<Arc<HostDir>> {
    let cannot = |errno| Error::host(format!("cannot compare '{}'", path.display()), errno);
    let fd = openat(CWD, path, OPEN_DIR.difference(OFlags::NOFOLLOW), Mode::empty()).map_err(cannot)?;
    let name = CString::new(path.as_os_str().as_bytes()).map_err(|_| cannot(Errno::INVAL))?;
    HostDir::top(name, fd).map_err(cannot)
}

impl Compare<'_> {
    fn differs(&self, dir: &Pair, name: &[u8], what: impl Into<String>) {
        self.run.problem(dir.a.path(name), what);
    }

    fn failed(&self, dir: &Pair, name: &[u8], errno: Errno) {
        self.differs(dir, name, format!("cannot be compared: {}", errno_text(errno)));
    }

    fn below(&self, queue: &Queue<Job>, local: &mut Local, parent: &Pair, name: CString) {
        let open = |side: &Arc<HostDir>| {
            let at = side.fd(&self.dirs)?;
            let fd = Arc::new(openat(&*at, &*name, OPEN_DIR, Mode::empty())?);
            let stat = fstat(&fd)?;
            let id = FileId { dev: stat.st_dev, ino: stat.st_ino };
            Ok(HostDir::below(&self.dirs, side, name.clone(), id, fd))
        };
        match (open(&parent.a), open(&parent.b)) {
            (Ok(a), Ok(b)) => self.directory(queue, local, &Arc::new(Pair { a, b })),
            (Err(errno), _) | (_, Err(errno)) => self.failed(parent, name.to_bytes(), errno),
        }
    }

    fn directory(&self, queue: &Queue<Job>, local: &mut Local, pair: &Arc<Pair>) {
        if let Err(errno) = self.try_directory(queue, local, pair) {
            self.failed(pair, b"", errno);
        }
    }

    fn try_directory(
        &self,
        queue: &Queue<Job>,
        local: &mut Local,
        pair: &Arc<Pair>,
    ) -> std::result::Result<(), Errno> {
        let (a, b) = (pair.a.fd(&self.dirs)?, pair.b.fd(&self.dirs)?);
        let (meta_a, meta_b) = (meta(fstat(&a)?)?, meta(fstat(&b)?)?);
        self.attributes(pair, b"", &meta_a, &meta_b);
        self.xattrs(local, pair, b"", &Target::Open(&a), &Target::Open(&b));
        count(&self.run.counters.directories);
        let (names_a, names_b) = (names(local, &a)?, names(local, &b)?);
        for name in names_a.difference(&names_b) {
            self.differs(pair, name.to_bytes(), "is missing in the other tree");
        }
        for name in names_b.difference(&names_a) {
            self.differs(pair, name.to_bytes(), "is in the other tree only");
        }
        for name in names_a.intersection(&names_b) {
            if self.run.ends() {
                return Ok(());
            }
            match self.name(local, pair, &a, &b, name) {
                Ok(true) => queue.push(Job::Below(pair.clone(), name.clone())),
                Ok(false) => (),
                Err(errno) => self.failed(pair, name.to_bytes(), errno),
            }
        }
        Ok(())
    }

    /// One name on both sides; true for a directory, which is another job.
    fn name(
        &self,
        local: &mut Local,
        pair: &Pair,
        a: &OwnedFd,
        b: &OwnedFd,
        name: &CString,
    ) -> std::result::Result<bool, Errno> {
        let meta_a = meta(statat(a, name, AtFlags::SYMLINK_NOFOLLOW)?)?;
        let meta_b = meta(statat(b, name, AtFlags::SYMLINK_NOFOLLOW)?)?;
        let bytes = name.to_bytes();
        if meta_a.kind != meta_b.kind {
            self.differs(pair, bytes, format!("{} / {}", meta_a.kind.word(), meta_b.kind.word()));
            return Ok(false);
        }
        if meta_a.kind == FileKind::Directory {
            return Ok(true);
        }
        self.attributes(pair, bytes, &meta_a, &meta_b);
        self.same_inodes(pair, bytes, &meta_a, &meta_b);
        self.xattrs(local, pair, bytes, &Target::Name(a, name), &Target::Name(b, name));
        match meta_a.kind {
            FileKind::File => {
                count(&self.run.counters.files);
                if meta_a.size != meta_b.size {
                    self.differs(pair, bytes, format!("size {} / {}", meta_a.size, meta_b.size));
                } else if meta_a.size > 0 {
                    self.content(local, pair, a, b, name)?;
                }
            }
            FileKind::Symlink => {
                count(&self.run.counters.symlinks);
                if readlinkat(a, name, Vec::new())? != readlinkat(b, name, Vec::new())? {
                    self.differs(pair, bytes, "another link target");
                }
            }
            _ => {
                count(&self.run.counters.specials);
                if meta_a.rdev != meta_b.rdev {
                    self.differs(pair, bytes, "another device number");
                }
            }
        }
        Ok(false)
    }

    fn attributes(&self, pair: &Pair, name: &[u8], a: &Meta, b: &Meta) {
        if a.kind != FileKind::Symlink && (a.perm ^ b.perm) & self.options.mode_mask != 0 {
            self.differs(pair, name, format!("mode {:04o} / {:04o}", a.perm, b.perm));
        }
        if self.options.owner && (a.uid, a.gid) != (b.uid, b.gid) {
            self.differs(pair, name, format!("owner {}:{} / {}:{}", a.uid, a.gid, b.uid, b.gid));
        }
        if self.options.times && a.mtime != b.mtime {
            self.differs(pair, name, format!("modified at {} / {} ns", a.mtime.0, b.mtime.0));
        }
    }

    fn same_inodes(&self, pair: &Pair, name: &[u8], a: &Meta, b: &Meta) {
        if a.links < 2 && b.links < 2 {
            return;
        }
        let there = *self.there.lock().entry(a.id).or_insert(b.id);
        let here = *self.here.lock().entry(b.id).or_insert(a.id);
        if there != b.id || here != a.id {
            self.differs(pair, name, "shares its inode with other names than there");
        }
    }

    fn xattrs(&self, local: &mut Local, pair: &Pair, name: &[u8], a: &Target<'_>, b: &Target<'_>) {
        if !self.options.xattrs {
            return;
        }
        let mut read = |target: &Target<'_>| {
            let mut all = BTreeMap::new();
            local.xattrs.each(target, |name, value| _ = all.insert(name.to_vec(), value.to_vec()));
            all
        };
        let (a, b) = (read(a), read(b));
        for key in a.keys().chain(b.keys()).collect::<BTreeSet<_>>() {
            if a.get(key) != b.get(key) {
                self.differs(pair, name, format!("another value of the attribute {}", shown(key)));
            }
        }
    }

    fn content(
        &self,
        local: &mut Local,
        pair: &Pair,
        a: &OwnedFd,
        b: &OwnedFd,
        name: &CString,
    ) -> std::result::Result<(), Errno> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let (a, b) = (openat(a, name, flags, Mode::empty())?, openat(b, name, flags, Mode::empty())?);
        let (mut offset, mut compared) = (0, 0);
        while !self.run.ends() {
            // What is a hole on both sides is the same.
            match (next_data(&a, offset), next_data(&b, offset)) {
                (None, None) => break,
                (data_a, data_b) => {
                    offset = data_a.unwrap_or(u64::MAX).min(data_b.unwrap_or(u64::MAX));
                }
            }
            let (from_a, from_b) = (fill(&a, &mut local.a, offset)?, fill(&b, &mut local.b, offset)?);
            if local.a[..from_a] != local.b[..from_b] {
                let same = local.a[..from_a].iter().zip(&local.b[..from_b]).take_while(|(a, b)| a == b);
                let at = offset + same.count() as u64;
                self.differs(pair, name.to_bytes(), format!("another content from byte {at}"));
                break;
            }
            offset += from_a as u64;
            compared += from_a as u64;
            if from_a < PIECE {
                break;
            }
        }
        self.run.counters.bytes.fetch_add(compared, std::sync::atomic::Ordering::Relaxed);
        Ok(())
    }
}

fn meta(stat: rustix::fs::Stat) -> std::result::Result<Meta, Errno> {
    Meta::new(&stat).ok_or(Errno::INVAL)
}

fn names(local: &mut Local, fd: &OwnedFd) -> std::result::Result<BTreeSet<CString>, Errno> {
    let mut names = BTreeSet::new();
    let mut entries = RawDir::new(fd, &mut local.entries[..]);
    while let Some(entry) = entries.next() {
        let entry = entry?;
        if !matches!(entry.file_name().to_bytes(), b"." | b"..") {
            names.insert(entry.file_name().to_owned());
        }
    }
    Ok(names)
}

/// Where the next data is, from `offset` on; `None` where only a hole or nothing follows.
fn next_data(fd: &OwnedFd, offset: u64) -> Option<u64> {
    match seek(fd, SeekFrom::Data(offset)) {
        Ok(data) => Some(data),
        Err(Errno::NXIO) => None,
        // A file system that knows no holes: all is data.
        Err(_) => Some(offset),
    }
}

/// As many bytes as there are.
fn fill(fd: &OwnedFd, buffer: &mut [u8], offset: u64) -> std::result::Result<usize, Errno> {
    let mut len = 0;
    while len < buffer.len() {
        match pread(fd, &mut buffer[len..], offset + len as u64)? {
            0 => break,
            count => len += count,
        }
    }
    Ok(len)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Silent;
    use std::fs;

    fn differences(a: &Path, b: &Path) -> Vec<String> {
        let control = Control { interrupt: &|| false, progress: &Silent };
        let options = CompareOptions { times: false, ..CompareOptions::default() };
        let found = compare_trees(a, b, options, control).unwrap();
        let strip = |problem: Problem| {
            let path = String::from_utf8_lossy(&problem.path).into_owned();
            format!("{}: {}", path.strip_prefix(a.to_str().unwrap()).unwrap(), problem.what)
        };
        let mut texts: Vec<String> = found.differences.into_iter().map(strip).collect();
        texts.sort();
        texts
    }

    #[test]
    fn every_planted_difference_is_found() {
        let temp = tempfile::tempdir().unwrap();
        let (a, b) = (temp.path().join("a"), temp.path().join("b"));
        for side in [&a, &b] {
            fs::create_dir_all(side.join("d/e")).unwrap();
            fs::write(side.join("d/same"), "x").unwrap();
            fs::write(side.join("one"), "1").unwrap();
            fs::hard_link(side.join("one"), side.join("two")).unwrap();
        }
        assert!(differences(&a, &b).is_empty());
        let mut content = vec![7_u8; 3 << 20];
        fs::write(a.join("big"), &content).unwrap();
        content[(2 << 20) + 5] = 8;
        fs::write(b.join("big"), &content).unwrap();
        fs::write(a.join("d/e/only"), "").unwrap();
        fs::write(b.join("d/other"), "").unwrap();
        fs::remove_file(b.join("two")).unwrap();
        fs::write(b.join("two"), "1").unwrap();
        std::os::unix::fs::symlink("x", a.join("link")).unwrap();
        std::os::unix::fs::symlink("y", b.join("link")).unwrap();
        fs::write(a.join("kind"), "").unwrap();
        fs::create_dir(b.join("kind")).unwrap();
        let found = differences(&a, &b);
        let expected = [
            "/big: another content from byte 2097157",
            "/d/e/only: is missing in the other tree",
            "/d/other: is in the other tree only",
            "/kind: file / dir",
            "/link: another link target",
            "/two: shares its inode with other names than there",
        ];
        assert_eq!(found, expected);
    }
}
