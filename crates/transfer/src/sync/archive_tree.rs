//! An archive as a side of a comparison: it is unpacked into a volume of its own, which is compared.
//!
//! The members of an archive come in any order, a hard link names one that came before, and the names that
//! the archive lacks are known at its end alone. So a sync needs all of it before it changes anything.

use crate::archive::import::{ArchiveSource, ImportedMembers, import_members};
use crate::import::ImportOptions;
use crate::running::commits::CommitInterval;
use crate::running::job::Control;
use crate::running::report::{Problem, Report};
use crate::vocabulary::error::Result;
use lanefs::{Ino, Volume};
use std::collections::HashSet;
use std::os::unix::ffi::OsStrExt;
use std::time::Duration;

/// An archive that was unpacked.
pub struct UnpackedArchive {
    pub(super) volume: Volume,
    /// The directories that have a member of their own.
    pub(super) directories: HashSet<Ino>,
    /// The outcome. Names are missing where it has problems.
    pub report: Report,
}

/// Unpacks an archive into an empty volume that nothing else is in, to compare it or to follow it. Options
/// count as for [`import_archive`](crate::import_archive), but for the commits: nothing has to be durable.
///
/// # Errors
///
/// The archive cannot be opened or is damaged; the volume is full. All other failures are in the report.
pub fn unpack_archive(
    volume: Volume,
    source: ArchiveSource<'_>,
    options: &ImportOptions<'_>,
    control: Control<'_>,
) -> Result<UnpackedArchive> {
    let commit = CommitInterval { names: u64::MAX, bytes: u64::MAX, time: Duration::MAX, rest: 0 };
    let options = ImportOptions { commit, ..options.clone() };
    let name = match &source {
        ArchiveSource::File(path) => path.as_os_str().as_bytes().to_vec(),
        ArchiveSource::StandardInput(_) => b"standard input".to_vec(),
    };
    let imported = import_members(&volume, source, b"/", &options, control)?;
    let ImportedMembers { mut report, directories, is_complete } = imported;
    if let Some(error) = report.stopped.take() {
        return Err(error);
    }
    if !is_complete && !report.interrupted {
        let what = "the archive is empty or has no end: names may be missing".into();
        report.problems.push(Problem { path: name, what });
    }
    Ok(UnpackedArchive { volume, directories, report })
}
