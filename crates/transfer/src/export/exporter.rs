//! State of a tree's export, and steps that names of all kinds share.

use super::dir::{ExportDir, NamesOf};
use super::host_entry::HostEntryError;
use super::options::ExportOptions;
use crate::on_host::hostdir::{FileId, OpenDirs};
use crate::running::expansion::Expansion;
use crate::running::job::{Control, TransferJob};
use crate::running::report::Report;
use crate::vocabulary::error::{Error, Result, ends_writing, errno_text};
use crate::vocabulary::hardlinks::HardLinks;
use crate::vocabulary::name::{shown, shown_path};
use lanefs::{FileSystem, Ino};
use lanefs_sync::lock::Mutex;
use rustix::fd::OwnedFd;
use rustix::fs::syncfs;
use rustix::io::Errno;
use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;

/// The first name of a file with several names, on the host.
#[derive(Clone)]
pub(super) struct FirstName {
    pub(super) dir: Arc<ExportDir>,
    pub(super) name: Vec<u8>,
    /// Name of the file until it replaces an old one.
    pub(super) temporary: Option<Vec<u8>>,
    pub(super) id: FileId,
}

/// State of a tree's export, shared by its threads.
pub(super) struct TreeExport<'a> {
    pub(super) job: TransferJob<'a>,
    pub(super) volume: &'a dyn FileSystem,
    pub(super) options: &'a ExportOptions,
    pub(super) expansion: Expansion,
    pub(super) source: &'a [u8],
    pub(super) dirs: OpenDirs,
    /// Copies of files with several names. A further name is: directory and name on the host.
    pub(super) links: HardLinks<Ino, FirstName, (Arc<ExportDir>, Vec<u8>)>,
    /// Names of directories with few of them, which become tasks together.
    pub(super) gathered: Mutex<Vec<NamesOf>>,
    /// Directories visited: a damaged volume may have a directory under two names, and so a cycle.
    pub(super) visited: Mutex<HashSet<Ino>>,
    pub(super) uid: u32,
    pub(super) gid: u32,
}

impl<'a> TreeExport<'a> {
    pub(super) fn new(
        volume: &'a dyn FileSystem,
        source: &'a [u8],
        options: &'a ExportOptions,
        control: Control<'a>,
    ) -> Result<Self> {
        let uid = rustix::process::geteuid();
        let expansion = Expansion::new(volume, options.max_expansion)
            .map_err(|error| Error::volume("cannot read the size of the volume", error))?;
        Ok(TreeExport {
            job: TransferJob::new(control),
            volume,
            options,
            expansion,
            source,
            dirs: OpenDirs::new(),
            links: HardLinks::new(),
            gathered: Mutex::default(),
            visited: Mutex::default(),
            uid: uid.as_raw(),
            gid: rustix::process::getegid().as_raw(),
        })
    }

    /// Makes everything durable where the options ask for it, and returns the report.
    pub(super) fn finish(self, top: &OwnedFd, dest: &Path) -> Report {
        self.job.report_progress(true);
        if self.options.sync
            && let Err(errno) = syncfs(top)
        {
            self.job.stop(Error::host(format!("cannot make '{}' durable", shown_path(dest)), errno));
        }
        self.job.report("the host")
    }

    /// Records a problem of `name` in `dir`.
    pub(super) fn problem(&self, dir: &ExportDir, name: &[u8], what: impl Into<String>) {
        self.job.problem(dir.path(self.source, name), what);
    }

    /// Records damage of the volume at `name` in `dir`.
    pub(super) fn damage(&self, dir: &ExportDir, name: &[u8], what: &str) {
        self.job.damage(dir.path(self.source, name), what);
    }

    /// Records that the volume could not read `name` in `dir`.
    pub(super) fn unread(&self, dir: &ExportDir, name: &[u8], error: &lanefs::Error) {
        self.job.unread(
            dir.path(self.source, name),
            format!("cannot be read from the volume: {error}"),
            error,
        );
    }

    /// Handles an error of the host: stops the transfer, or records a problem of the name alone.
    pub(super) fn host_refused(&self, dir: &ExportDir, name: &[u8], doing: &str, errno: Errno) {
        if ends_writing(errno) {
            let path = shown(&dir.host.path(name));
            self.job.stop(Error::host(format!("{doing} '{path}' on the host"), errno));
        } else {
            self.problem(dir, name, format!("{doing}: {}", errno_text(errno)));
        }
    }

    /// Handles a name that could not be made on the host.
    pub(super) fn entry_refused(&self, dir: &ExportDir, name: &[u8], error: &HostEntryError) {
        match error {
            HostEntryError::Host(errno) => self.host_refused(dir, name, "cannot make", *errno),
            HostEntryError::Volume(error) => self.unread(dir, name, error),
            error => self.problem(dir, name, error.text()),
        }
    }
}
