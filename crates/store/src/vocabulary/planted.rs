//! Bugs that schedule tests plant in the store.

use lanefs_sync::Planted;

pub(crate) use lanefs_sync::is_planted as is;

/// A bug that a schedule test plants, to see that the tests find it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Bug {
    /// Versions are tracked and never compared.
    NoVersionCheck,
    /// New content is written over old content without a lock on its ownership record.
    UnlockedInit,
    /// The cache does not check again that a block is clean after it has claimed it.
    NoSecondLook,
    /// The cache does not look at pins.
    ForgottenPins,
    /// A transaction takes a block out of use that is being evicted.
    RetireInTransit,
    /// Fetches do not find copies that are being written to the journal.
    NoCopiesInFlight,
    /// A commit marks blocks of data as clean although they changed while they were written.
    CleanAfterWriting,
    /// Readers make the epoch even without a check for writers in slots.
    QuietWithoutCheck,
    /// A commit does not wait for write-behind.
    CommitBeforeWriteBehind,
    /// Blocks of file data are overwritten in place although a commit has them.
    OverwriteCommitted,
    /// A snapshot does not compute checksums of data that were written early and have changed since.
    StaleSums,
    /// A transaction with the gate closed does not see that a block could not be taken out of use.
    UncheckedAlone,
    /// A fetch ends and wakes no thread.
    SilentFetch,
    /// Neighbours are what the chunk table says, although a transaction may be changing it.
    TrustedTable,
    /// A neighbour is read from the device although a committed copy of it is not in place.
    NeighboursWithoutCopies,
    /// A thread that claims a block takes a slot for its own that is about to leave.
    SlotThatLeaves,
    /// A slot is taken away although a transaction that freed its blocks may be rolled back.
    SlotOfFreedBlocks,
    /// A device saves blocks for a snapshot after it has overwritten them.
    SavesAfterWriting,
}

impl Planted for Bug {}
