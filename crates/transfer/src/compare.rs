//! Comparison of two whole trees of the host: the check of a round trip, independent of the import and export
//! code.

use crate::on_host::host::{ENTRIES_BYTES, HostMeta};
use crate::on_host::hostdir::{FileId, HostDir, OPEN_DIR, OpenDirs, open_named};
use crate::running::job::{Control, TransferJob, count};
use crate::running::queue::{Queue, default_threads, run_tasks};
use crate::running::report::{Counts, Problem};
use crate::vocabulary::error::{Error, Result, errno_text};
use crate::vocabulary::name::{shown, shown_path};
use crate::vocabulary::xattrs::{XattrBuffers, XattrTarget};
use lanefs::FileKind;
use lanefs_sync::lock::Mutex;
use rustix::fd::OwnedFd;
use rustix::fs::{AtFlags, Mode, OFlags, RawDir, SeekFrom, fstat, openat, readlinkat, seek, statat};
use rustix::io::{Errno, pread};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ffi::CString;
use std::mem::MaybeUninit;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// Bytes of each side that one step compares.
const CHUNK_BYTES: usize = 1 << 20;

/// Attributes to compare besides names, types, content, link targets, device numbers and shared inodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CompareOptions {
    /// Owner and group.
    pub owner: bool,
    /// Extended attributes, as far as transfers keep them.
    pub xattrs: bool,
    /// Modification times, to the nanosecond.
    pub times: bool,
    /// Mode bits to compare; 0o1777 leaves out the set-id bits, which a user without root loses.
    pub mode_mask: u16,
}

impl Default for CompareOptions {
    fn default() -> Self {
        CompareOptions { owner: true, xattrs: true, times: true, mode_mask: 0o7777 }
    }
}

/// The outcome of a comparison.
#[derive(Debug, Default)]
pub struct Comparison {
    /// Amounts compared; bytes are those of one side.
    pub counts: Counts,
    /// Each difference, with the path in the first tree.
    pub differences: Vec<Problem>,
    /// True where the caller stopped the comparison before its end.
    pub interrupted: bool,
    /// Time from start to end.
    pub elapsed: Duration,
}

/// The same directory in both trees.
struct DirPair {
    a: Arc<HostDir>,
    b: Arc<HostDir>,
}

enum CompareTask {
    Top,
    Below(Arc<DirPair>, CString),
}

struct Compare<'a> {
    job: TransferJob<'a>,
    options: CompareOptions,
    dirs: OpenDirs,
    /// Inodes with several names, from each side to the other: two names share an inode in `a` exactly if
    /// they do in `b`.
    a_to_b: Mutex<HashMap<FileId, FileId>>,
    b_to_a: Mutex<HashMap<FileId, FileId>>,
}

struct CompareBuffers {
    a: Vec<u8>,
    b: Vec<u8>,
    entries: Vec<MaybeUninit<u8>>,
    xattrs: XattrBuffers,
}

/// Compares the tree `a` with the tree `b`.
///
/// # Errors
///
/// A top directory cannot be opened. All other failures are differences.
pub fn compare_trees(
    a: &Path,
    b: &Path,
    options: CompareOptions,
    control: Control<'_>,
) -> Result<Comparison> {
    let dirs = OpenDirs::new();
    let top = DirPair { a: open_top(a)?, b: open_top(b)? };
    let compare = Compare {
        job: TransferJob::new(control),
        options,
        dirs,
        a_to_b: Mutex::default(),
        b_to_a: Mutex::default(),
    };
    let top = Arc::new(top);
    run_tasks(
        default_threads(),
        CompareTask::Top,
        || CompareBuffers {
            a: vec![0; CHUNK_BYTES],
            b: vec![0; CHUNK_BYTES],
            entries: vec![MaybeUninit::uninit(); ENTRIES_BYTES],
            xattrs: XattrBuffers::new(),
        },
        |queue, buffers, task| match task {
            CompareTask::Top => compare.directory(queue, buffers, &top),
            CompareTask::Below(parent, name) => {
                if !compare.job.should_stop() {
                    compare.below(queue, buffers, &parent, name);
                }
            }
        },
        || compare.job.report_progress(false),
    );
    let report = compare.job.report("");
    Ok(Comparison {
        counts: report.counts,
        differences: report.problems,
        interrupted: report.interrupted,
        elapsed: report.elapsed,
    })
}

