//! Errors of publications.

use std::sync::Arc;

/// Failure of a request to a store.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The store has no such object.
    #[error("no such object")]
    Missing,
    /// The object is not the one that the condition of the request names.
    #[error("the object has changed")]
    Changed,
    /// There is no such store.
    #[error("{0}")]
    NoStore(String),
    /// The store does not let this user do that.
    #[error("{0}")]
    Denied(String),
    /// The store has no room.
    #[error("{0}")]
    Full(String),
    /// The store cannot do that.
    #[error("{0}")]
    Unsupported(String),
    /// The store, or the way to it, failed.
    #[error("{0}")]
    Failed(String),
}

/// Reason why a publication cannot be read or written.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A URL that names no publication.
    #[error("URL: {0}")]
    Url(String),
    /// A request to the store failed.
    #[error("{object}{}: {source}", .offset.map(|at| format!(" at byte {at}")).unwrap_or_default())]
    Store {
        /// The object.
        object: String,
        /// Offset in it, of a ranged read.
        offset: Option<u64>,
        /// The failure.
        source: StoreError,
    },
    /// The bytes of an object are not those of a publication, or not those that its name promises.
    #[error("{object}{}: {why}", .offset.map(|at| format!(" at byte {at}")).unwrap_or_default())]
    Damaged {
        /// The object.
        object: String,
        /// Offset in it.
        offset: Option<u64>,
        /// The contradiction.
        why: String,
    },
    /// Bytes are stored in a way that this program does not know.
    #[error("{object} at byte {offset}: is stored by codec {codec}, which this program does not know")]
    Codec {
        /// The object.
        object: String,
        /// Offset in it.
        offset: u64,
        /// Number of the codec.
        codec: u16,
    },
    /// The version has a volume that was not closed, which no publisher publishes.
    #[error(
        "{0}: the volume was not closed when it was published, which is damaged or hostile; its log is not read"
    )]
    NotClosed(String),
    /// A version takes far more room than the bytes that were fetched for it.
    #[error(
        "{version}: its blocks take more than {factor} times the bytes that the store gave for them; if the \
         version is what it should be, raise the bound"
    )]
    Expansion {
        /// The version.
        version: String,
        /// The bound, as a multiple of the bytes that were fetched.
        factor: u32,
    },
    /// The tag names nothing yet.
    #[error("{0}: there is no such tag; publish a volume to it first")]
    NoTag(String),
    /// The tag is that of another volume.
    #[error("{tag}: the tag has versions of another volume, {there}; choose another tag")]
    OtherVolume {
        /// The tag.
        tag: String,
        /// UUID of the volume that it has.
        there: String,
    },
    /// The tag names a join, which no volume replaces.
    #[error("{0}: the tag names a join of shards, which `lanefs join` changes; publish to another tag")]
    IsJoin(String),
    /// The tag names a version of one volume.
    #[error("{0}: the tag names versions of one volume, and not a join; choose another tag for the join")]
    NotAJoin(String),
    /// A join is not one volume.
    #[error(
        "{0}: joins shards, which have no image as one; write its tree by `lanefs export`, or pull a shard by \
         its version, which `lanefs remote info` shows"
    )]
    NoImage(String),
    /// A shard that cannot be a part of the join.
    #[error("shard {prefix}: {why}")]
    Shard {
        /// Its prefix.
        prefix: String,
        /// The reason.
        why: String,
    },
    /// Another publisher replaced the tag meanwhile.
    #[error("{0}: another publisher replaced the tag meanwhile; publish again to publish on top of it")]
    TagMoved(String),
    /// A prune takes objects that the new version needs.
    #[error(
        "{0}: a prune is removing objects that this version needs; publish again when it has ended, or run \
         the prune again where it was cut off"
    )]
    Condemned(String),
    /// The grace period of a prune is too short.
    #[error("a grace period of {0} seconds is too short: choose 0, or 15 minutes at least")]
    ShortGrace(u64),
    /// Another prune goes on with the list of this one, or runs already.
    #[error("{0}: another prune runs, or was cut off less than a quarter of an hour ago; try again later")]
    PruneRuns(String),
    /// The tag exists, and names another version.
    #[error("{0}: the tag names another version; replace it by force, or choose another name")]
    TagExists(String),
    /// A tag, or a part of the version that it names, cannot be read, so that nobody knows what it needs.
    #[error("{source}; the tag {tag} needs it: put it back from a copy, or delete the tag")]
    BrokenTag {
        /// The tag.
        tag: String,
        /// The failure.
        source: Arc<Error>,
    },
    /// The caller asked to stop.
    #[error("interrupted")]
    Interrupted,
    /// A file of the host cannot be made or written.
    #[error("{file}: {why}")]
    Host {
        /// The file.
        file: String,
        /// The reason.
        why: String,
    },
    /// The snapshot of a volume in use could not be kept.
    #[error("the snapshot was given up: {0}; publish again, with more memory for it")]
    GivenUp(String),
    /// The volume failed.
    #[error("{0}")]
    Volume(Arc<lanefs::Error>),
}

impl From<lanefs::Error> for Error {
    fn from(error: lanefs::Error) -> Self {
        Error::Volume(Arc::new(error))
    }
}

impl Error {
    /// The object contradicts the format.
    pub(crate) fn damaged(object: impl Into<String>, why: impl Into<String>) -> Self {
        Error::Damaged { object: object.into(), offset: None, why: why.into() }
    }

    /// True where an object is missing or has bytes that cannot be used: another attempt finds the same.
    pub(crate) fn is_broken_object(&self) -> bool {
        let is_missing = matches!(self, Error::Store { source: StoreError::Missing, .. });
        is_missing || matches!(self, Error::Damaged { .. } | Error::Codec { .. })
    }

    /// A request for an object failed.
    pub(crate) fn store(object: impl Into<String>, source: StoreError) -> Self {
        Error::Store { object: object.into(), offset: None, source }
    }
}

/// Result of a call on publications.
pub type Result<T> = std::result::Result<T, Error>;
