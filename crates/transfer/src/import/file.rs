//! One file's content into the volume.

use super::OWNER;
use crate::error::errno_text;
use crate::host::{Meta, PIECE};
use crate::run::Run;
use lanefs::{Ino, Volume};
use rustix::fd::OwnedFd;
use rustix::fs::{Advice, SeekFrom, fadvise, fstat, seek};
use rustix::io::{Errno, pread, read};
use std::sync::atomic::Ordering::Relaxed;

/// Why a content was not copied.
#[derive(Debug)]
pub(crate) enum Fault {
    /// The host refused to give it.
    Host(Errno),
    /// The volume refused to take it.
    Volume(lanefs::Error),
    /// The transfer ends.
    Ends,
}

impl From<Errno> for Fault {
    fn from(errno: Errno) -> Self {
        Fault::Host(errno)
    }
}

impl From<lanefs::Error> for Fault {
    fn from(error: lanefs::Error) -> Self {
        Fault::Volume(error)
    }
}

impl Fault {
    /// In words, for a problem of the file.
    pub(crate) fn text(&self) -> String {
        match self {
            Fault::Host(errno) => format!("cannot be read: {}", errno_text(*errno)),
            Fault::Volume(error) => error.to_string(),
            Fault::Ends => "not finished".into(),
        }
    }
}

/// What came of a copy.
pub(crate) struct Copied {
    /// The size that the file must be set to, where it ends in a hole.
    pub(crate) size: Option<u64>,
    /// The source changed while it was read.
    pub(crate) changed: bool,
}

/// Copies the content of `fd` to the new file `ino`. `buffer` has [`PIECE`] bytes.
pub(crate) fn copy_in(
    run: &Run<'_>,
    volume: &Volume,
    buffer: &mut [u8],
    fd: &OwnedFd,
    meta: &Meta,
    ino: Ino,
) -> Result<Copied, Fault> {
    let mut copy = Copy { run, volume, buffer, fd, ino, end: 0 };
    if meta.may_have_holes() {
        copy.sparse(meta.size)?;
    } else if meta.size < PIECE as u64 {
        copy.small(meta.size as usize)?;
    } else {
        let _ = fadvise(fd, 0, None, Advice::Sequential);
        copy.pieces(0, meta.size)?;
    }
    let end = copy.end;
    // An empty file cannot have changed in a way that its content would tell.
    let changed = (meta.size > 0 || end > 0) && has_changed(fd, meta)?;
    let size = (end < meta.size && meta.may_have_holes()).then_some(meta.size);
    Ok(Copied { size, changed })
}

/// Is the file another one than before?
pub(crate) fn has_changed(fd: &OwnedFd, before: &Meta) -> Result<bool, Errno> {
    let after = fstat(fd)?;
    Ok(Meta::new(&after).is_none_or(|after| after.size != before.size || after.mtime != before.mtime))
}

struct Copy<'a> {
    run: &'a Run<'a>,
    volume: &'a Volume,
    buffer: &'a mut [u8],
    fd: &'a OwnedFd,
    ino: Ino,
    /// Where the last byte written ends.
    end: u64,
}

impl Copy<'_> {
    fn write(&mut self, offset: u64, len: usize) -> Result<(), Fault> {
        self.volume.write(&OWNER, self.ino, offset, &self.buffer[..len])?;
        self.end = offset + len as u64;
        self.run.counters.bytes.fetch_add(len as u64, Relaxed);
        Ok(())
    }

    /// One read, as a rule.
    fn small(&mut self, size: usize) -> Result<(), Fault> {
        let want = size.max(1);
        let mut len = 0;
        while len < want {
            match read(self.fd, &mut self.buffer[len..want])? {
                0 => break,
                count => len += count,
            }
        }
        if size == 0 && len > 0 {
            // A file that tells no size, as those of /proc: whatever there is, is taken.
            return self.pieces(0, u64::MAX);
        }
        if len > 0 { self.write(0, len) } else { Ok(()) }
    }

    /// From `start` to `end` or the end of the file, in pieces that end at multiples of [`PIECE`].
    fn pieces(&mut self, start: u64, end: u64) -> Result<(), Fault> {
        let mut offset = start;
        while offset < end {
            if self.run.ends() {
                return Err(Fault::Ends);
            }
            let want = (PIECE as u64 - offset % PIECE as u64).min(end - offset) as usize;
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

    /// Data only; holes stay holes.
    fn sparse(&mut self, size: u64) -> Result<(), Fault> {
        let mut at = 0;
        while at < size {
            let data = match seek(self.fd, SeekFrom::Data(at)) {
                Ok(data) => data,
                // No data behind here.
                Err(Errno::NXIO) => break,
                // A file system that knows no holes.
                Err(Errno::INVAL | Errno::OPNOTSUPP) => return self.pieces(at, size),
                Err(errno) => return Err(errno.into()),
            };
            let hole = seek(self.fd, SeekFrom::Hole(data)).unwrap_or(size);
            self.pieces(data, hole.max(data + 1))?;
            at = hole.max(data + 1);
        }
        Ok(())
    }
}
