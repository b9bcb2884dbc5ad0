//! Errors.

/// Reason why a search cannot be done.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The pattern is not a regular expression, or one that is too large.
    #[error("{0}")]
    Pattern(String),
    /// A glob that cannot be.
    #[error("glob: {0}")]
    Glob(String),
    /// No such type of files.
    #[error("type: {0}")]
    Type(String),
    /// The output failed.
    #[error("{0}")]
    Output(#[from] std::io::Error),
    /// The caller asked to stop.
    #[error("interrupted")]
    Interrupted,
    /// The caller ended the search because a file failed.
    #[error("ended after a failure")]
    Ended,
}

/// Reason why a file could not be searched.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FileError {
    /// The volume's error.
    #[error(transparent)]
    Volume(#[from] lanefs::Error),
    /// The file has a line that is too long to be searched.
    #[error("a line has more than {} MiB", MAX_LINE_BYTES >> 20)]
    LongLine,
}

/// Most bytes of a line, in a file that is read piece by piece.
pub(crate) const MAX_LINE_BYTES: usize = 64 << 20;

impl FileError {
    /// Converts the failure of a search in one file.
    pub(crate) fn of(error: std::io::Error) -> Self {
        // The searcher has no other failure of its own than a buffer that may not grow.
        error.downcast::<lanefs::Error>().map_or(FileError::LongLine, FileError::Volume)
    }
}

/// Result of a search.
pub type Result<T> = std::result::Result<T, Error>;
