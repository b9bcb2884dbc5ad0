//! A tree of the host into a volume.
//!
//! Threads take directories from a shared stack. For a directory: one open, one stat, the list of attribute names,
//! the entries; then its files in the order of their inode numbers, which is that of the disk. For a small file:
//! open, stat, list of attribute names, one read, stat again (has it changed meanwhile?), close. The volume's calls
//! are made by the same threads, as they cost far less than the host's.

mod file;
mod maker;
mod place;
mod tree;

use crate::Report;
use crate::error::{Error, Result};
use crate::hostdir::FileId;
use crate::run::Control;
use lanefs::{Caller, FileKind, Volume};
use rustix::fs::{AtFlags, CWD, statat};
use std::path::Path;

pub use maker::Maker;
pub(crate) use place::{Placed, Refusal, place, place_directory, place_link, temporary_name};

/// Who acts on the volume: its owner, whom no permission stops.
pub(crate) static OWNER: Caller = Caller::OWNER;

/// How a tree is imported.
#[derive(Clone, Debug, Default)]
pub struct ImportOptions<'m> {
    /// Files of the volume that are in the way are replaced (each at once, when its successor is whole); without
    /// this they stay and are reported. Directories merge either way.
    pub overwrite: bool,
    /// Directories on which another file system is mounted are made, but not entered.
    pub one_file_system: bool,
    /// Number of threads; `None`: twice the cores.
    pub threads: Option<usize>,
    /// Files of the host that are left out and reported: the volume's own image, for one.
    pub skip: Vec<FileId>,
    /// Who makes small files of a tree, many in a call; `None`: they are made one by one. The outcome is the same.
    pub maker: Option<&'m dyn Maker>,
}

/// Imports `source` (a directory's content, or a single file) to `dest` of the volume.
///
/// A directory's content goes into `dest`, which is made with its parents and takes the directory's attributes. A
/// single file goes to the path `dest`, or under its own name into the directory `dest`.
///
/// # Errors
///
/// Only what keeps the import from beginning: `source` cannot be looked at, `dest` cannot be made. All else is in
/// the [`Report`]. On return everything is durable.
pub fn import_tree(
    volume: &Volume,
    source: &Path,
    dest: &[u8],
    options: &ImportOptions<'_>,
    control: Control<'_>,
) -> Result<Report> {
    let shown = source.display();
    // The caller's own path may go through links, and may be one.
    let stat = statat(CWD, source, AtFlags::empty())
        .map_err(|e| Error::host(format!("cannot import '{shown}'"), e))?;
    let is_directory = FileKind::from_mode((stat.st_mode & 0xffff) as u16) == Some(FileKind::Directory);
    if is_directory {
        tree::import_directory(volume, source, dest, options, control)
    } else {
        tree::import_single(volume, source, dest, options, control)
    }
}

/// The directory `dest` of the volume, made with its parents where it is not there.
pub(crate) fn destination(volume: &Volume, dest: &[u8]) -> Result<lanefs::Attr> {
    volume.mkdir_all(dest, 0o755).map_err(|source| {
        Error::volume(
            format!("cannot make the directory '{}' in the volume", crate::name::shown(dest)),
            source,
        )
    })
}
