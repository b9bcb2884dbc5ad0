//! The walk over the host's tree: tasks, directories, and their entries.

use super::dir::ImportDir;
use super::importer::{ThreadBuffers, TreeImport};
use super::options::ImportOptions;
use super::pending::Batches;
use crate::in_volume::volume::{TargetDir, destination};
use crate::in_volume::volume_entry::make_directory;
use crate::on_host::host::HostMeta;
use crate::on_host::hostdir::{HostDir, OPEN_DIR, open_named};
use crate::running::job::{Control, count};
use crate::running::queue::{Queue, default_threads, run_tasks};
use crate::running::report::Report;
use crate::vocabulary::error::{Error, Result};
use crate::vocabulary::name::{is_entry_name, shown, shown_path};
use lanefs::host_path::parent_dir;
use lanefs::{FileKind, FileSystem, SetAttr, path};
use rustix::fd::OwnedFd;
use rustix::fs::{AtFlags, FileType, RawDir, fstat, statat};
use rustix::io::Errno;
use std::ffi::{CStr, CString};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

/// Most names of one directory in one task; further ones become tasks for other threads.
const TASK_NAMES: usize = 128;

enum ImportTask {
    /// Walks the top directory.
    Top,
    /// Makes and walks a directory: a name in its parent.
    Directory(Arc<ImportDir>, CString),
    /// Imports other names of a directory.
    Names(Arc<ImportDir>, Vec<HostName>),
}

/// A name in a directory of the host. Names are ordered by inode number, which is the order on disk.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct HostName {
    ino: u64,
    name: CString,
    /// `None` where the directory's entry has no type.
    kind: Option<NameKind>,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum NameKind {
    File,
    Directory,
    Other,
}

impl NameKind {
    fn new(kind: FileType) -> Option<Self> {
        match kind {
            FileType::RegularFile => Some(NameKind::File),
            FileType::Directory => Some(NameKind::Directory),
            FileType::Unknown => None,
            _ => Some(NameKind::Other),
        }
    }
}

/// Imports the content of the directory `source` into the directory `dest`.
pub(super) fn import_directory(
    volume: &dyn FileSystem,
    source: &Path,
    dest: &[u8],
    options: &ImportOptions<'_>,
    control: Control<'_>,
) -> Result<Report> {
    let mut import = TreeImport::new(volume, options, control);
    let cannot = |errno| Error::host(format!("cannot open '{}'", shown_path(source)), errno);
    let fd = open_named(source).map_err(cannot)?;
    let meta = fstat(&fd).map_err(cannot)?;
    let meta = HostMeta::new(&meta).ok_or_else(|| cannot(Errno::INVAL))?;
    let target = destination(volume, dest)?;
    import.batches = options.maker.map(|maker| Batches::new(maker, target.ino));
    let host = HostDir::named(source, fd).map_err(cannot)?;
    import.job.note_far_time(&meta, || source.as_os_str().as_bytes().to_vec());
    let top = Arc::new(ImportDir::new(None, host, target, meta.set_attr()));
    count(&import.job.counters.directories);
    run_tasks(
        options.threads.unwrap_or_else(default_threads),
        ImportTask::Top,
        ThreadBuffers::new,
        |queue, buffers, task| import.execute(queue, buffers, &top, task),
        || import.job.report_progress(false),
    );
    import.make_rest();
    drop(top);
    Ok(import.finish())
}

/// Imports a single file that is not a directory.
pub(super) fn import_single(
    volume: &dyn FileSystem,
    source: &Path,
    dest: &[u8],
    options: &ImportOptions<'_>,
    control: Control<'_>,
) -> Result<Report> {
    let import = TreeImport::new(volume, options, control);
    let cannot = |errno| Error::host(format!("cannot import '{}'", shown_path(source)), errno);
    let name = source.file_name().ok_or_else(|| cannot(Errno::INVAL))?;
    let name = CString::new(name.as_bytes()).map_err(|_| cannot(Errno::INVAL))?;
    let fd = open_named(parent_dir(source)).map_err(cannot)?;
    let (target, new_name) = single_destination(volume, dest, name.to_bytes())?;
    let host = HostDir::named(source.parent().unwrap_or(Path::new("")), fd).map_err(cannot)?;
    // Its task never ends, so the directory's own attributes stay.
    let dir = Arc::new(ImportDir::new(None, host, target, SetAttr::default()));
    let fd = dir.host.fd(&import.dirs).map_err(cannot)?;
    import.import_entry(&mut ThreadBuffers::new(), &dir, &fd, &name, false, &new_name);
    Ok(import.finish())
}

/// Returns directory and name of a single file's destination.
fn single_destination(volume: &dyn FileSystem, dest: &[u8], own_name: &[u8]) -> Result<(TargetDir, Vec<u8>)> {
    let is_directory = |attr: lanefs::Attr| attr.kind == FileKind::Directory;
    if dest.ends_with(b"/") || volume.resolve(dest).is_ok_and(is_directory) {
        return Ok((destination(volume, dest)?, own_name.to_vec()));
    }
    let (parent, name) = path::split_last(dest).unwrap_or_default();
    if !is_entry_name(name) {
        return Err(Error::Usage(format!("'{}' is not a valid name of a file in the volume", shown(dest))));
    }
    let parent = if parent.is_empty() { b"/" } else { parent };
    Ok((destination(volume, parent)?, name.to_vec()))
}

