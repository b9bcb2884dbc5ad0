//! Failures of single members.

use crate::in_volume::volume_entry::VolumeEntryError;
use crate::vocabulary::error::Error;

/// Reason why a member was not imported, or not completely.
pub(crate) enum MemberFailure {
    /// The name could not be made, or the volume refused an operation.
    Entry(VolumeEntryError),
    /// A description.
    Text(String),
    /// The archive cannot be read any further.
    Archive(Error),
    /// The transfer stops.
    Stopped,
}

impl From<VolumeEntryError> for MemberFailure {
    fn from(error: VolumeEntryError) -> Self {
        MemberFailure::Entry(error)
    }
}

impl From<lanefs::Error> for MemberFailure {
    fn from(error: lanefs::Error) -> Self {
        MemberFailure::Entry(VolumeEntryError::Volume(error))
    }
}
