//! One request on its way through a ring.

use super::{IoBuf, IoBufMut, system};
use io_uring::{opcode, squeue, types};
use std::fs::File;
use std::io;
use std::os::fd::RawFd;

/// Memory that is borrowed for `'m`, and which way its bytes go.
enum Memory<'m> {
    Read(IoBufMut<'m>),
    Write(IoBuf<'m>),
}

impl Memory<'_> {
    fn len(&self) -> usize {
        match self {
            Memory::Read(buffer) => buffer.len(),
            Memory::Write(data) => data.len(),
        }
    }
}

/// Bytes that move between a file and memory, and how far they are.
pub(super) struct Transfer<'m> {
    /// Which request of its call this is.
    pub(super) index: usize,
    at: u64,
    memory: Memory<'m>,
    /// Bytes that were moved.
    done: usize,
}

/// What became of a part of a transfer.
pub(super) enum Step {
    /// All is done.
    Done,
    /// A part is done; the rest must be asked for.
    More,
    /// The kernel wants to be asked again.
    Again,
    /// It failed.
    Failed(io::Error),
}

impl<'m> Transfer<'m> {
    /// Fills `buffer` from `at` on.
    pub(super) fn read(index: usize, at: u64, buffer: IoBufMut<'m>) -> Self {
        Transfer { index, at, memory: Memory::Read(buffer), done: 0 }
    }

    /// Writes `data` to `at` and on.
    pub(super) fn write(index: usize, at: u64, data: IoBuf<'m>) -> Self {
        Transfer { index, at, memory: Memory::Write(data), done: 0 }
    }

    fn left(&self) -> usize {
        self.memory.len() - self.done
    }

    /// The kernel's request for what is left, at most `most` bytes.
    pub(super) fn entry(&mut self, file: RawFd, most: u32) -> squeue::Entry {
        let len = u32::try_from(self.left()).unwrap_or(u32::MAX).min(most);
        let (file, at) = (types::Fd(file), self.at + self.done as u64);
        match &mut self.memory {
            Memory::Read(buffer) => {
                opcode::Read::new(file, buffer.part(self.done..).as_mut_ptr(), len).offset(at).build()
            }
            Memory::Write(data) => {
                opcode::Write::new(file, data.part(self.done..).as_ptr(), len).offset(at).build()
            }
        }
    }

    /// Takes note of the kernel's answer: a count of bytes, or a negative errno.
    pub(super) fn proceed(&mut self, answer: i32, grain: usize) -> Step {
        let Ok(count) = usize::try_from(answer) else {
            let error = io::Error::from_raw_os_error(answer.saturating_neg());
            return match error.kind() {
                io::ErrorKind::Interrupted | io::ErrorKind::WouldBlock => Step::Again,
                _ => Step::Failed(error),
            };
        };
        let Some(count) = system::progress(count, self.left(), grain) else {
            return Step::Failed(match self.memory {
                Memory::Read(_) => io::ErrorKind::UnexpectedEof.into(),
                Memory::Write(_) => io::ErrorKind::WriteZero.into(),
            });
        };
        debug_assert!(count <= self.left());
        self.done += count;
        if self.left() == 0 { Step::Done } else { Step::More }
    }

    /// Does what is left by system calls. The kernel must hold no request for this memory.
    pub(super) fn finish(self, file: &File, grain: usize) -> io::Result<()> {
        let (at, left) = (self.at + self.done as u64, self.left());
        match self.memory {
            Memory::Read(mut buffer) => system::read(file, at, buffer.part(self.done..), left, grain),
            Memory::Write(data) => system::write(file, at, data.part(self.done..), grain),
        }
    }
}
