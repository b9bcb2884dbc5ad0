//! Content of files: reading, writing, allocation, holes, copies.

use super::opening::OpenFlags;
use super::privileges::kill_privileges;
use crate::errno::{Errno, Reply};
use crate::requester::Requester;
use crate::served::Served;
use crate::statistics::Operation;
use crate::versions::NodeId;
use crate::versions::OpenVersion;
use lanefs::format::BLOCK;
use lanefs::{Allocate, Caller, Code, Ino, Seek};

const OWNER: Caller = Caller::OWNER;
/// Most bytes that one request copies, because other requests wait for the thread.
const MAX_COPY_BYTES: u64 = 64 << 20;

// Of `fallocate(2)` and `lseek(2)`.
const KEEP_SIZE: i32 = 1;
const PUNCH_HOLE: i32 = 2;
const ZERO_RANGE: i32 = 16;
const SEEK_DATA: i32 = 3;
const SEEK_HOLE: i32 = 4;

impl Served {
    /// Reads content of a file that was opened with these flags into the transport's buffer; returns the
    /// number of bytes, less than the buffer has only at the end of the file.
    ///
    /// # Errors
    /// Those of [`Volume::read`](lanefs::Volume::read).
    pub fn read(&self, node: NodeId, offset: u64, buffer: &mut [u8], flags: OpenFlags) -> Reply<usize> {
        self.with(Operation::Read, node, |volume| {
            let ino = volume.numbers.ino(node);
            let bytes = volume.read(&OWNER, ino, offset, buffer)?;
            if !flags.keeps_access_time() {
                self.file_accessed(volume, ino);
            }
            if let Some(trace) = self.trace() {
                trace.note_read(node);
            }
            Ok(bytes)
        })
    }

    /// Writes all data from the transport's buffer, or, where the volume is nearly full, as much as fits.
    /// Returns the number of bytes. `kills` says that the write takes set-id bits and capabilities away.
    ///
    /// # Errors
    /// Those of [`Volume::write`](lanefs::Volume::write).
    pub fn write(
        &self,
        requester: &Requester<'_>,
        node: NodeId,
        offset: u64,
        data: &[u8],
        kills: bool,
    ) -> Reply<usize> {
        self.with(Operation::Write, node, |volume| {
            let ino = volume.numbers.ino(node);
            if kills {
                kill_privileges(volume, requester, ino)?;
            }
            let mut data = data;
            loop {
                match volume.write(&OWNER, ino, offset, data) {
                    Err(error) if error.code() == Code::NoSpace && data.len() > BLOCK as usize => {
                        let half = (data.len() / 2).next_multiple_of(BLOCK as usize);
                        data = data.get(..half.min(data.len() - 1)).unwrap_or_default();
                    }
                    written => return Ok(written?),
                }
            }
        })
    }

    /// Makes changes of a file durable: all of them, or, for data alone, those that reading it back needs.
    ///
    /// # Errors
    /// Those of [`Volume::fsync`](lanefs::Volume::fsync).
    pub fn fsync(&self, node: NodeId, data_only: bool) -> Reply<()> {
        self.with(Operation::Fsync, node, |volume| Ok(volume.fsync(volume.numbers.ino(node), data_only)?))
    }

    /// Allocates, punches or zeroes a range (offset, length), with the mode of `fallocate(2)`.
    ///
    /// # Errors
    /// `EOPNOTSUPP`: any other mode. Those of [`Volume::fallocate`](lanefs::Volume::fallocate).
    pub fn fallocate(
        &self,
        requester: &Requester<'_>,
        node: NodeId,
        range: (u64, u64),
        mode: i32,
    ) -> Reply<()> {
        self.with(Operation::Fallocate, node, |volume| {
            let ino = volume.numbers.ino(node);
            if !requester.is_root() {
                kill_privileges(volume, requester, ino)?;
            }
            allocate(volume, ino, range, mode)
        })
    }

    /// Finds the next data or hole, with the `whence` of `lseek(2)`.
    ///
    /// # Errors
    /// `EINVAL`: any other `whence`. Those of [`Volume::seek`](lanefs::Volume::seek).
    pub fn seek(&self, node: NodeId, offset: i64, whence: i32) -> Reply<i64> {
        self.with(Operation::Seek, node, |volume| {
            let seek = match whence {
                SEEK_DATA => Seek::Data,
                SEEK_HOLE => Seek::Hole,
                _ => return Err(Errno::EINVAL),
            };
            let offset = u64::try_from(offset).map_err(|_| Errno::ENXIO)?;
            let found = volume.seek(volume.numbers.ino(node), offset, seek)?;
            i64::try_from(found).map_err(|_| Errno::EOVERFLOW)
        })
    }

    /// Copies a range between files of the volume, from an offset to an offset; returns the number of bytes,
    /// which may be less.
    ///
    /// # Errors
    /// Those of [`Volume::copy_range`](lanefs::Volume::copy_range).
    pub fn copy_range(
        &self,
        requester: &Requester<'_>,
        (from, from_offset): (NodeId, u64),
        (to, to_offset): (NodeId, u64),
        len: u64,
    ) -> Reply<usize> {
        self.with(Operation::CopyRange, from, |volume| {
            let (from, to) = (volume.numbers.ino(from), volume.numbers.ino(to));
            if !requester.is_root() {
                kill_privileges(volume, requester, to)?;
            }
            let len = len.min(MAX_COPY_BYTES);
            let copied = volume.copy_range(&OWNER, from, from_offset, to, to_offset, len)?;
            self.file_accessed(volume, from);
            Ok(copied as usize)
        })
    }
}

fn allocate(volume: &OpenVersion<'_>, ino: Ino, (offset, length): (u64, u64), mode: i32) -> Reply<()> {
    let allocate = |mode, offset, length| volume.fallocate(&OWNER, ino, mode, offset, length);
    match mode {
        0 => allocate(Allocate::Extend, offset, length)?,
        KEEP_SIZE => allocate(Allocate::KeepSize, offset, length)?,
        _ if mode == PUNCH_HOLE | KEEP_SIZE => allocate(Allocate::PunchHole, offset, length)?,
        ZERO_RANGE => allocate(Allocate::ZeroRange, offset, length)?,
        _ if mode == ZERO_RANGE | KEEP_SIZE => {
            // The part inside the file is zeroed; the part after its end is only allocated.
            let size = volume.getattr(ino)?.size;
            let end = offset.checked_add(length).ok_or(Errno::EFBIG)?;
            if end > size {
                let from = offset.max(size);
                allocate(Allocate::KeepSize, from, end - from)?;
            }
            if offset < size {
                allocate(Allocate::ZeroRange, offset, end.min(size) - offset)?;
            }
        }
        _ => return Err(Errno::EOPNOTSUPP),
    }
    Ok(())
}
