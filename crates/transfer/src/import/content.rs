//! Copying of one file's content into the volume.

use crate::on_host::host::{CHUNK_BYTES, HostMeta, UNSIZED_BYTES};
use crate::running::job::TransferJob;
use crate::vocabulary::error::errno_text;
use lanefs::{FileSystem, Ino};
use rustix::fd::OwnedFd;
use rustix::fs::{Advice, SeekFrom, fadvise, fstat, seek};
use rustix::io::{Errno, pread, read};
use std::sync::atomic::Ordering::Relaxed;

/// Reason why a content was not copied.
#[derive(Debug)]
pub(crate) enum ImportFailure {
    /// The host refused to read it.
    Host(Errno),
    /// The volume refused to write it.
    Volume(lanefs::Error),
    /// The transfer stops.
    Stopped,
}

impl From<Errno> for ImportFailure {
    fn from(errno: Errno) -> Self {
        ImportFailure::Host(errno)
    }
}

impl From<lanefs::Error> for ImportFailure {
    fn from(error: lanefs::Error) -> Self {
        ImportFailure::Volume(error)
    }
}

impl ImportFailure {
    /// Describes the reason, for a problem of the file.
    pub(crate) fn text(&self) -> String {
        match self {
            ImportFailure::Host(errno) => format!("cannot be read: {}", errno_text(*errno)),
            ImportFailure::Volume(error) => error.to_string(),
            ImportFailure::Stopped => "not finished".into(),
        }
    }
}

/// Outcome of a copy.
pub(crate) struct Copied {
    /// Size to set, where the file ends in a hole.
    pub(crate) size: Option<u64>,
    /// True where the source changed while it was read.
    pub(crate) changed: bool,
}

/// Copies the content of `fd` to the new file `ino`. `buffer` has [`CHUNK_BYTES`] bytes.
pub(crate) fn copy_in(
    job: &TransferJob<'_>,
    volume: &dyn FileSystem,
    buffer: &mut [u8],
    fd: &OwnedFd,
    meta: &HostMeta,
    ino: Ino,
) -> Result<Copied, ImportFailure> {
    let mut copy = ContentCopy { job, volume, buffer, fd, ino, end: 0 };
    if meta.may_have_holes() {
        copy.copy_sparse(meta.size)?;
    } else if meta.size < CHUNK_BYTES as u64 {
        copy.copy_small(meta.size as usize)?;
    } else {
        let _ = fadvise(fd, 0, None, Advice::Sequential);
        copy.copy_range(0, meta.size)?;
    }
    let end = copy.end;
    // A file that was and is empty has no content that could have changed.
    let changed = (meta.size > 0 || end > 0) && has_changed(fd, meta)?;
    let size = (end < meta.size && meta.may_have_holes()).then_some(meta.size);
    Ok(Copied { size, changed })
}

/// True where the size or the modification time of the file has changed.
pub(crate) fn has_changed(fd: &OwnedFd, before: &HostMeta) -> Result<bool, Errno> {
    let after = fstat(fd)?;
    Ok(HostMeta::new(&after).is_none_or(|after| after.size != before.size || after.mtime != before.mtime))
}

struct ContentCopy<'a> {
    job: &'a TransferJob<'a>,
    volume: &'a dyn FileSystem,
    buffer: &'a mut [u8],
    fd: &'a OwnedFd,
    ino: Ino,
    /// End of the last range written.
    end: u64,
}

impl ContentCopy<'_> {
    fn write(&mut self, offset: u64, len: usize) -> Result<(), ImportFailure> {
        self.volume.write(self.ino, offset, &self.buffer[..len])?;
        self.end = offset + len as u64;
        self.job.counters.bytes.fetch_add(len as u64, Relaxed);
        Ok(())
    }

    /// Copies a small file, usually with one read.
    fn copy_small(&mut self, size: usize) -> Result<(), ImportFailure> {
        // Files such as those of /proc report no size: all their content is read.
        let is_unsized = size == 0;
        let want = if is_unsized { UNSIZED_BYTES } else { size };
        let mut len = 0;
        while len < want {
            match read(self.fd, &mut self.buffer[len..want])? {
                0 => break,
                count => len += count,
            }
        }
        if len > 0 {
            self.write(0, len)?;
        }
        if is_unsized && len == want { self.copy_pieces(len as u64, u64::MAX, UNSIZED_BYTES) } else { Ok(()) }
    }

    /// Copies from `start` to `end` or the end of the file, in chunks that end at multiples of
    /// [`CHUNK_BYTES`].
    fn copy_range(&mut self, start: u64, end: u64) -> Result<(), ImportFailure> {
        self.copy_pieces(start, end, CHUNK_BYTES)
    }

    /// Copies from `start` to `end` or the end of the file, in pieces that end at multiples of `piece` bytes.
    fn copy_pieces(&mut self, start: u64, end: u64, piece: usize) -> Result<(), ImportFailure> {
        let mut offset = start;
        while offset < end {
            if self.job.should_stop() {
                return Err(ImportFailure::Stopped);
            }
            let want = (piece as u64 - offset % piece as u64).min(end - offset) as usize;
            let mut len = 0;
            while len < want {
                match pread(self.fd, &mut self.buffer[len..want], offset + len as u64)? {
                    0 => break,
                    count => len += count,
                }
            }
            if len > 0 {
                self.write(offset, len)?;
            }
            offset += len as u64;
            if len < want {
                break;
            }
        }
        Ok(())
    }

    /// Copies the data only; holes stay holes.
    fn copy_sparse(&mut self, size: u64) -> Result<(), ImportFailure> {
        let mut offset = 0;
        while offset < size {
            let data = match seek(self.fd, SeekFrom::Data(offset)) {
                Ok(data) => data,
                // Only a hole follows.
                Err(Errno::NXIO) => break,
                // The file system has no holes.
                Err(Errno::INVAL | Errno::OPNOTSUPP) => return self.copy_range(offset, size),
                Err(errno) => return Err(errno.into()),
            };
            let hole = seek(self.fd, SeekFrom::Hole(data)).unwrap_or(size);
            self.copy_range(data, hole.max(data + 1))?;
            offset = hole.max(data + 1);
        }
        Ok(())
    }
}
