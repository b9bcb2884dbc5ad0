//! Writing of copies.

use super::host_target::{HostName, finish_file};
use super::meta::FileMeta;
use super::reader::Reader;
use crate::context::Context;
use crate::failure::{Failure, Outcome};
use crate::output_file::OutputFile;
use lanefs::{FileSystem, SetAttr};
use std::fs::File;
use std::os::unix::fs::FileExt;

/// A regular file to write.
pub(super) enum Writer<'s> {
    /// Inside the volume.
    Inside {
        /// The file.
        file: OutputFile,
        /// Its path, for messages.
        path: Vec<u8>,
    },
    /// On the host.
    Host {
        /// The open file.
        file: File,
        /// Its name.
        name: &'s HostName,
        /// True if the copy created it.
        created: bool,
    },
}

impl Writer<'_> {
    /// Drops the old content.
    ///
    /// # Errors
    /// Names the file.
    pub(super) fn clear(&mut self, context: &Context<'_, impl FileSystem>) -> Outcome {
        match self {
            Writer::Inside { file, path } => file.truncate(context, path, 0),
            Writer::Host { created: true, .. } => Ok(()),
            Writer::Host { file, name, .. } => {
                file.set_len(0).map_err(|error| Failure::host(name.path(), &error))
            }
        }
    }

    /// Writes all of `data`.
    ///
    /// # Errors
    /// Names the file.
    pub(super) fn write(
        &mut self,
        context: &Context<'_, impl FileSystem>,
        offset: u64,
        data: &[u8],
    ) -> Outcome {
        match self {
            Writer::Inside { file, path } => {
                let written = context.volume.write(file.attr.ino, offset, data);
                written.map(drop).map_err(|e| Failure::volume(path, &e))
            }
            Writer::Host { file, name, .. } => {
                file.write_all_at(data, offset).map_err(|error| Failure::host(name.path(), &error))
            }
        }
    }

    /// Sets the size of the complete content to `size`; it may end with a hole.
    ///
    /// # Errors
    /// Names the file.
    pub(super) fn finish(&mut self, context: &Context<'_, impl FileSystem>, size: u64) -> Outcome {
        match self {
            Writer::Inside { file, path } => {
                if context.attr(path, file.attr.ino)?.size == size {
                    return Ok(());
                }
                let set = SetAttr { size: Some(size), ..SetAttr::default() };
                let done = context.volume.setattr(file.attr.ino, set);
                done.map(drop).map_err(|e| Failure::volume(path, &e))
            }
            Writer::Host { file, name, .. } => {
                let meta = file.metadata().map_err(|error| Failure::host(name.path(), &error))?;
                // Devices and pipes have no size to set.
                if !meta.is_file() || meta.len() == size {
                    return Ok(());
                }
                file.set_len(size).map_err(|error| Failure::host(name.path(), &error))
            }
        }
    }

    /// Sets the attributes of a complete file of the host.
    ///
    /// # Errors
    /// Names the file.
    pub(super) fn finish_host(&self, meta: &FileMeta, preserve: bool) -> Outcome {
        let Writer::Host { file, name, created } = self else { return Ok(()) };
        let done = finish_file(file, *created, meta, preserve);
        done.map_err(|errno| Failure::host(name.path(), &errno.into()))
    }

    /// Removes the file after a failure, if the copy created it.
    pub(super) fn abandon(&self, context: &Context<'_, impl FileSystem>) {
        match self {
            Writer::Inside { file, .. } => file.abandon(context),
            Writer::Host { name, created: true, .. } => name.remove(),
            Writer::Host { .. } => {}
        }
    }

    /// True if `reader` reads the same file of the volume.
    pub(super) fn is_same_file(&self, reader: &Reader) -> bool {
        match (reader, self) {
            (Reader::Inside { ino, .. }, Writer::Inside { file, .. }) => *ino == file.attr.ino,
            _ => false,
        }
    }
}
