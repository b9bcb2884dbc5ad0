//! The bound on the data of an export, and the ranges of files that hold them.
//!
//! Files of a sound volume share no blocks, so all their data together are no more than the volume. A hostile
//! volume can name one block any number of times, and a size of 2^57 bytes costs it nothing. Holes are not
//! counted: a tree and an archive keep them as holes.

use super::job::TransferJob;
use crate::vocabulary::error::Error;
use lanefs::format::BLOCK;
use lanefs::{Attr, Code, FileSystem, Seek};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Data of an export at most, as a multiple of the volume's size. A sound volume needs 1; the rest is for
/// files that grow while the volume is mounted.
pub const DEFAULT_MAX_EXPANSION: u32 = 2;

/// Longest content inside an inode, in bytes, at least.
const INLINE_BYTES: u64 = 256;

/// A range of a file: start and end.
pub(crate) type DataRange = (u64, u64);

/// Ranges that are kept for one file at most, in 16 MiB: a map of a few blocks can describe any number.
const MAX_RANGES: usize = 1 << 20;

/// Reason why the ranges of a file are not known.
#[derive(Debug)]
pub(crate) enum RangesFailure {
    /// The volume could not answer.
    Volume(lanefs::Error),
    /// The transfer stops.
    Stopped,
}

impl From<lanefs::Error> for RangesFailure {
    fn from(error: lanefs::Error) -> Self {
        RangesFailure::Volume(error)
    }
}

/// Number of bytes that an export may still take from a volume.
pub(crate) struct Expansion {
    /// Size of the volume in bytes.
    volume: u64,
    factor: u32,
    left: AtomicU64,
}

impl Expansion {
    pub(crate) fn new(volume: &dyn FileSystem, factor: u32) -> lanefs::Result<Expansion> {
        Ok(Expansion::of_size(volume.size()?, factor))
    }

    fn of_size(volume: u64, factor: u32) -> Expansion {
        let left = if factor == 0 { u64::MAX } else { volume.saturating_mul(factor.into()) };
        Expansion { volume, factor, left: left.into() }
    }

