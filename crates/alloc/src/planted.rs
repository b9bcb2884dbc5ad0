//! Faults that schedule tests plant, to see that they are found. Without the feature `shuttle` there is none, and the
//! questions for them vanish from the code.

/// A fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// Who adds to an inbox does not see what others added meanwhile.
    LostUpdate,
    /// What is in an inbox is read first, and the inbox emptied a moment later.
    NoSwap,
    /// Two that add to a ring are promised the same places.
    SamePlace,
    /// Places of a ring are given out again before they are empty.
    EarlyRoom,
    /// The first object of a batch is not counted.
    Miscount,
    /// A heap is put with the idle ones before it has given back what it has.
    EarlyAbandon,
    /// `World::release` leaves the heap that it trims in the list.
    TrimInList,
    /// Locks are not taken.
    OpenLock,
    /// Before a fork the pool is not held.
    HalfHeld,
}

/// True where this fault was planted.
#[cfg(not(feature = "shuttle"))]
#[inline(always)]
pub(crate) fn is(_: Fault) -> bool {
    false
}

#[cfg(feature = "shuttle")]
pub(crate) use explored::is;
#[cfg(all(test, feature = "shuttle"))]
pub(crate) use explored::with;

#[cfg(feature = "shuttle")]
mod explored {
    use super::Fault;
    use std::cell::Cell;

    std::thread_local! {
        /// Of the host's thread, on which all threads of an exploration run: tests beside it have no fault.
        static PLANTED: Cell<Option<Fault>> = const { Cell::new(None) };
    }

    pub(crate) fn is(fault: Fault) -> bool {
        PLANTED.get() == Some(fault)
    }

    /// Does something with a fault planted. It must not panic.
    #[cfg(test)]
    pub(crate) fn with<T>(fault: Fault, work: impl FnOnce() -> T) -> T {
        PLANTED.set(Some(fault));
        let done = work();
        PLANTED.set(None);
        done
    }
}
