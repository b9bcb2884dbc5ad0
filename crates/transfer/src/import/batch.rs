//! Batches of small files, which the caller's engine makes with their content in one call.
//!
//! The threads read the host's files as usual and add them to a batch; the thread that fills a batch up
//! passes it to the engine. Files that the engine does not make (above all, because the name is taken) are
//! imported alone afterwards, as without batches.

use super::content::has_changed;
use super::importer::{ThreadBuffers, TreeImport};
use super::pending::{Batches, PendingFile};
use super::source::SourceName;
use crate::on_host::host::HostMeta;
use crate::running::job::count;
use crate::vocabulary::xattrs::XattrTarget;
use lanefs::{Code, FileKind, Ino};
use rustix::fd::OwnedFd;
use rustix::io::pread;
use std::sync::atomic::Ordering;

/// Largest file in a batch, and longest path, in bytes.
const MAX_FILE_BYTES: u64 = 64 << 10;
const MAX_PATH_BYTES: usize = 4096;

/// Reads the whole content of a small file. `None` where its length is not its size, or the file changed: the
/// caller then imports it alone.
fn read_whole(file: &OwnedFd, meta: &HostMeta) -> Option<Vec<u8>> {
    // The extra byte shows that a file has grown.
    let mut content = vec![0; meta.size as usize + 1];
    let mut len = 0;
    while len < content.len() {
        match pread(file, &mut content[len..], len as u64).ok()? {
            0 => break,
            more => len += more,
        }
    }
    content.truncate(len);
    let is_whole = len as u64 == meta.size && has_changed(file, meta) == Ok(false);
    is_whole.then_some(content)
}

impl TreeImport<'_> {
    /// Adds a file to the batch; false where the caller must import it alone.
    pub(super) fn add_to_batch(&self, buffers: &mut ThreadBuffers, source: &SourceName<'_>) -> bool {
        let (Some(batches), Some(file), meta) = (&self.batches, source.file, source.meta) else {
            return false;
        };
        if meta.kind != FileKind::File || meta.size > MAX_FILE_BYTES || meta.may_have_holes() {
            return false;
        }
        let path = source.dir.host.path_below_top(source.name.to_bytes());
        if path.len() > MAX_PATH_BYTES || buffers.xattrs.has_any(&XattrTarget::Open(file)) {
            return false;
        }
        let Some(content) = read_whole(file, meta) else { return false };
        source.dir.tasks.add();
        let (dir, name) = (source.dir.clone(), source.name.to_owned());
        let file = PendingFile { dir, name, path, meta: *meta, content };
        if let Some((_making, files)) = batches.add(file) {
            self.make_batch(buffers, batches, files);
        }
        true
    }

    /// Makes the last batch, once all files have been read.
    pub(super) fn make_rest(&self) {
        let Some(batches) = &self.batches else { return };
        let files = batches.take_rest();
        if !files.is_empty() {
            self.make_batch(&mut ThreadBuffers::new(), batches, files);
        }
    }

    fn make_batch(&self, buffers: &mut ThreadBuffers, batches: &Batches<'_>, files: Vec<PendingFile>) {
        if !self.job.should_stop() {
            let changes: Vec<_> = files.iter().map(PendingFile::change).collect();
            match batches.maker.make(batches.base, &changes) {
                Ok(results) => {
                    for (file, result) in files.iter().zip(results) {
                        match (result.code, result.ino) {
                            (Code::Success, Some(ino)) => self.finish_file(file, ino),
                            _ => self.import_alone(buffers, file),
                        }
                    }
                }
                Err(error) => {
                    let path = files.first().map(PendingFile::source).unwrap_or_default();
                    self.job.volume_refused(
                        path,
                        "cannot write into the volume, at this file or a later one",
                        error,
                    );
                }
            }
        }
        files.into_iter().for_each(|file| self.end_task(file.dir));
    }

    /// Sets the attributes of a file that the engine made.
    fn finish_file(&self, file: &PendingFile, ino: Ino) {
        let inherited = file.dir.target.take_inherited(self.volume, ino, FileKind::File);
        match inherited.and_then(|()| self.volume.setattr(ino, file.meta.set_attr())) {
            Ok(_) => {
                count(&self.job.counters.files);
                self.job.counters.bytes.fetch_add(file.content.len() as u64, Ordering::Relaxed);
            }
            Err(error) => {
                let _ = self.volume.unlink(file.dir.target.ino, file.name.to_bytes());
                self.job.volume_refused(file.source(), "cannot write into the volume", error);
            }
        }
    }

    /// Imports a file that the engine did not make.
    fn import_alone(&self, buffers: &mut ThreadBuffers, file: &PendingFile) {
        if self.job.should_stop() {
            return;
        }
        let (dir, name) = (&file.dir, file.name.as_c_str());
        let opened = dir.host.fd(&self.dirs).and_then(|fd| {
            let (file, stat) = self.opener.open_file(&fd, name)?;
            Ok((fd, file, HostMeta::new(&stat)))
        });
        match opened {
            Ok((fd, file, Some(meta))) if meta.kind == FileKind::File => {
                let source = SourceName { dir, fd: &fd, name, file: Some(&file), meta: &meta };
                self.import_unlinked(buffers, &source, name.to_bytes());
            }
            Ok(_) => self.job.problem(file.source(), "changed its type during the import"),
            Err(errno) => self.host_problem(dir, name.to_bytes(), errno),
        }
    }
}
