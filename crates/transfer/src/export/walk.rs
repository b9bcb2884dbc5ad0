//! The walk over the volume's tree: tasks, directories, and their entries.

use super::dir::{ExportDir, NamesOf};
use super::exporter::TreeExport;
use super::host_entry::HostEntryError;
use super::options::ExportOptions;
use crate::on_host::host::{Attributes, CHUNK_BYTES};
use crate::on_host::host_attributes::set_times;
use crate::on_host::hostdir::{FileId, HostDir, OPEN_DIR, make_or_open};
use crate::running::job::{Control, count};
use crate::running::queue::{Queue, default_threads, run_tasks};
use crate::running::report::Report;
use crate::vocabulary::error::{Error, Result};
use crate::vocabulary::name::{is_entry_name, shown_path};
use crate::vocabulary::xattrs::{XattrTarget, remove_inherited_acls};
use lanefs::host_path::{make_dirs, open_dir, parent_dir};
use lanefs::{Attr, FileKind, FileSystem, Ino, path};
use rustix::fd::OwnedFd;
use rustix::fs::{Mode, fstat, openat};
use rustix::io::Errno;
use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

/// Entries that one call reads from a directory, and that make one task.
const TASK_ENTRIES: usize = 128;

enum ExportTask {
    /// Walks the top directory.
    Top,
    /// Makes and walks a directory: an entry of its parent.
    Directory(Arc<ExportDir>, Ino, Vec<u8>),
    /// Exports other entries of some directories.
    Names(Vec<NamesOf>),
    /// Exports those that were gathered.
    Gathered,
}

/// Opens the directory `dest` of the host, made with its parents where it does not exist; true where it was
/// made. A link of that name is followed to a directory that exists.
fn open_destination(dest: &Path) -> Result<(OwnedFd, bool)> {
    let cannot = |errno| Error::host(format!("cannot make the directory '{}'", shown_path(dest)), errno);
    let open = |dir| open_dir(dir).and_then(|dir| openat(&dir, ".", OPEN_DIR, Mode::empty()));
    let Some(name) = dest.file_name() else {
        // `/`, `.` or `..`, which exist.
        return open(dest).map(|fd| (fd, false)).map_err(cannot);
    };
    let parent = parent_dir(dest);
    let parent = make_dirs(parent).map_err(cannot)?;
    match make_or_open(&parent, name.as_bytes(), true) {
        Ok(opened) => Ok((opened.fd, opened.made)),
        // The caller's own path may be a link to a directory.
        Err(Errno::NOTDIR | Errno::LOOP) => open(dest).map(|fd| (fd, false)).map_err(cannot),
        Err(errno) => Err(cannot(errno)),
    }
}

fn top_dir(path: &Path, fd: OwnedFd, attr: &Attr, made: bool) -> Result<Arc<ExportDir>> {
    let cannot = |errno| Error::host(format!("cannot export to '{}'", shown_path(path)), errno);
    let host = HostDir::named(path, fd).map_err(cannot)?;
    Ok(Arc::new(ExportDir::new(None, host, *attr, Vec::new(), made)))
}

/// Exports the content of the directory `source` into the directory `dest`.
pub(super) fn export_directory(
    volume: &dyn FileSystem,
    source: &[u8],
    attr: &Attr,
    dest: &Path,
    options: &ExportOptions,
    control: Control<'_>,
) -> Result<Report> {
    let export = TreeExport::new(volume, source, options, control)?;
    let (fd, made) = open_destination(dest)?;
    if made {
        remove_inherited_acls(&XattrTarget::Open(&fd));
    }
    let top = top_dir(dest, fd, attr, made)?;
    let fd = top.host.fd(&export.dirs).map_err(|e| Error::host(format!("'{}'", shown_path(dest)), e))?;
    export.visited.lock().insert(attr.ino);
    count(&export.job.counters.directories);
    run_tasks(
        options.threads.unwrap_or_else(default_threads),
        ExportTask::Top,
        || vec![0; CHUNK_BYTES],
        |queue, buffer: &mut Vec<u8>, task| export.execute(queue, buffer, &top, task),
        || export.job.report_progress(false),
    );
    drop(top);
    Ok(export.finish(&fd, dest))
}

