//! A file of the host that a copy fills: a regular one, or a pipe or device that the user named.

use super::meta::FileMeta;
use crate::terminal::failure::{Failure, Outcome, check_interrupt};
use lanefs_transfer::by_descriptor::{set_mode_and_times, set_owner};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::OwnedFd;
use rustix::fs::{FileType, Mode, Stat, fchmod, fstat};
use rustix::io::Errno;
use std::fs::File;
use std::io::{ErrorKind, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;

/// Bytes of zeros that are written at once where a stream has no holes.
static ZEROS: [u8; 1 << 16] = [0; 1 << 16];

/// A wait for the reader of a pipe checks so often whether the user asked to stop.
const POLL_INTERVAL: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };

/// An open file that a copy fills.
pub(super) struct HostFile {
    file: File,
    kind: Kind,
}

enum Kind {
    /// A regular file. `made`: by the copy.
    Regular { made: bool },
    /// A pipe, device or terminal: it takes all bytes in their order, those of holes too.
    Stream { position: u64 },
}

impl HostFile {
    /// A regular file that the copy made.
    pub(super) fn made(file: OwnedFd) -> Self {
        HostFile { file: file.into(), kind: Kind::Regular { made: true } }
    }

    /// A file that was there, opened with `O_NONBLOCK`; `stat` is its own.
    pub(super) fn found(file: OwnedFd, stat: &Stat) -> Self {
        let kind = match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => Kind::Regular { made: false },
            _ => Kind::Stream { position: 0 },
        };
        HostFile { file: file.into(), kind }
    }

    /// The file.
    pub(super) fn file(&self) -> &File {
        &self.file
    }

    /// True for a file that the copy made.
    pub(super) fn is_made(&self) -> bool {
        matches!(self.kind, Kind::Regular { made: true })
    }

    /// Drops the old content.
    ///
    /// # Errors
    /// Names the file: the host's.
    pub(super) fn clear(&self, path: &Path) -> Outcome {
        match self.kind {
            Kind::Regular { made: false } => self.file.set_len(0).map_err(|e| Failure::host(path, &e)),
            Kind::Regular { made: true } | Kind::Stream { .. } => Ok(()),
        }
    }

    /// Writes `data` at `offset`, which is at or after the end of all that was written.
    ///
    /// # Errors
    /// Names the file: the host's; the user asked to stop.
    pub(super) fn write(&mut self, path: &Path, offset: u64, data: &[u8]) -> Outcome {
        if let Kind::Regular { .. } = self.kind {
            return self.file.write_all_at(data, offset).map_err(|error| Failure::host(path, &error));
        }
        self.fill_to(path, offset)?;
        self.push(path, data)
    }

    /// Sets the size of the complete content to `size`; it may end with a hole.
    ///
    /// # Errors
    /// As [`write`](Self::write).
    pub(super) fn finish(&mut self, path: &Path, size: u64) -> Outcome {
        if let Kind::Stream { .. } = self.kind {
            return self.fill_to(path, size);
        }
        let set = || if self.file.metadata()?.len() == size { Ok(()) } else { self.file.set_len(size) };
        set().map_err(|error| Failure::host(path, &error))
    }

    /// Writes zeros to a stream up to `end`.
    fn fill_to(&mut self, path: &Path, end: u64) -> Outcome {
        while let Kind::Stream { position } = self.kind
            && position < end
        {
            let len = ZEROS.len().min(usize::try_from(end - position).unwrap_or(ZEROS.len()));
            self.push(path, &ZEROS[..len])?;
        }
        Ok(())
    }

    /// Writes to a stream. A wait for the reader of a pipe ends when the user asks to stop.
    fn push(&mut self, path: &Path, mut data: &[u8]) -> Outcome {
        while !data.is_empty() {
            check_interrupt()?;
            let count = match self.file.write(data) {
                Ok(0) => return Err(Failure::host(path, &ErrorKind::WriteZero.into())),
                Ok(count) => count,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    let pipe = PollFd::new(&self.file, PollFlags::OUT);
                    let _ = poll(&mut [pipe], Some(&POLL_INTERVAL));
                    continue;
                }
                Err(error) if error.kind() == ErrorKind::BrokenPipe => return Err(Failure::BrokenPipe),
                Err(error) => return Err(Failure::host(path, &error)),
            };
            data = data.get(count..).unwrap_or_default();
            if let Kind::Stream { position } = &mut self.kind {
                *position += count as u64;
            }
        }
        Ok(())
    }

    /// Sets the attributes of a complete file. One that was there gets no set-id bits, because somebody else
    /// may still have it open; a pipe or device keeps its own.
    ///
    /// # Errors
    /// The host's.
    pub(super) fn set_attributes(&self, meta: &FileMeta, preserve: bool) -> Result<(), Errno> {
        let Kind::Regular { made } = self.kind else { return Ok(()) };
        if preserve {
            let mut attributes = meta.attributes();
            let owned = set_owner(&self.file, &attributes)?;
            if !made {
                attributes.perm &= 0o1777;
            }
            return set_mode_and_times(&self.file, &attributes, owned);
        }
        // The file was made with more permissions than the source has, so that it could be filled.
        let bits = fstat(&self.file)?.st_mode & 0o7777;
        let extra = 0o700 & !u32::from(meta.perm);
        let is_wide = made && bits & extra != 0;
        if is_wide { fchmod(&self.file, Mode::from_raw_mode(bits & !extra)) } else { Ok(()) }
    }
}
