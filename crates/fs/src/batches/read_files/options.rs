//! Which files a batch reads, and which parts of them.

use crate::vocabulary::error::{Error, Result};
use crate::vocabulary::path_set::{PathSet, Paths};
use crate::vocabulary::types::{Ino, ResolveOptions};
use lanefs_format::Code;
use std::ops::Range;

/// Options of [`Volume::read_files`](crate::Volume::read_files).
#[derive(Clone, Debug, Default)]
pub struct ReadFiles<'r> {
    /// How paths are resolved, and the caller whose permission to search and to read is checked.
    /// [`ResolveOptions::attributes`] does not matter.
    pub resolve: ResolveOptions,
    /// The part of each file to read; `None`: each file whole.
    pub ranges: Option<&'r [ByteRange]>,
    /// Threads at most; 0: as many as the host has processors, up to 8, and some more while they wait for the
    /// device. Never more than 64, and fewer for a small batch.
    pub threads: usize,
    /// Plants a bug: attempts count although what they read has changed.
    #[cfg(test)]
    pub(crate) accepts_stale_attempts: bool,
}

impl<'r> ReadFiles<'r> {
    /// Returns the options for some of the files.
    pub(super) fn of(&self, rows: Range<usize>) -> ReadFiles<'r> {
        ReadFiles { ranges: self.ranges.map(|ranges| &ranges[rows]), ..self.clone() }
    }

    /// Checks that there is one range for each file.
    ///
    /// # Errors
    /// [`Code::Invalid`].
    pub(super) fn check_ranges(&self, files: FileList<'_>) -> Result<()> {
        match self.ranges {
            Some(ranges) if ranges.len() != files.len() => {
                let what = format!("{} ranges for {} files", ranges.len(), files.len());
                Err(Error::At { code: Code::Invalid, what })
            }
            _ => Ok(()),
        }
    }

    /// True where attempts are validated: always, but in the test of the test.
    pub(super) fn validates(&self) -> bool {
        #[cfg(test)]
        return !self.accepts_stale_attempts;
        #[cfg(not(test))]
        true
    }
}

/// Bytes of a file. Those past the file's end are left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ByteRange {
    /// First byte.
    pub offset: u64,
    /// Number of bytes.
    pub len: u64,
}

impl ByteRange {
    /// All bytes.
    pub const WHOLE: ByteRange = ByteRange { offset: 0, len: u64::MAX };

    /// Number of these bytes that a file of this size has.
    pub(super) fn within(self, size: u64) -> u64 {
        self.len.min(size.saturating_sub(self.offset))
    }
}

/// The part of a file that is read.
pub(super) fn range_of(ranges: Option<&[ByteRange]>, row: usize) -> ByteRange {
    ranges.map_or(ByteRange::WHOLE, |ranges| ranges[row])
}

/// The files of a batch.
#[derive(Clone, Copy, Debug)]
pub enum FileList<'f> {
    /// By path.
    Paths(Paths<'f>),
    /// By inode number.
    Inodes(&'f [Ino]),
}

impl<'f> FileList<'f> {
    /// Returns some of the files.
    pub(super) fn slice(self, rows: Range<usize>) -> FileList<'f> {
        match self {
            FileList::Paths(paths) => FileList::Paths(paths.slice(rows)),
            FileList::Inodes(inodes) => FileList::Inodes(&inodes[rows]),
        }
    }

    /// Number of files.
    pub fn len(&self) -> usize {
        match self {
            FileList::Paths(paths) => paths.len(),
            FileList::Inodes(inodes) => inodes.len(),
        }
    }

    /// True for no file.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl<'f> From<Paths<'f>> for FileList<'f> {
    fn from(paths: Paths<'f>) -> Self {
        FileList::Paths(paths)
    }
}

impl<'f> From<&'f PathSet> for FileList<'f> {
    fn from(paths: &'f PathSet) -> Self {
        FileList::Paths(paths.view())
    }
}

impl<'f> From<&'f [Ino]> for FileList<'f> {
    fn from(inodes: &'f [Ino]) -> Self {
        FileList::Inodes(inodes)
    }
}