fn open_top(path: &Path) -> Result<Arc<HostDir>> {
    let cannot = |errno| Error::host(format!("cannot compare '{}'", shown_path(path)), errno);
    open_named(path).and_then(|fd| HostDir::named(path, fd)).map_err(cannot)
}

impl Compare<'_> {
    fn differs(&self, dir: &DirPair, name: &[u8], what: impl Into<String>) {
        self.job.problem(dir.a.path(name), what);
    }

    fn failed(&self, dir: &DirPair, name: &[u8], errno: Errno) {
        self.differs(dir, name, format!("cannot be compared: {}", errno_text(errno)));
    }

    fn below(
        &self,
        queue: &Queue<CompareTask>,
        buffers: &mut CompareBuffers,
        parent: &DirPair,
        name: CString,
    ) {
        let open = |side: &Arc<HostDir>| {
            let at = side.fd(&self.dirs)?;
            let fd = Arc::new(openat(&*at, &*name, OPEN_DIR, Mode::empty())?);
            let stat = fstat(&fd)?;
            let id = FileId::of(&stat);
            Ok(HostDir::below(&self.dirs, side, name.clone(), id, fd))
        };
        match (open(&parent.a), open(&parent.b)) {
            (Ok(a), Ok(b)) => self.directory(queue, buffers, &Arc::new(DirPair { a, b })),
            (Err(errno), _) | (_, Err(errno)) => self.failed(parent, name.to_bytes(), errno),
        }
    }

    fn directory(&self, queue: &Queue<CompareTask>, buffers: &mut CompareBuffers, pair: &Arc<DirPair>) {
        if let Err(errno) = self.try_directory(queue, buffers, pair) {
            self.failed(pair, b"", errno);
        }
    }

    fn try_directory(
        &self,
        queue: &Queue<CompareTask>,
        buffers: &mut CompareBuffers,
        pair: &Arc<DirPair>,
    ) -> std::result::Result<(), Errno> {
        let (a, b) = (pair.a.fd(&self.dirs)?, pair.b.fd(&self.dirs)?);
        let (meta_a, meta_b) = (meta(fstat(&a)?)?, meta(fstat(&b)?)?);
        self.attributes(pair, b"", &meta_a, &meta_b);
        self.xattrs(buffers, pair, b"", &XattrTarget::Open(&a), &XattrTarget::Open(&b));
        count(&self.job.counters.directories);
        let (names_a, names_b) = (names(buffers, &a)?, names(buffers, &b)?);
        for name in names_a.difference(&names_b) {
            self.differs(pair, name.to_bytes(), "is missing in the other tree");
        }
        for name in names_b.difference(&names_a) {
            self.differs(pair, name.to_bytes(), "is in the other tree only");
        }
        for name in names_a.intersection(&names_b) {
            if self.job.should_stop() {
                return Ok(());
            }
            match self.name(buffers, pair, &a, &b, name) {
                Ok(true) => queue.push(CompareTask::Below(pair.clone(), name.clone())),
                Ok(false) => (),
                Err(errno) => self.failed(pair, name.to_bytes(), errno),
            }
        }
        Ok(())
    }

    /// Compares one name on both sides; true for a directory, which becomes a task of its own.
    fn name(
        &self,
        buffers: &mut CompareBuffers,
        pair: &DirPair,
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
        self.xattrs(buffers, pair, bytes, &XattrTarget::Name(a, name), &XattrTarget::Name(b, name));
        match meta_a.kind {
            FileKind::File => {
                count(&self.job.counters.files);
                if meta_a.size != meta_b.size {
                    self.differs(pair, bytes, format!("size {} / {}", meta_a.size, meta_b.size));
                } else if meta_a.size > 0 {
                    self.content(buffers, pair, a, b, name)?;
                }
            }
            FileKind::Symlink => {
                count(&self.job.counters.symlinks);
                if readlinkat(a, name, Vec::new())? != readlinkat(b, name, Vec::new())? {
                    self.differs(pair, bytes, "has another link target");
                }
            }
            _ => {
                count(&self.job.counters.specials);
                if meta_a.rdev != meta_b.rdev {
                    self.differs(pair, bytes, "has another device number");
                }
            }
        }
        Ok(false)
    }

    fn attributes(&self, pair: &DirPair, name: &[u8], a: &HostMeta, b: &HostMeta) {
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

    fn same_inodes(&self, pair: &DirPair, name: &[u8], a: &HostMeta, b: &HostMeta) {
        if a.links < 2 && b.links < 2 {
            return;
        }
        let in_b = *self.a_to_b.lock().entry(a.id).or_insert(b.id);
        let in_a = *self.b_to_a.lock().entry(b.id).or_insert(a.id);
        if in_b != b.id || in_a != a.id {
            self.differs(pair, name, "shares its inode with other names than in the other tree");
        }
    }

    fn xattrs(
        &self,
        buffers: &mut CompareBuffers,
        pair: &DirPair,
        name: &[u8],
        a: &XattrTarget<'_>,
        b: &XattrTarget<'_>,
    ) {
        if !self.options.xattrs {
            return;
        }
        let mut read = |target: &XattrTarget<'_>| {
            let mut all = BTreeMap::new();
            buffers.xattrs.each(target, |name, value| _ = all.insert(name.to_vec(), value.to_vec()));
            all
        };
        let (a, b) = (read(a), read(b));
        for key in a.keys().chain(b.keys()).collect::<BTreeSet<_>>() {
            if a.get(key) != b.get(key) {
                self.differs(pair, name, format!("has another value of the attribute {}", shown(key)));
            }
        }
    }

    fn content(
        &self,
        buffers: &mut CompareBuffers,
        pair: &DirPair,
        a: &OwnedFd,
        b: &OwnedFd,
        name: &CString,
    ) -> std::result::Result<(), Errno> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let (a, b) = (openat(a, name, flags, Mode::empty())?, openat(b, name, flags, Mode::empty())?);
        let (mut offset, mut compared) = (0, 0);
        while !self.job.should_stop() {
            // Holes on both sides are equal.
            match (next_data(&a, offset), next_data(&b, offset)) {
                (None, None) => break,
                (data_a, data_b) => {
                    offset = data_a.unwrap_or(u64::MAX).min(data_b.unwrap_or(u64::MAX));
                }
            }
            let (from_a, from_b) =
                (read_up_to(&a, &mut buffers.a, offset)?, read_up_to(&b, &mut buffers.b, offset)?);
            if buffers.a[..from_a] != buffers.b[..from_b] {
                let same = buffers.a[..from_a].iter().zip(&buffers.b[..from_b]).take_while(|(a, b)| a == b);
                let at = offset + same.count() as u64;
                self.differs(pair, name.to_bytes(), format!("differs from byte {at} on"));
                break;
            }
            offset += from_a as u64;
            compared += from_a as u64;
            if from_a < CHUNK_BYTES {
                break;
            }
        }
        self.job.counters.bytes.fetch_add(compared, std::sync::atomic::Ordering::Relaxed);
        Ok(())
    }
}

