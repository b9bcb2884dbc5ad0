//! A file of a volume as a reader.

use lanefs::{Caller, Ino, Volume};
use std::io::{Error, Read, Result};

/// Reads a file from its beginning on.
pub(crate) struct FileReader<'v> {
    volume: &'v Volume,
    ino: Ino,
    offset: u64,
}

impl<'v> FileReader<'v> {
    pub(crate) fn new(volume: &'v Volume, ino: Ino) -> Self {
        FileReader { volume, ino, offset: 0 }
    }
}

impl Read for FileReader<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> Result<usize> {
        let read = self.volume.read(&Caller::OWNER, self.ino, self.offset, buffer).map_err(Error::other)?;
        self.offset += read as u64;
        Ok(read)
    }
}
