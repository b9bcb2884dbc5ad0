//! Errors.

/// Reason why a search cannot be done.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The pattern is no regular expression, or one that is too large.
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
}

/// Result of a search.
pub type Result<T> = std::result::Result<T, Error>;