fn meta(stat: rustix::fs::Stat) -> std::result::Result<HostMeta, Errno> {
    HostMeta::new(&stat).ok_or(Errno::INVAL)
}

fn names(buffers: &mut CompareBuffers, fd: &OwnedFd) -> std::result::Result<BTreeSet<CString>, Errno> {
    let mut names = BTreeSet::new();
    let mut entries = RawDir::new(fd, &mut buffers.entries[..]);
    while let Some(entry) = entries.next() {
        let entry = entry?;
        if !matches!(entry.file_name().to_bytes(), b"." | b"..") {
            names.insert(entry.file_name().to_owned());
        }
    }
    Ok(names)
}

/// Returns the offset of the next data from `offset` on; `None` where only a hole or nothing follows.
fn next_data(fd: &OwnedFd, offset: u64) -> Option<u64> {
    match seek(fd, SeekFrom::Data(offset)) {
        Ok(data) => Some(data),
        Err(Errno::NXIO) => None,
        // The file system has no holes: all is data.
        Err(_) => Some(offset),
    }
}

/// Reads until `buffer` is full or the file ends; returns the number of bytes.
fn read_up_to(fd: &OwnedFd, buffer: &mut [u8], offset: u64) -> std::result::Result<usize, Errno> {
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
    use crate::running::job::Silent;
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
            "/big: differs from byte 2097157 on",
            "/d/e/only: is missing in the other tree",
            "/d/other: is in the other tree only",
            "/kind: file / dir",
            "/link: has another link target",
            "/two: shares its inode with other names than in the other tree",
        ];
        assert_eq!(found, expected);
    }
}
