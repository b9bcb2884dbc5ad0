//! Writing of copies.

use super::host_file::HostFile;
use super::host_target::HostName;
use super::meta::FileMeta;
use super::reader::Reader;
use crate::common::output_file::OutputFile;
use crate::session::context::Context;
use crate::terminal::failure::{Failure, Outcome};
use lanefs::FileSystem;

/// A file to write.
pub(super) enum Writer<'s> {
    /// Inside the volume.
    Inside {
        /// The file.
        file: OutputFile,
    },
    /// On the host.
    Host {
        /// The open file.
        file: HostFile,
        /// Its name.
        name: &'s HostName,
    },
}

impl Writer<'_> {
    /// Drops the old content.
    ///
    /// # Errors
    /// Names the file.
    pub(super) fn clear(&mut self) -> Outcome {
        match self {
            // It keeps its content until the new one is complete.
            Writer::Inside { .. } => Ok(()),
            Writer::Host { file, name } => file.clear(name.path()),
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
            Writer::Inside { file } => file.write(context, offset, data),
            Writer::Host { file, name } => file.write(name.path(), offset, data),
        }
    }

    /// Sets the size of the complete content to `size`; it may end with a hole.
    ///
    /// # Errors
    /// Names the file.
    pub(super) fn finish(&mut self, context: &Context<'_, impl FileSystem>, size: u64) -> Outcome {
        match self {
            Writer::Inside { file } => file.finish(context, size),
            Writer::Host { file, name } => file.finish(name.path(), size),
        }
    }

    /// Sets the attributes of a complete file of the host.
    ///
    /// # Errors
    /// Names the file.
    pub(super) fn finish_host(&self, meta: &FileMeta, preserve: bool) -> Outcome {
        let Writer::Host { file, name } = self else { return Ok(()) };
        let done = file.set_attributes(meta, preserve);
        done.map_err(|errno| Failure::host(name.path(), &errno.into()))
    }

    /// Removes the file after a failure, if the copy created it.
    pub(super) fn abandon(&self, context: &Context<'_, impl FileSystem>) {
        match self {
            Writer::Inside { file } => file.abandon(context),
            Writer::Host { file, name } if file.is_made() => name.remove(),
            Writer::Host { .. } => {}
        }
    }

    /// True if `reader` reads the same file of the volume.
    pub(super) fn is_same_file(&self, reader: &Reader) -> bool {
        match (reader, self) {
            (Reader::Inside { ino, .. }, Writer::Inside { file }) => *ino == file.attr.ino,
            _ => false,
        }
    }
}
