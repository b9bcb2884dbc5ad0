//! Accesses to a device, as rules match and traces list them.

use std::ops::Range;

/// The kind of an access to a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "each is the call of lanefs::Device that bears its name")]
pub enum AccessKind {
    Read,
    Write,
    Flush,
    Discard,
    Resize,
}

/// An access to the device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Access {
    /// Its kind.
    pub kind: AccessKind,
    /// Its bytes; none for a flush.
    pub bytes: Range<u64>,
}