/// Exports a single file that is not a directory.
pub(super) fn export_single(
    volume: &dyn FileSystem,
    source: &[u8],
    attr: &Attr,
    dest: &Path,
    options: &ExportOptions,
    control: Control<'_>,
) -> Result<Report> {
    let no_name =
        || Error::Usage(format!("'{}' is not a valid name of a file on the host", shown_path(dest)));
    let (base, own_name) = path::split_last(source).unwrap_or_default();
    let into_directory = dest.is_dir() || dest.as_os_str().as_bytes().ends_with(b"/");
    let (parent, name) = if into_directory {
        (dest, own_name.to_vec())
    } else {
        let parent = parent_dir(dest);
        (parent, dest.file_name().ok_or_else(no_name)?.as_bytes().to_vec())
    };
    if !is_entry_name(&name) {
        return Err(no_name());
    }
    // Problems name the volume's path, which begins with `base`.
    let export = TreeExport::new(volume, base, options, control)?;
    let (fd, made) = open_destination(parent)?;
    let top = top_dir(parent, fd, attr, made)?;
    let fd = top.host.fd(&export.dirs).map_err(|e| Error::host(format!("'{}'", shown_path(parent)), e))?;
    export.export_entry(&mut vec![0; CHUNK_BYTES], &top, &fd, attr.ino, &name);
    Ok(export.finish(&fd, dest))
}

