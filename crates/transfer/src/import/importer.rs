//! State of a tree's import, and steps that names of all kinds share.

use super::dir::ImportDir;
use super::options::ImportOptions;
use super::pending::Batches;
use crate::in_volume::volume_entry::VolumeEntryError;
use crate::on_host::host::{CHUNK_BYTES, ENTRIES_BYTES};
use crate::on_host::hostdir::{FileId, OpenDirs};
use crate::on_host::opener::Opener;
use crate::running::commits::Commits;
use crate::running::job::{Control, TransferJob};
use crate::running::report::Report;
use crate::vocabulary::error::errno_text;
use crate::vocabulary::hardlinks::HardLinks;
use crate::vocabulary::xattrs::{DEFAULT_LIST, XattrBuffers, XattrTarget};
use lanefs::{FileSystem, Ino};
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use std::mem::MaybeUninit;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Buffers of one thread, reused from file to file.
pub(super) struct ThreadBuffers {
    pub(super) content: Vec<u8>,
    pub(super) entries: Vec<MaybeUninit<u8>>,
    pub(super) xattrs: XattrBuffers,
}

impl ThreadBuffers {
    pub(super) fn new() -> Self {
        ThreadBuffers {
            content: vec![0; CHUNK_BYTES],
            entries: vec![MaybeUninit::uninit(); ENTRIES_BYTES],
            xattrs: XattrBuffers::new(),
        }
    }
}

/// State of a tree's import, shared by its threads.
pub(super) struct TreeImport<'a> {
    pub(super) job: TransferJob<'a>,
    pub(super) volume: &'a dyn FileSystem,
    pub(super) options: &'a ImportOptions<'a>,
    pub(super) commits: Commits<'a>,
    pub(super) dirs: OpenDirs,
    /// Small files that wait to be made together, where the caller has an engine for that.
    pub(super) batches: Option<Batches<'a>>,
    /// Copies of files with several names. A further name is: directory and name in the volume, path of the
    /// source.
    pub(super) links: HardLinks<FileId, Ino, (Ino, Vec<u8>, Vec<u8>)>,
    pub(super) opener: Opener,
}

impl<'a> TreeImport<'a> {
    pub(super) fn new(
        volume: &'a dyn FileSystem,
        options: &'a ImportOptions<'a>,
        control: Control<'a>,
    ) -> Self {
        TreeImport {
            job: TransferJob::new(control),
            volume,
            options,
            commits: Commits::new(volume, options.commit),
            dirs: OpenDirs::new(),
            batches: None,
            links: HardLinks::new(),
            opener: Opener::new(),
        }
    }

    /// Makes everything durable and returns the report.
    pub(super) fn finish(self) -> Report {
        debug_assert!(
            self.batches.as_ref().is_none_or(|batches| batches.take_rest().is_empty()),
            "no file waits in a batch at the end"
        );
        self.commits.finish(self.job, "the host or the volume")
    }

    /// Ends one task of `dir`. The last one sets the directory's attributes, which ends a task of its parent.
    pub(super) fn end_task(&self, dir: Arc<ImportDir>) {
        let mut current = Some(dir);
        while let Some(dir) = current {
            if !dir.tasks.end() {
                return;
            }
            if let Err(error) = self.volume.setattr(dir.target.ino, dir.attr) {
                self.job.volume_refused(dir.host.path(b""), "cannot set the attributes of", error);
            }
            if let Some(list) = dir.default_list.get() {
                self.set_xattr(dir.target.ino, DEFAULT_LIST, list, || dir.host.path(b""));
            }
            current = dir.parent.clone();
        }
    }

    /// Copies the extended attributes of a file of the host to `ino`.
    pub(super) fn copy_xattrs(
        &self,
        buffers: &mut ThreadBuffers,
        target: &XattrTarget<'_>,
        ino: Ino,
        path: impl Fn() -> Vec<u8>,
    ) {
        let refused = buffers.xattrs.each(target, |name, value| self.set_xattr(ino, name, value, &path));
        self.job.counters.xattrs_refused.fetch_add(refused, Ordering::Relaxed);
    }

    /// Copies the extended attributes of a directory.
    pub(super) fn copy_dir_xattrs(&self, buffers: &mut ThreadBuffers, fd: &OwnedFd, dir: &ImportDir) {
        let refused = buffers.xattrs.each(&XattrTarget::Open(fd), |name, value| match name {
            DEFAULT_LIST => drop(dir.default_list.set(value.to_vec())),
            name => self.set_xattr(dir.target.ino, name, value, || dir.host.path(b"")),
        });
        self.job.counters.xattrs_refused.fetch_add(refused, Ordering::Relaxed);
    }

    fn set_xattr(&self, ino: Ino, name: &[u8], value: &[u8], path: impl Fn() -> Vec<u8>) {
        self.job.set_xattr(self.volume, ino, name, value, path);
    }

    /// Records an error of the host about `name` in `dir`.
    pub(super) fn host_problem(&self, dir: &ImportDir, name: &[u8], errno: Errno) {
        let what = match errno {
            Errno::NOENT => "vanished during the import".to_string(),
            Errno::LOOP | Errno::NOTDIR | Errno::NXIO => "changed its type during the import".into(),
            Errno::STALE => "was replaced by another directory during the import".into(),
            errno => format!("cannot be read: {}", errno_text(errno)),
        };
        self.job.problem(dir.host.path(name), what);
    }

    /// Handles a name that could not be made in the volume.
    pub(super) fn entry_refused(&self, dir: &ImportDir, name: &[u8], error: VolumeEntryError) {
        match error {
            VolumeEntryError::Volume(error) => {
                self.job.volume_refused(dir.host.path(name), "cannot write into the volume", error);
            }
            error => self.job.problem(dir.host.path(name), error.text()),
        }
    }
}
