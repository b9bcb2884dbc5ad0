//! Export of a tree of a volume into a directory of the host.
//!
//! The export writes only through names that it made or checked itself. Every step is relative to an open
//! directory and follows no symbolic link, new files are made with `O_EXCL`, and a name that could leave its
//! directory never reaches the host, whatever the volume contains. Directories are closed to others (0700)
//! until their content is complete. A file that could not be finished is removed.
//!
//! Somebody else may change the names of a directory that was there before. So owner and mode are set through
//! descriptors only, or in a directory that nobody else can enter ([`crate::on_host::node`]); and a directory
//! that was there keeps its own.
//!
//! Modules, each using only those above it: `options`; `dir` (directories in progress); `content` (copying
//! one file); `host_entry` (new names on the host); `exporter` (state and common steps); `attributes`;
//! `entry` (one name that is not a directory); `walk` (directories and tasks).

mod attributes;
mod content;
mod dir;
mod entry;
mod exporter;
mod host_entry;
mod options;
mod walk;

use crate::running::job::Control;
use crate::running::report::Report;
use crate::vocabulary::error::{Error, Result};
use crate::vocabulary::name::shown;
use lanefs::{FileKind, FileSystem};
use std::path::Path;

pub(crate) use host_entry::KEPT;

pub use options::ExportOptions;

/// Exports `source` of the volume (a directory's content, or a single file) to `dest` of the host.
///
/// A directory's content goes into `dest`, which is made with its parents and then takes the directory's
/// attributes. A directory that was there before keeps its owner and mode, and gets the times. A single
/// file goes to the path `dest`, or under its own name into the directory `dest`.
///
/// # Errors
///
/// The export cannot start: `source` does not exist, `dest` cannot be made. All other failures are in the
/// [`Report`].
pub fn export_tree(
    volume: &dyn FileSystem,
    source: &[u8],
    dest: &Path,
    options: &ExportOptions,
    control: Control<'_>,
) -> Result<Report> {
    let cannot = |error| Error::volume(format!("cannot export '{}'", shown(source)), error);
    let attr = volume.resolve(source).or_else(|_| volume.resolve_no_follow(source)).map_err(cannot)?;
    if attr.kind == FileKind::Directory {
        walk::export_directory(volume, source, &attr, dest, options, control)
    } else {
        // For a link: the link itself, not the file that it points to.
        let attr = volume.resolve_no_follow(source).map_err(cannot)?;
        walk::export_single(volume, source, &attr, dest, options, control)
    }
}
