//! A tree of a volume into a directory of the host.
//!
//! Nothing is written through a name that the export did not make or check itself: every step is relative to an open
//! directory and follows no symbolic link, new files are made with `O_EXCL`, and a name that could leave its
//! directory never reaches the host, whatever the volume says. Directories are closed to others (0700) until their
//! content is whole. A file that could not be finished is removed.

mod file;
mod place;
mod tree;

use crate::Report;
use crate::error::{Error, Result};
use crate::run::Control;
use lanefs::{FileKind, Volume};
use std::path::Path;

pub(crate) use file::data_ranges;

/// How a tree is exported.
#[derive(Clone, Debug)]
pub struct ExportOptions {
    /// Files of the host that are in the way are replaced (each at once, when its successor is whole); without this
    /// they stay and are reported. Directories merge either way.
    pub overwrite: bool,
    /// Number of threads; `None`: twice the cores.
    pub threads: Option<usize>,
    /// Everything is durable on return.
    pub sync: bool,
}

impl Default for ExportOptions {
    fn default() -> Self {
        ExportOptions { overwrite: false, threads: None, sync: true }
    }
}

/// Exports `source` of the volume (a directory's content, or a single file) to `dest` of the host.
///
/// A directory's content goes into `dest`, which is made with its parents and takes the directory's attributes. A
/// single file goes to the path `dest`, or under its own name into the directory `dest`.
///
/// # Errors
///
/// Only what keeps the export from beginning: no `source`, `dest` cannot be made. All else is in the [`Report`].
pub fn export_tree(
    volume: &Volume,
    source: &[u8],
    dest: &Path,
    options: &ExportOptions,
    control: Control<'_>,
) -> Result<Report> {
    let attr = volume
        .resolve(source)
        .or_else(|_| volume.resolve_no_follow(source))
        .map_err(|e| Error::volume(format!("cannot export '{}'", crate::name::shown(source)), e))?;
    if attr.kind == FileKind::Directory {
        tree::export_directory(volume, source, &attr, dest, options, control)
    } else {
        // A link itself is exported, not the file that it points to.
        let attr = volume
            .resolve_no_follow(source)
            .map_err(|e| Error::volume(format!("cannot export '{}'", crate::name::shown(source)), e))?;
        tree::export_single(volume, source, &attr, dest, options, control)
    }
}