    /// Counts data; stops the transfer where they are too many.
    fn take(&self, job: &TransferJob<'_>, bytes: u64) -> Result<(), RangesFailure> {
        let taken = self.left.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(bytes));
        if taken.is_err() {
            job.stop(Error::Expansion { factor: self.factor });
        }
        if taken.is_err() || job.should_stop() { Err(RangesFailure::Stopped) } else { Ok(()) }
    }

    /// Returns the first range of a file at or after `offset` that holds data; `None` where there is none.
    /// It is not empty, and its bytes are counted.
    pub(crate) fn next_range(
        &self,
        job: &TransferJob<'_>,
        volume: &dyn FileSystem,
        attr: &Attr,
        offset: u64,
    ) -> Result<Option<DataRange>, RangesFailure> {
        // Small files lie inside the inode; a file with all its blocks has no holes. A number of blocks that
        // the volume does not have proves nothing.
        let has_all = attr.blocks.saturating_mul(BLOCK) >= attr.size && attr.size <= self.volume;
        if attr.size <= INLINE_BYTES || has_all {
            self.take(job, attr.size.saturating_sub(offset))?;
            return Ok((offset < attr.size).then_some((offset, attr.size)));
        }
        self.seek_range(job, attr.size, offset, &|offset, what| volume.seek(attr.ino, offset, what))
    }

    /// Returns the ranges of a file that hold data: none is empty, and they ascend without overlap. Their
    /// bytes are counted. The last of [`MAX_RANGES`] has all that follows, with its holes.
    pub(crate) fn ranges(
        &self,
        job: &TransferJob<'_>,
        volume: &dyn FileSystem,
        attr: &Attr,
    ) -> Result<Vec<DataRange>, RangesFailure> {
        self.gather(job, attr.size, &|offset| self.next_range(job, volume, attr, offset))
    }

    fn gather(
        &self,
        job: &TransferJob<'_>,
        size: u64,
        next: &dyn Fn(u64) -> Result<Option<DataRange>, RangesFailure>,
    ) -> Result<Vec<DataRange>, RangesFailure> {
        let mut ranges: Vec<DataRange> = Vec::new();
        let mut offset = 0;
        while let Some((start, end)) = next(offset)? {
            if ranges.len() + 1 == MAX_RANGES {
                self.take(job, size.saturating_sub(end))?;
                ranges.push((start, size.max(end)));
                break;
            }
            ranges.push((start, end));
            offset = end;
        }
        debug_assert!(ranges.iter().all(|(start, end)| start < end), "no range is empty");
        debug_assert!(ranges.is_sorted_by(|a, b| a.1 <= b.0), "ranges ascend without overlap");
        Ok(ranges)
    }

    /// Finds the first range at or after `offset` of a file of `size` bytes by `seek`.
    fn seek_range(
        &self,
        job: &TransferJob<'_>,
        size: u64,
        offset: u64,
        seek: &dyn Fn(u64, Seek) -> lanefs::Result<u64>,
    ) -> Result<Option<DataRange>, RangesFailure> {
        if offset >= size {
            return Ok(None);
        }
        let data = match seek(offset, Seek::Data) {
            Ok(data) => data.max(offset),
            Err(error) if error.code() == Code::NoSuchRange => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        // The file of a mounted volume may have grown since its size was read.
        if data >= size {
            return Ok(None);
        }
        // The lower bound lets a loop advance on a damaged volume too.
        let hole = seek(data, Seek::Hole)?.clamp(data + 1, size);
        // No less than a block: so a range costs its memory.
        self.take(job, (hole - data).max(BLOCK))?;
        Ok(Some((data, hole)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::running::job::{Control, Silent};
    use lanefs::{CreateOptions, SetAttr, Volume};
    use std::cell::Cell;

    const SIZE: u64 = 1 << 57;

    fn job<'a>(interrupt: &'a (dyn Fn() -> bool + Sync)) -> TransferJob<'a> {
        TransferJob::new(Control { interrupt, progress: &Silent })
    }

    #[track_caller]
    fn too_much(seek: &dyn Fn(u64, Seek) -> lanefs::Result<u64>) {
        let (job, expansion) = (job(&|| false), Expansion::of_size(1 << 20, 2));
        let next = |offset| expansion.seek_range(&job, SIZE, offset, seek);
        assert!(matches!(expansion.gather(&job, SIZE, &next), Err(RangesFailure::Stopped)));
        assert!(matches!(job.report("").stopped, Some(Error::Expansion { factor: 2 })));
    }

    #[test]
    fn hostile_maps_come_to_an_end() {
        // All of it is data; every second block; data that never advance.
        too_much(&|offset, what| Ok(if what == Seek::Data { offset } else { SIZE }));
        too_much(&|offset, what| match what {
            Seek::Data => Ok(offset.next_multiple_of(2 * BLOCK)),
            Seek::Hole => Ok(offset + BLOCK),
        });
        too_much(&|_, _| Ok(0));
        // An interruption ends the search as well.
        let calls = Cell::new(0);
        let job = job(&|| true);
        let seek = |offset, what| {
            calls.set(calls.get() + 1);
            Ok(if what == Seek::Data { offset } else { offset + 1 })
        };
        let expansion = Expansion::of_size(u64::MAX, 1);
        let ended = expansion.gather(&job, SIZE, &|offset| expansion.seek_range(&job, SIZE, offset, &seek));
        assert!(matches!(ended, Err(RangesFailure::Stopped)) && calls.get() == 2);
    }

    #[test]
    fn ranges_without_number_take_bounded_memory() {
        // Every second block, of a volume that claims any size.
        let (job, expansion) = (job(&|| false), Expansion::of_size(u64::MAX, 0));
        let seek = |offset: u64, what| match what {
            Seek::Data => Ok(offset.next_multiple_of(2 * BLOCK)),
            Seek::Hole => Ok(offset + BLOCK),
        };
        let next = |offset| expansion.seek_range(&job, SIZE, offset, &seek);
        let ranges = expansion.gather(&job, SIZE, &next).expect("ranges");
        assert_eq!(ranges.len(), MAX_RANGES);
        assert_eq!(ranges[1], (2 * BLOCK, 3 * BLOCK));
        assert_eq!(ranges.last(), Some(&((MAX_RANGES as u64 - 1) * 2 * BLOCK, SIZE)));
    }

    #[test]
    fn a_number_of_blocks_that_the_volume_lacks_is_no_reason_to_believe_a_size() {
        let volume = Volume::create_memory(&CreateOptions { size: 32 << 20, ..CreateOptions::default() });
        let volume = volume.expect("a volume");
        let attr = volume.write_file("/f", vec![1; 10_000]).expect("a file");
        let set = SetAttr { size: Some(SIZE), ..SetAttr::default() };
        FileSystem::setattr(&volume, attr.ino, set).expect("a hole");
        let hostile = Attr { size: SIZE, blocks: u64::MAX, ..attr };
        let (job, expansion) = (job(&|| false), Expansion::new(&volume, 2).expect("a size"));
        let ranges = expansion.ranges(&job, &volume, &hostile).expect("ranges");
        assert_eq!(ranges, [(0, 12_288)], "the rest is a hole");
        // A sound volume is never refused: its data fit into it.
        let sound = volume.getattr(attr.ino).expect("attributes");
        assert!(Expansion::new(&volume, 1).expect("a size").ranges(&job, &volume, &sound).is_ok());
    }
}
