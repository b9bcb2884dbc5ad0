//! One transfer, which a ring or system calls do.

use super::{IoBuf, IoBufMut, system};
use io_uring::{opcode, squeue, types};
use std::fs::File;
use std::io;
use std::os::fd::RawFd;

/// Memory that is borrowed for `'m`, and which way its bytes go.
enum TransferMemory<'m> {
    Read(IoBufMut<'m>),
    Write(IoBuf<'m>),
}

impl TransferMemory<'_> {
    fn len(&self) -> usize {
        match self {
            TransferMemory::Read(buffer) => buffer.len(),
            TransferMemory::Write(data) => data.len(),
        }
    }
}

/// Bytes that move between a file and memory, and how far they are.
pub(super) struct Transfer<'m> {
    /// Index of the request in its call.
    pub(super) index: usize,
    at: u64,
    memory: TransferMemory<'m>,
    /// Bytes that were moved.
    done: usize,
}

/// Outcome of a part of a transfer.
pub(super) enum Progress {
    /// The transfer has ended.
    Done,
    /// A part is done; the rest needs another request.
    More,
    /// The kernel did nothing: it would have to wait, or cannot tell whether it would. System calls do it.
    Again,
    /// The transfer failed.
    Failed(io::Error),
}

impl<'m> Transfer<'m> {
    /// Returns a transfer that fills `buffer` from `at` on.
    pub(super) fn read(index: usize, at: u64, buffer: IoBufMut<'m>) -> Self {
        Transfer { index, at, memory: TransferMemory::Read(buffer), done: 0 }
    }

    /// Returns a transfer that writes `data` from `at` on.
    pub(super) fn write(index: usize, at: u64, data: IoBuf<'m>) -> Self {
        Transfer { index, at, memory: TransferMemory::Write(data), done: 0 }
    }

    fn left(&self) -> usize {
        self.memory.len() - self.done
    }

    /// Returns the kernel's request for the rest, at most `most` bytes, with flags of preadv2(2).
    pub(super) fn entry(&mut self, file: RawFd, most: u32, flags: i32) -> squeue::Entry {
        let len = u32::try_from(self.left()).unwrap_or(u32::MAX).min(most);
        let (file, at) = (types::Fd(file), self.at + self.done as u64);
        match &mut self.memory {
            TransferMemory::Read(buffer) => {
                let read = opcode::Read::new(file, buffer.part(self.done..).as_mut_ptr(), len);
                read.offset(at).rw_flags(flags).build()
            }
            TransferMemory::Write(data) => {
                let write = opcode::Write::new(file, data.part(self.done..).as_ptr(), len);
                write.offset(at).rw_flags(flags).build()
            }
        }
    }

    /// Applies the kernel's result: a count of bytes, or a negative errno.
    pub(super) fn proceed(&mut self, result: i32, unit: usize) -> Progress {
        let Ok(count) = usize::try_from(result) else {
            let error = io::Error::from_raw_os_error(result.saturating_neg());
            return match error.kind() {
                io::ErrorKind::Interrupted | io::ErrorKind::WouldBlock | io::ErrorKind::Unsupported => {
                    Progress::Again
                }
                _ => Progress::Failed(error),
            };
        };
        let Some(count) = system::progress(count, self.left(), unit) else {
            return Progress::Failed(match self.memory {
                TransferMemory::Read(_) => io::ErrorKind::UnexpectedEof.into(),
                TransferMemory::Write(_) => io::ErrorKind::WriteZero.into(),
            });
        };
        assert!(count <= self.left(), "{count} bytes moved of {}", self.left());
        self.done += count;
        if self.left() == 0 { Progress::Done } else { Progress::More }
    }

    /// Does the rest by system calls. No request for this memory is in flight.
    pub(super) fn finish(self, file: &File, unit: usize) -> io::Result<()> {
        let (at, left) = (self.at + self.done as u64, self.left());
        match self.memory {
            TransferMemory::Read(mut buffer) => system::read(file, at, buffer.part(self.done..), left, unit),
            TransferMemory::Write(data) => system::write(file, at, data.part(self.done..), unit),
        }
    }
}
