//! Faults that schedule tests plant, to see that they are found. Without the feature `shuttle` there is none, and the
//! questions for them vanish from the code.

/// A fault.
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