impl TreeExport<'_> {
    fn execute(&self, queue: &Queue<ExportTask>, buffer: &mut [u8], top: &Arc<ExportDir>, task: ExportTask) {
        match task {
            ExportTask::Top => {
                self.walk(queue, top);
                self.end_task(top.clone());
            }
            ExportTask::Directory(parent, ino, name) => {
                if !self.job.should_stop() {
                    self.export_subdirectory(queue, &parent, ino, &name);
                }
                self.end_task(parent);
            }
            ExportTask::Names(groups) => self.export_groups(buffer, groups),
            ExportTask::Gathered => {
                let gathered = std::mem::take(&mut *self.gathered.lock());
                self.export_groups(buffer, gathered);
            }
        }
    }

    /// Exports the entries of some directories, whose content is fetched together.
    fn export_groups(&self, buffer: &mut [u8], groups: Vec<NamesOf>) {
        let inodes = groups.iter().flat_map(|group| &group.names).map(|(ino, _)| *ino);
        let (inodes, mut brought, mut done): (Vec<Ino>, _, _) = (inodes.collect(), 0, 0);
        for NamesOf { dir, names } in groups {
            match dir.host.fd(&self.dirs) {
                Ok(fd) => {
                    for (ino, name) in names {
                        if self.job.should_stop() {
                            break;
                        }
                        if done == brought {
                            brought += self.volume.bring_files(&inodes[done..]).max(1);
                        }
                        done += 1;
                        self.export_entry(buffer, &dir, &fd, ino, &name);
                    }
                }
                Err(errno) => {
                    self.host_refused(&dir, b"", "cannot be opened again", errno);
                    done += names.len();
                    brought = brought.max(done);
                }
            }
            self.end_task(dir);
        }
    }

    /// Keeps a few names of a directory until those of other directories make a task of the usual size.
    fn gather(&self, queue: &Queue<ExportTask>, dir: &Arc<ExportDir>, names: Vec<(Ino, Vec<u8>)>) {
        if names.is_empty() {
            return;
        }
        dir.tasks.add();
        let mut gathered = self.gathered.lock();
        gathered.push(NamesOf { dir: dir.clone(), names });
        if gathered.iter().map(|group| group.names.len()).sum::<usize>() >= TASK_ENTRIES {
            queue.push(ExportTask::Names(std::mem::take(&mut *gathered)));
        } else if gathered.len() == 1 {
            // Nobody else may come.
            queue.push_below(ExportTask::Gathered);
        }
    }

    /// Ends one task of `dir`. The last one sets the directory's attributes, which ends a task of its parent.
    fn end_task(&self, dir: Arc<ExportDir>) {
        let mut current = Some(dir);
        while let Some(dir) = current {
            if !dir.tasks.end() {
                return;
            }
            // A directory that was there may belong to somebody else, or have been put there by him: it keeps
            // its owner and its mode.
            let set = dir.host.fd(&self.dirs).and_then(|fd| match dir.made {
                true => self.set_open(&fd, &dir.attr, false),
                false => set_times(&*fd, &Attributes::from(&dir.attr)),
            });
            if let Err(errno) = set {
                self.host_refused(&dir, b"", "cannot set the attributes", errno);
            }
            current = dir.parent.clone();
        }
    }

    fn export_subdirectory(&self, queue: &Queue<ExportTask>, parent: &Arc<ExportDir>, ino: Ino, name: &[u8]) {
        if !self.visited.lock().insert(ino) {
            return self.damage(parent, name, "is a directory with a second name (run `lanefs fsck`)");
        }
        let attr = match self.volume.getattr(ino) {
            Ok(attr) => attr,
            Err(error) => return self.unread(parent, name, &error),
        };
        let (fd, made) = match self.make_directory(parent, name) {
            Ok(opened) => opened,
            Err(error) => return self.entry_refused(parent, name, &error),
        };
        let (id, c_name) = match (fstat(&fd), CString::new(name)) {
            (Ok(stat), Ok(c_name)) => (FileId::of(&stat), c_name),
            _ => return self.entry_refused(parent, name, &HostEntryError::Host(Errno::INVAL)),
        };
        if made && !parent.made {
            remove_inherited_acls(&XattrTarget::Open(&fd));
        }
        count(&self.job.counters.directories);
        // The parent waits for this directory, as this directory does for its own walk.
        parent.tasks.add();
        let host = HostDir::below(&self.dirs, &parent.host, c_name, id, Arc::new(fd));
        let dir = Arc::new(ExportDir::new(Some(parent.clone()), host, attr, name.to_vec(), made));
        self.walk(queue, &dir);
        self.end_task(dir);
    }

    /// Makes and opens a directory, or opens the existing one; never follows a link. True where it was made.
    fn make_directory(
        &self,
        parent: &Arc<ExportDir>,
        name: &[u8],
    ) -> std::result::Result<(OwnedFd, bool), HostEntryError> {
        let fd = parent.host.fd(&self.dirs)?;
        match make_or_open(&fd, name, !parent.made) {
            Ok(opened) => Ok((opened.fd, opened.made)),
            Err(Errno::NOTDIR | Errno::LOOP) => Err(HostEntryError::NoDirectory),
            Err(errno) => Err(errno.into()),
        }
    }

    /// Divides a directory's entries into tasks.
    fn walk(&self, queue: &Queue<ExportTask>, dir: &Arc<ExportDir>) {
        let mut names = Vec::new();
        let mut cookie = 0;
        loop {
            let entries = match self.volume.readdir(dir.attr.ino, cookie, TASK_ENTRIES) {
                Ok(entries) => entries,
                Err(error) => {
                    self.unread(dir, b"", &error);
                    break;
                }
            };
            let Some(last) = entries.last() else { break };
            cookie = last.cookie;
            for entry in entries {
                if !is_entry_name(&entry.name) {
                    self.damage(dir, &entry.name, "is not a valid name (run `lanefs fsck`)");
                } else if entry.kind == FileKind::Directory {
                    dir.tasks.add();
                    queue.push(ExportTask::Directory(dir.clone(), entry.ino, entry.name));
                } else {
                    names.push((entry.ino, entry.name));
                }
            }
            if names.len() >= TASK_ENTRIES {
                dir.tasks.add();
                let names = std::mem::take(&mut names);
                queue.push(ExportTask::Names(vec![NamesOf { dir: dir.clone(), names }]));
            }
            if self.job.should_stop() {
                return;
            }
        }
        self.gather(queue, dir, names);
    }
}