impl TreeImport<'_> {
    fn execute(
        &self,
        queue: &Queue<ImportTask>,
        buffers: &mut ThreadBuffers,
        top: &Arc<ImportDir>,
        task: ImportTask,
    ) {
        match task {
            ImportTask::Top => {
                if let Ok(fd) = top.host.fd(&self.dirs) {
                    self.copy_dir_xattrs(buffers, &fd, top);
                    self.walk(queue, buffers, top, &fd);
                }
                self.end_task(top.clone());
            }
            ImportTask::Directory(parent, name) => {
                if !self.job.should_stop() {
                    self.import_subdirectory(queue, buffers, &parent, &name);
                }
                self.end_task(parent);
            }
            ImportTask::Names(dir, names) => {
                self.import_names(buffers, &dir, names);
                self.end_task(dir);
            }
        }
    }

    fn import_names(&self, buffers: &mut ThreadBuffers, dir: &Arc<ImportDir>, mut names: Vec<HostName>) {
        let fd = match dir.host.fd(&self.dirs) {
            Ok(fd) => fd,
            Err(errno) => return self.host_problem(dir, b"", errno),
        };
        names.sort_unstable();
        for entry in names {
            if self.job.should_stop() {
                return;
            }
            let is_file = entry.kind == Some(NameKind::File);
            self.import_entry(buffers, dir, &fd, &entry.name, is_file, entry.name.to_bytes());
            self.commits.commit_if_due(&self.job);
        }
    }

    /// Makes the directory `name` of `parent` and walks it.
    fn import_subdirectory(
        &self,
        queue: &Queue<ImportTask>,
        buffers: &mut ThreadBuffers,
        parent: &Arc<ImportDir>,
        name: &CStr,
    ) {
        let opened = parent.host.fd(&self.dirs).and_then(|fd| {
            let fd = self.opener.open(&fd, name, OPEN_DIR)?;
            let meta = HostMeta::new(&fstat(&fd)?).ok_or(Errno::INVAL)?;
            Ok((Arc::new(fd), meta))
        });
        let (fd, meta) = match opened {
            Ok(opened) => opened,
            Err(errno) => return self.host_problem(parent, name.to_bytes(), errno),
        };
        self.job.note_far_time(&meta, || parent.host.path(name.to_bytes()));
        let making = self.commits.making();
        let made = make_directory(self.volume, parent.target, name.to_bytes(), self.options.overwrite);
        let target = match made {
            Ok(target) => target,
            Err(error) => return self.entry_refused(parent, name.to_bytes(), error),
        };
        count(&self.job.counters.directories);
        drop(making);
        // The parent waits for this directory, as this directory does for its own walk.
        parent.tasks.add();
        let host = HostDir::below(&self.dirs, &parent.host, name.to_owned(), meta.id, fd.clone());
        let dir = Arc::new(ImportDir::new(Some(parent.clone()), host, target, meta.set_attr()));
        self.copy_dir_xattrs(buffers, &fd, &dir);
        if !(self.options.one_file_system && meta.id.dev != parent.host.id().dev) {
            self.walk(queue, buffers, &dir, &fd);
        }
        self.end_task(dir);
    }

    /// Divides a directory's entries into tasks, and executes the last one.
    fn walk(
        &self,
        queue: &Queue<ImportTask>,
        buffers: &mut ThreadBuffers,
        dir: &Arc<ImportDir>,
        fd: &OwnedFd,
    ) {
        let mut names = Vec::new();
        let mut entries = RawDir::new(fd, &mut buffers.entries[..]);
        let failed = loop {
            match entries.next() {
                None => break None,
                Some(Err(errno)) => break Some(errno),
                Some(Ok(entry)) => {
                    let name = entry.file_name();
                    if matches!(name.to_bytes(), b"." | b"..") {
                        continue;
                    }
                    let kind = NameKind::new(entry.file_type());
                    if kind == Some(NameKind::Directory) {
                        dir.tasks.add();
                        queue.push(ImportTask::Directory(dir.clone(), name.to_owned()));
                        continue;
                    }
                    if names.len() == TASK_NAMES {
                        dir.tasks.add();
                        queue.push(ImportTask::Names(dir.clone(), std::mem::take(&mut names)));
                    }
                    names.push(HostName { ino: entry.ino(), name: name.to_owned(), kind });
                }
            }
        };
        if let Some(errno) = failed {
            self.host_problem(dir, b"", errno);
        }
        // Some file systems return entries without types: the type of each name is read here, and directories
        // become tasks.
        for entry in names.extract_if(.., |entry| entry.kind.is_none()) {
            dir.tasks.add();
            let is_dir = statat(fd, &*entry.name, AtFlags::SYMLINK_NOFOLLOW)
                .is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Directory);
            queue.push(if is_dir {
                ImportTask::Directory(dir.clone(), entry.name)
            } else {
                ImportTask::Names(dir.clone(), vec![HostName { kind: Some(NameKind::Other), ..entry }])
            });
        }
        self.import_names(buffers, dir, names);
    }
}
