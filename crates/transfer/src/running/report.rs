//! The outcome of a transfer: counts, and problems of single files.

use crate::vocabulary::error::Error;
use crate::vocabulary::name::shown;
use std::time::Duration;

/// Exit code of a transfer without problems.
pub const EXIT_DONE: u8 = 0;
/// Exit code of a transfer that left out some files and finished the rest.
pub const EXIT_PARTLY: u8 = 1;
/// Exit code of a transfer that met damage of the volume, and left out or spoiled what is damaged.
pub const EXIT_DAMAGED: u8 = 3;
/// Exit code of a transfer that stopped early: full volume or disk, failing device, damaged archive.
pub const EXIT_STOPPED: u8 = 4;
/// Exit code of an interrupted transfer (128 + SIGINT).
pub const EXIT_INTERRUPTED: u8 = 130;

/// Amounts transferred.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Regular files, each inode once.
    pub files: u64,
    /// Directories, including the top one.
    pub directories: u64,
    /// Symbolic links.
    pub symlinks: u64,
    /// Further names of files that are already counted.
    pub hard_links: u64,
    /// Fifos, sockets and devices.
    pub specials: u64,
    /// Bytes of content read and written, without holes.
    pub bytes: u64,
    /// Extended attributes.
    pub xattrs: u64,
}

impl Counts {
    /// Returns the number of names of every kind.
    pub fn entries(&self) -> u64 {
        self.files + self.directories + self.symlinks + self.hard_links + self.specials
    }

    /// Returns what was added since `before`.
    pub(crate) fn since(&self, before: &Counts) -> Counts {
        Counts {
            files: self.files.saturating_sub(before.files),
            directories: self.directories.saturating_sub(before.directories),
            symlinks: self.symlinks.saturating_sub(before.symlinks),
            hard_links: self.hard_links.saturating_sub(before.hard_links),
            specials: self.specials.saturating_sub(before.specials),
            bytes: self.bytes.saturating_sub(before.bytes),
            xattrs: self.xattrs.saturating_sub(before.xattrs),
        }
    }
}

/// A file that could not be transferred, or not unchanged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Path of the source: of the host for an import, of the volume for an export.
    pub path: Vec<u8>,
    /// Description of the failure.
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
    /// Amounts transferred; of an import, those that are durable.
    pub counts: Counts,
    /// Amounts that an import could not make durable, because the volume's device failed or its host has no
    /// room: these names may be missing from the volume, or incomplete.
    pub lost: Counts,
    /// Files not transferred, or not unchanged, in the order in which the transfer reached them.
    pub problems: Vec<Problem>,
    /// True where some of the problems are damage of the volume.
    pub damaged: bool,
    /// Losses that the destination causes by its nature, one line each: owners without root, refused
    /// attributes. They do not make the transfer a failure.
    pub notes: Vec<String>,
    /// True where the caller interrupted the transfer, which stopped cleanly before its end.
    pub interrupted: bool,
    /// Error that stopped the transfer before its end. The files that are counted are complete.
    pub stopped: Option<Error>,
    /// Time from start to end, including the final sync.
    pub elapsed: Duration,
}

impl Report {
    /// Returns the exit code for this outcome: one of the `EXIT_` constants.
    pub fn exit_code(&self) -> u8 {
        if let Some(error) = &self.stopped {
            if error.is_damage() { EXIT_DAMAGED } else { EXIT_STOPPED }
        } else if self.interrupted {
            EXIT_INTERRUPTED
        } else if self.damaged {
            EXIT_DAMAGED
        } else if !self.problems.is_empty() {
            EXIT_PARTLY
        } else {
            EXIT_DONE
        }
    }

    /// Returns the names transferred per second.
    pub fn entries_per_second(&self) -> f64 {
        self.counts.entries() as f64 / self.elapsed.as_secs_f64().max(1e-9)
    }

    /// Returns the bytes of content transferred per second.
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
        assert_eq!(report.problems[0].to_string(), "a\\x0ab: no");
        report.damaged = true;
        assert_eq!(report.exit_code(), 3);
        report.interrupted = true;
        assert_eq!(report.exit_code(), 130);
        report.stopped = Some(Error::Usage("full".into()));
        assert_eq!(report.exit_code(), 4);
        report.stopped = Some(Error::Expansion { factor: 2 });
        assert_eq!(report.exit_code(), 3);
    }
}
