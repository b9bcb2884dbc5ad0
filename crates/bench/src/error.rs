//! Errors that end a benchmark without a report.

use std::io;

/// Result of a benchmark's step.
pub type Result<T> = std::result::Result<T, Error>;

/// Exit code for arguments that make no sense.
pub const EXIT_USAGE: u8 = 2;
/// Exit code if the host, a device or a library failed, so that there is no report.
pub const EXIT_ERROR: u8 = 4;
/// Exit code after Ctrl-C.
pub const EXIT_STOPPED: u8 = 130;

/// An error that ends a benchmark. Its mounts and files are removed before the caller sees this.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Ctrl-C or a termination signal. Exit code 130.
    #[error("stopped")]
    Stopped,
    /// The arguments make no sense; the text has the remedy. Exit code 2.
    #[error("{0}")]
    Arguments(String),
    /// LaneFS failed in the middle of a workload.
    #[error("LaneFS: {what}: {source}")]
    Volume {
        /// Action that failed.
        what: String,
        /// The volume's error.
        source: lanefs::Error,
    },
    /// The host failed.
    #[error("{what}: {source}")]
    Host {
        /// Action that failed.
        what: String,
        /// The host's error.
        source: io::Error,
    },
    /// A system gave a wrong answer, so its time means nothing.
    #[error("{system} gave {found} answers of {expected} in {what}; its time means nothing")]
    Wrong {
        /// The system's name.
        system: String,
        /// The workload.
        what: &'static str,
        /// Number of right answers.
        found: u64,
        /// Number of requests.
        expected: u64,
    },
    /// An allocator's library is missing or does not serve the process; the text has the remedy.
    #[error("{0}")]
    Library(String),
    /// A program that the benchmark starts is missing; the text says how to build it.
    #[error("{0}")]
    Program(String),
    /// A GPU or its driver failed.
    #[error("{what}: {source}")]
    Device {
        /// Action that failed.
        what: String,
        /// The GPU engine's error.
        source: lanefs_gpu::Error,
    },
    /// A file is not a report of a benchmark.
    #[error("{path}: no report that --json wrote: {message}", path = path.display())]
    Report {
        /// The file.
        path: std::path::PathBuf,
        /// The reason.
        message: String,
    },
    /// A picture could not be drawn.
    #[error("plot: {0}")]
    Picture(String),
    /// A search failed.
    #[error("LaneFS: search: {0}")]
    Search(String),
    /// A publication, or the store that has it, failed.
    #[error("{what}: {message}")]
    Publication {
        /// Action that failed.
        what: String,
        /// The reason.
        message: String,
    },
    /// The import failed.
    #[error("import: {0}")]
    Import(String),
    /// A command of the host failed.
    #[error("`{command}` failed: {message}")]
    Command {
        /// The command with its arguments.
        command: String,
        /// Its standard error, or its exit status.
        message: String,
    },
}

/// Fails if a system gave a wrong number of right answers: its time then means nothing.
pub(crate) fn check(system: &str, what: &'static str, found: u64, expected: usize) -> Result<()> {
    let expected = expected as u64;
    if found == expected {
        return Ok(());
    }
    Err(Error::Wrong { system: system.into(), what, found, expected })
}

impl Error {
    /// Returns the exit code of a program that ends with this error.
    pub fn exit_code(&self) -> u8 {
        match self {
            Error::Stopped => EXIT_STOPPED,
            Error::Arguments(_) => EXIT_USAGE,
            _ => EXIT_ERROR,
        }
    }

    /// For `map_err`: makes the error of a volume that failed in the action `what`.
    pub(crate) fn volume(what: impl Into<String>) -> impl FnOnce(lanefs::Error) -> Error {
        move |source| Error::Volume { what: what.into(), source }
    }

    /// For `map_err`: makes the error of a publication in the action `what`.
    pub(crate) fn publication(what: impl Into<String>) -> impl FnOnce(lanefs_publish::Error) -> Error {
        move |error| Error::Publication { what: what.into(), message: error.to_string() }
    }

    /// For `map_err`: makes the error of the GPU engine in the action `what`.
    pub(crate) fn device(what: impl Into<String>) -> impl FnOnce(lanefs_gpu::Error) -> Error {
        move |source| Error::Device { what: what.into(), source }
    }

    /// For `map_err`: makes the error of the host in the action `what`.
    pub(crate) fn host<E: Into<io::Error>>(what: impl Into<String>) -> impl FnOnce(E) -> Error {
        move |source| Error::Host { what: what.into(), source: source.into() }
    }
}
