//! Bugs that schedule tests plant in the store.

use lanefs_sync::Planted;

pub(crate) use lanefs_sync::is_planted as is;

/// A bug that a schedule test plants, to see that the tests find it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// Versions are noted and never compared.
    NoVersionCheck,
    /// New content is written where something old was without holding its record.
    UnheldInit,
    /// The cache does not look once more whether a block is clean after it has claimed it.
    NoSecondLook,
    /// Copies that are on their way into the journal are not found.
    NoUnderWay,
    /// A commit marks blocks of data as clean however much they changed while they were written.
    CleanAfterWriting,
    /// Readers calm the epoch without looking whether a writer is in a slot.
    HastyCalm,
    /// A commit does not wait for what is written behind.
    NoCatchingUp,
    /// A fetch that is over wakes nobody.
    SilentFetch,
}

impl Planted for Fault {}
