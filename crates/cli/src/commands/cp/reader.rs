//! Reading of files to copy.

use crate::session::context::Context;
use crate::terminal::failure::Failure;
use lanefs::{Code, FileSystem, Ino, Seek};
use rustix::fs::SeekFrom;
use rustix::io::Errno;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

/// A regular file to read.
pub(super) enum Reader {
    /// Inside the volume.
    Inside {
        /// Its inode.
        ino: Ino,
        /// Its path, for messages.
        path: Vec<u8>,
    },
    /// On the host.
    Host {
        /// The open file.
        file: File,
        /// Its path, for messages.
        path: PathBuf,
    },
}

impl Reader {
    /// Returns the first range of data at or after `offset`: start and end. `None` if only a hole follows.
    ///
    /// # Errors
    /// Names the file.
    pub(super) fn data(
        &self,
        context: &Context<'_, impl FileSystem>,
        offset: u64,
    ) -> Result<Option<(u64, u64)>, Failure> {
        match self {
            Reader::Inside { ino, path } => {
                let seek = |offset, what| match context.volume.seek(*ino, offset, what) {
                    Ok(at) => Ok(Some(at)),
                    Err(error) if error.code() == Code::NoSuchRange => Ok(None),
                    Err(error) => Err(Failure::volume(path, &error)),
                };
                let Some(start) = seek(offset, Seek::Data)? else { return Ok(None) };
                Ok(seek(start, Seek::Hole)?.map(|end| (start, end)))
            }
            Reader::Host { file, path } => {
                let start = match rustix::fs::seek(file, SeekFrom::Data(offset)) {
                    Ok(start) => start,
                    Err(Errno::NXIO) => return Ok(None),
                    // This file system knows no holes, and /proc not even sizes: all that can be read is
                    // data.
                    Err(Errno::INVAL | Errno::OPNOTSUPP) => return Ok(Some((offset, u64::MAX))),
                    Err(error) => return Err(Failure::host(path, &error.into())),
                };
                let end = rustix::fs::seek(file, SeekFrom::Hole(start));
                end.map(|end| Some((start, end))).map_err(|error| Failure::host(path, &error.into()))
            }
        }
    }

    /// Reads at `offset` and returns the number of bytes; 0 at the end.
    ///
    /// # Errors
    /// Names the file.
    pub(super) fn read(
        &self,
        context: &Context<'_, impl FileSystem>,
        offset: u64,
        buffer: &mut [u8],
    ) -> Result<usize, Failure> {
        match self {
            Reader::Inside { ino, path } => {
                context.volume.read(*ino, offset, buffer).map_err(|e| Failure::volume(path, &e))
            }
            Reader::Host { file, path } => {
                file.read_at(buffer, offset).map_err(|error| Failure::host(path, &error))
            }
        }
    }

    /// Returns the size in bytes.
    ///
    /// # Errors
    /// Names the file.
    pub(super) fn size(&self, context: &Context<'_, impl FileSystem>) -> Result<u64, Failure> {
        match self {
            Reader::Inside { ino, path } => Ok(context.attr(path, *ino)?.size),
            Reader::Host { file, path } => {
                file.metadata().map(|meta| meta.len()).map_err(|error| Failure::host(path, &error))
            }
        }
    }
}
