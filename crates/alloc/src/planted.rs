//! Bugs that schedule tests plant in the heap.

use lanefs_sync::Planted;

/// A bug that a schedule test plants, to see that the tests find it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PlantedBug {
    /// A thread that adds to an inbox overwrites objects that others added meanwhile.
    LostUpdate,
    /// The owner reads an inbox first and empties it later.
    NoSwap,
    /// Two threads that add to a ring reserve the same slots.
    SameSlot,
    /// Slots of a ring are reserved again before they are empty.
    EarlyReuse,
    /// The first object of a batch is not counted.
    Miscount,
    /// A heap is listed as abandoned before it has given back its objects.
    EarlyAbandon,
    /// The heap that is trimmed stays in the list of abandoned heaps.
    TrimInList,
    /// Locks are not taken.
    OpenLock,
    /// The pool is not locked before a fork.
    PoolNotLocked,
}

impl Planted for PlantedBug {}
