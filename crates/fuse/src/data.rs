//! Content of files: reading, writing, allocation, holes, copies.

use crate::attributes::kill_privileges;
use crate::errno::{Errno, FuseResult};
use crate::kernel::MAX_WRITE;
use crate::served::Served;
use crate::versions::OpenVersion;
use fuser::{INodeNo, Request};
use lanefs::format::BLOCK;
use lanefs::{Allocate, Caller, Code, Seek};
use std::cell::RefCell;

const OWNER: Caller = Caller::OWNER;
/// Most bytes that one request copies, because other requests wait for the thread.
const MAX_COPY_BYTES: u64 = 64 << 20;

// Of `fallocate(2)` and `lseek(2)`.
const KEEP_SIZE: i32 = 1;
const PUNCH_HOLE: i32 = 2;
const ZERO_RANGE: i32 = 16;
const SEEK_DATA: i32 = 3;
const SEEK_HOLE: i32 = 4;

thread_local! {
    /// Read buffer of the thread, which serves one request at a time.
    static BUFFER: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Calls `work` with a buffer of `size` bytes, or of [`MAX_WRITE`] where the kernel asks for more than it
/// may.
pub(crate) fn with_buffer<T>(size: u32, work: impl FnOnce(&mut [u8]) -> T) -> T {
    let size = size.min(MAX_WRITE) as usize;
    BUFFER.with_borrow_mut(|buffer| {
        if buffer.len() < size {
            buffer.resize(size, 0);
        }
        let (used, _) = buffer.split_at_mut(size);
        work(used)
    })
}

impl Served {
    /// Reads content into `buffer`; returns the number of bytes.
    pub(crate) fn read(
        &self,
        volume: &OpenVersion<'_>,
        ino: INodeNo,
        offset: u64,
        buffer: &mut [u8],
        keeps_access_time: bool,
    ) -> FuseResult<usize> {
        let ino = volume.numbers.ino(ino);
        let bytes = volume.read(&OWNER, ino, offset, buffer)?;
        if !keeps_access_time {
            self.file_accessed(volume, ino);
        }
        Ok(bytes)
    }

    /// Writes all data, or, where the volume is nearly full, as much as fits.
    pub(crate) fn write(
        &self,
        volume: &OpenVersion<'_>,
        request: &Request,
        ino: INodeNo,
        offset: u64,
        data: &[u8],
        kills: bool,
    ) -> FuseResult<u32> {
        let ino = volume.numbers.ino(ino);
        if kills {
            kill_privileges(volume, request, ino)?;
        }
        let mut data = data;
        loop {
            match volume.write(&OWNER, ino, offset, data) {
                Ok(bytes) => return Ok(bytes as u32),
                Err(error) if error.code() == Code::NoSpace && data.len() > BLOCK as usize => {
                    let half = (data.len() / 2).next_multiple_of(BLOCK as usize);
                    data = data.get(..half.min(data.len() - 1)).unwrap_or_default();
                }
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Allocates, punches or zeroes a range.
    pub(crate) fn fallocate(
        &self,
        volume: &OpenVersion<'_>,
        request: &Request,
        ino: INodeNo,
        (offset, length): (u64, u64),
        mode: i32,
    ) -> FuseResult<()> {
        let ino = volume.numbers.ino(ino);
        if request.uid() != 0 {
            kill_privileges(volume, request, ino)?;
        }
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

    /// Finds the next data or hole.
    pub(crate) fn seek(
        &self,
        volume: &OpenVersion<'_>,
        ino: INodeNo,
        offset: i64,
        whence: i32,
    ) -> FuseResult<i64> {
        let seek = match whence {
            SEEK_DATA => Seek::Data,
            SEEK_HOLE => Seek::Hole,
            _ => return Err(Errno::EINVAL),
        };
        let offset = u64::try_from(offset).map_err(|_| Errno::ENXIO)?;
        let found = volume.seek(volume.numbers.ino(ino), offset, seek)?;
        i64::try_from(found).map_err(|_| Errno::EOVERFLOW)
    }

    /// Copies a range between files of the volume; returns the number of bytes.
    pub(crate) fn copy_range(
        &self,
        volume: &OpenVersion<'_>,
        request: &Request,
        (from, from_offset): (INodeNo, u64),
        (to, to_offset): (INodeNo, u64),
        len: u64,
    ) -> FuseResult<u32> {
        let (from, to) = (volume.numbers.ino(from), volume.numbers.ino(to));
        if request.uid() != 0 {
            kill_privileges(volume, request, to)?;
        }
        let len = len.min(MAX_COPY_BYTES);
        let copied = volume.copy_range(&OWNER, from, from_offset, to, to_offset, len)?;
        self.file_accessed(volume, from);
        Ok(copied as u32)
    }
}
