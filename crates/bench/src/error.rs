//! Why a benchmark did not end with a report.

use std::io;

/// Result of a benchmark's step.
pub type Result<T> = std::result::Result<T, Error>;

/// Exit code where the arguments make no sense.
pub const EXIT_USAGE: u8 = 2;
/// Exit code where the host, a device or a library failed, so that there is no report.
pub const EXIT_ERROR: u8 = 4;
/// Exit code after Ctrl-C.
pub const EXIT_STOPPED: u8 = 130;

/// Why a benchmark stopped. Whatever it had mounted or written is removed before the caller sees this.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Ctrl-C or a termination signal. Exit code 130.
    #[error("stopped")]
    Stopped,
    /// The arguments make no sense, and what to do about it. Exit code 2.
    #[error("{0}")]
    Arguments(String),
    /// LaneFS failed in the middle of a workload.
    #[error("LaneFS: {what}: {source}")]
    Volume {
        /// What was being done.
        what: String,
        /// The volume's error.
        source: lanefs::Error,
    },
    /// The host failed.
    #[error("{what}: {source}")]
    Host {
        /// What was being done.
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
        /// Answers as expected.
        found: u64,
        /// Answers asked for.
        expected: u64,
    },
    /// An allocator's library is missing or is not the one that answers, and what to do about it.
    #[error("{0}")]
    Library(String),
    /// A program that the benchmark starts is missing, and how to build it.
    #[error("{0}")]
    Program(String),
    /// A GPU, or its driver.
    #[error("{what}: {source}")]
    Device {
        /// What was being done.
        what: String,
        /// The GPU engine's error.
        source: lanefs_gpu::Error,
    },
    /// The import that was plugged in failed.
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

impl Error {
    /// The exit code of a command that ends with this error.
    pub fn exit_code(&self) -> u8 {
        match self {
            Error::Stopped => EXIT_STOPPED,
            Error::Arguments(_) => EXIT_USAGE,
            _ => EXIT_ERROR,
        }
    }

    /// For `map_err`: the volume failed while doing `what`.
    pub(crate) fn volume(what: impl Into<String>) -> impl FnOnce(lanefs::Error) -> Error {
        move |source| Error::Volume { what: what.into(), source }
    }

    /// For `map_err`: the GPU engine failed while doing `what`.
    pub(crate) fn device(what: impl Into<String>) -> impl FnOnce(lanefs_gpu::Error) -> Error {
        move |source| Error::Device { what: what.into(), source }
    }

    /// For `map_err`: the host failed while doing `what`.
    pub(crate) fn host<E: Into<io::Error>>(what: impl Into<String>) -> impl FnOnce(E) -> Error {
        move |source| Error::Host { what: what.into(), source: source.into() }
    }
}
