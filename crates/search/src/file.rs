//! A file of a volume as a reader.

use lanefs::{Caller, Ino, Volume};
use std::io::{Error, Read, Result};

/// Reads a file from its beginning on.
pub(crate) struct FileReader<'v> {
    volume: &'v Volume,
    ino: Ino,
    offset: u64,
    stops: &'v dyn Fn() -> bool,
}

impl<'v> FileReader<'v> {
    /// Each read fails once `stops` returns true: a file may have 2^57 bytes.
    pub(crate) fn new(volume: &'v Volume, ino: Ino, stops: &'v dyn Fn() -> bool) -> Self {
        FileReader { volume, ino, offset: 0, stops }
    }
}

impl Read for FileReader<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> Result<usize> {
        if (self.stops)() {
            // (Readers try again after `ErrorKind::Interrupted`.)
            return Err(Error::other("interrupted"));
        }
        let read = self.volume.read(&Caller::OWNER, self.ino, self.offset, buffer).map_err(Error::other)?;
        self.offset += read as u64;
        Ok(read)
    }
}
