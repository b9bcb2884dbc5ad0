//! What a transfer did, and what it could not do.

use crate::Error;
use crate::name::shown;
use std::time::Duration;

/// Exit code where all was done.
pub const EXIT_DONE: u8 = 0;
/// Exit code where some files could not be transferred; the rest was.
pub const EXIT_PARTLY: u8 = 1;
/// Exit code where the transfer ended early: full volume or disk, failing device, damaged archive.
pub const EXIT_STOPPED: u8 = 4;
/// Exit code after an interruption (128 + SIGINT).
pub const EXIT_INTERRUPTED: u8 = 130;

/// How much was transferred.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Regular files, each inode once.
    pub files: u64,
    /// Directories, the top one among them.
    pub directories: u64,
    /// Symbolic links.
    pub symlinks: u64,
    /// Further names of files counted already.
    pub hard_links: u64,
    /// Fifos, sockets and devices.
    pub specials: u64,
    /// Bytes of content read and written (holes not counted).
    pub bytes: u64,
    /// Extended attributes.
    pub xattrs: u64,
}

impl Counts {
    /// Names of every kind.
    pub fn entries(&self) -> u64 {
        self.files + self.directories + self.symlinks + self.hard_links + self.specials
    }
}

/// Something that could not be transferred, or not as it was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Path of the source: of the host for an import, of the volume for an export.
    pub path: Vec<u8>,
    /// What happened, in words.
    pub what: String,
}

impl std::fmt::Display for Problem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", shown(&self.path), self.what)
    }
}

/// The outcome of a transfer.
#[derive(Debug, Default)]
pub struct Report {
    /// What was transferred.
    pub counts: Counts,
    /// What was not, in the order in which it was met.
    pub problems: Vec<Problem>,
    /// Things kept less than whole by the nature of the destination, said once each (owners without root, refused
    /// attributes). They do not make the transfer a failure.
    pub notes: Vec<String>,
    /// The caller asked to stop, and the transfer stopped cleanly before its end.
    pub interrupted: bool,
    /// Why the transfer ended before its end. What was transferred until then is whole.
    pub stopped: Option<Error>,
    /// From the start to the end, the final sync included.
    pub elapsed: Duration,
}

impl Report {
    /// The exit code that tells this outcome: one of the `EXIT_` constants.
    pub fn exit_code(&self) -> u8 {
        if self.stopped.is_some() {
            EXIT_STOPPED
        } else if self.interrupted {
            EXIT_INTERRUPTED
        } else if !self.problems.is_empty() {
            EXIT_PARTLY
        } else {
            EXIT_DONE
        }
    }

    /// Names per second.
    pub fn entries_per_second(&self) -> f64 {
        self.counts.entries() as f64 / self.elapsed.as_secs_f64().max(1e-9)
    }

    /// Bytes of content per second.
    pub fn bytes_per_second(&self) -> f64 {
        self.counts.bytes as f64 / self.elapsed.as_secs_f64().max(1e-9)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_exit_code_tells_the_worst() {
        let mut report = Report::default();
        assert_eq!(report.exit_code(), 0);
        report.problems.push(Problem { path: b"a\nb".to_vec(), what: "no".into() });
        assert_eq!(report.exit_code(), 1);
        assert_eq!(report.problems[0].to_string(), "a\\nb: no");
        report.interrupted = true;
        assert_eq!(report.exit_code(), 130);
        report.stopped = Some(Error::Usage("full".into()));
        assert_eq!(report.exit_code(), 4);
    }
}
