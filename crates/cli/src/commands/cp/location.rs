//! Locations of files to copy: inside the volume or on the host.

use crate::session::context::Context;
use crate::terminal::failure::Failure;
use crate::text::bytes;
use lanefs::{FileSystem, path};
use std::ffi::OsStr;
use std::path::PathBuf;

/// A path inside the volume or on the host.
#[derive(Clone, Debug)]
pub(super) struct Location {
    /// True for a path inside the volume.
    pub(super) inside: bool,
    /// The path, without the colon.
    pub(super) path: Vec<u8>,
}

impl Location {
    /// Parses an argument. A colon marks a path inside the volume.
    pub(super) fn parse(text: &OsStr) -> Self {
        match bytes::of(text).strip_prefix(b":") {
            // `:` alone is the directory where relative paths start.
            Some(b"") => Location { inside: true, path: b".".to_vec() },
            Some(path) => Location { inside: true, path: path.to_vec() },
            None => Location { inside: false, path: bytes::of(text).to_vec() },
        }
    }

    /// The location of a name in this directory.
    pub(super) fn join(&self, name: &[u8]) -> Self {
        Location { inside: self.inside, path: path::join(&self.path, name) }
    }

    /// The path on the host.
    pub(super) fn host_path(&self) -> PathBuf {
        bytes::to_path(&self.path)
    }

    /// The argument that names this location.
    pub(super) fn argument(&self) -> Vec<u8> {
        if self.inside { [b":", &self.path[..]].concat() } else { self.path.clone() }
    }

    /// True for a directory or a link to one.
    ///
    /// # Errors
    /// The volume could not answer.
    pub(super) fn is_directory(&self, context: &Context<'_, impl FileSystem>) -> Result<bool, Failure> {
        match self.inside {
            true => context.is_directory(&self.path),
            false => Ok(self.host_path().is_dir()),
        }
    }
}
