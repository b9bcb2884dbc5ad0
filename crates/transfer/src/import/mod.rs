//! Import of a tree of the host into a volume.
//!
//! Threads take directories from a shared stack. For a directory a thread makes one open, one stat, one list
//! of attribute names, and reads the entries. It then handles the files in the order of their inode numbers,
//! which is the order on disk. For a small file it makes an open, a stat, a list of attribute names, one
//! read, a second stat (has the file changed meanwhile?) and a close. The same threads call the volume, whose
//! calls cost far less than those of the host.
//!
//! Modules, each using only those above it: `options`; `dir` (directories in progress); `content` (copying
//! one file); `pending` (files that wait for a batch); `importer` (state and common steps); `source` (one
//! name of the host); `batch` (making a batch); `entry` (one name that is not a directory); `walk`
//! (directories and tasks).

mod batch;
pub(crate) mod content;
mod dir;
mod entry;
mod importer;
mod options;
mod pending;
mod source;
mod walk;

use crate::running::job::Control;
use crate::running::report::Report;
use crate::vocabulary::error::{Error, Result};
use crate::vocabulary::name::shown_path;
use lanefs::{FileKind, FileSystem};
use rustix::fs::{AtFlags, CWD, statat};
use std::path::Path;

pub use options::{IdNames, ImportOptions, Maker};

/// Imports `source` (a directory's content, or a single file) to `dest` of the volume.
///
/// A directory's content goes into `dest`, which is made with its parents and takes the directory's
/// attributes. A single file goes to the path `dest`, or under its own name into the directory `dest`. On
/// return everything that the report counts is durable.
///
/// # Errors
///
/// The import cannot start: `source` cannot be read, `dest` cannot be made. All other failures are in the
/// [`Report`].
pub fn import_tree(
    volume: &dyn FileSystem,
    source: &Path,
    dest: &[u8],
    options: &ImportOptions<'_>,
    control: Control<'_>,
) -> Result<Report> {
    let shown = shown_path(source);
    // The caller's own path may lead through links, and may be one.
    let stat = statat(CWD, source, AtFlags::empty())
        .map_err(|e| Error::host(format!("cannot import '{shown}'"), e))?;
    let is_directory = FileKind::from_mode((stat.st_mode & 0xffff) as u16) == Some(FileKind::Directory);
    if is_directory {
        walk::import_directory(volume, source, dest, options, control)
    } else {
        walk::import_single(volume, source, dest, options, control)
    }
}
