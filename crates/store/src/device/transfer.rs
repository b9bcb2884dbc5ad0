//! One request on its way through a ring.

use super::system;
use io_uring::{opcode, squeue, types};
use std::fs::File;
use std::io;
use std::marker::PhantomData;
use std::os::fd::RawFd;

#[derive(Clone, Copy)]
enum Direction {
    Read,
    Write,
}

/// Bytes that move between a file and memory that is borrowed for `'m`, and how far they are.
///
/// A raw pointer stands for the borrow, for a reference must not be held while the kernel writes the memory behind it.
pub(super) struct Transfer<'m> {
    /// Which request of its call this is.
    pub(super) index: usize,
    at: u64,
    address: *mut u8,
    left: usize,
    direction: Direction,
    borrow: PhantomData<&'m mut [u8]>,
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
    pub(super) fn read(index: usize, at: u64, buffer: &'m mut [u8]) -> Self {
        let (address, left) = (buffer.as_mut_ptr(), buffer.len());
        Transfer { index, at, address, left, direction: Direction::Read, borrow: PhantomData }
    }

    /// Writes `data` to `at` and on.
    pub(super) fn write(index: usize, at: u64, data: &'m [u8]) -> Self {
        // (The pointer is never written through: the direction says so.)
        let (address, left) = (data.as_ptr().cast_mut(), data.len());
        Transfer { index, at, address, left, direction: Direction::Write, borrow: PhantomData }
    }

    /// The kernel's request for what is left, at most `most` bytes.
    pub(super) fn entry(&self, file: RawFd, most: u32) -> squeue::Entry {
        let len = u32::try_from(self.left).unwrap_or(u32::MAX).min(most);
        match self.direction {
            Direction::Read => opcode::Read::new(types::Fd(file), self.address, len).offset(self.at).build(),
            Direction::Write => {
                opcode::Write::new(types::Fd(file), self.address, len).offset(self.at).build()
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
        let Some(count) = system::progress(count, self.left, grain) else {
            return Step::Failed(match self.direction {
                Direction::Read => io::ErrorKind::UnexpectedEof.into(),
                Direction::Write => io::ErrorKind::WriteZero.into(),
            });
        };
        self.at += count as u64;
        self.address = self.address.wrapping_add(count);
        self.left -= count;
        if self.left == 0 { Step::Done } else { Step::More }
    }

    /// Does what is left by system calls. The kernel must hold no request for this memory.
    pub(super) fn finish(self, file: &File, grain: usize) -> io::Result<()> {
        match self.direction {
            Direction::Read => {
                // SAFETY: address and length are the rest of a `&'m mut [u8]` that this transfer was made from, and
                // nobody else uses that memory: the kernel holds no request for it.
                let buffer = unsafe { std::slice::from_raw_parts_mut(self.address, self.left) };
                system::read(file, self.at, buffer, self.left, grain)
            }
            Direction::Write => {
                // SAFETY: address and length are the rest of a `&'m [u8]` that this transfer was made from.
                let data = unsafe { std::slice::from_raw_parts(self.address, self.left) };
                system::write(file, self.at, data, grain)
            }
        }
    }
}
