//! Failures of one file, and how they are reported.

use crate::import::content::ImportFailure;
use crate::running::job::TransferJob;
use crate::vocabulary::error::errno_text;
use rustix::io::Errno;

/// Reason why a side did not answer, or was not changed.
pub(crate) type Failure = ImportFailure;

/// A side of a comparison.
#[derive(Clone, Copy)]
pub(super) enum WhichTree {
    A,
    B,
}

/// Records that a file could not be read or written. `doing` is said of the volume.
pub(super) fn report(job: &TransferJob<'_>, path: Vec<u8>, doing: &str, failure: Failure) {
    match failure {
        Failure::Stopped => {}
        Failure::Volume(error) => job.volume_refused(path, doing, error),
        Failure::Host(errno) => job.problem(
            path,
            match errno {
                Errno::NOENT => "vanished meanwhile".to_string(),
                // The last one is readlink(2) of what is not a link any more.
                Errno::LOOP | Errno::NOTDIR | Errno::NXIO | Errno::INVAL => {
                    "changed its type meanwhile".into()
                }
                Errno::STALE => "was replaced meanwhile".into(),
                errno => format!("cannot be read: {}", errno_text(errno)),
            },
        ),
    }
}
