//! The switch for planted bugs.
//!
//! A schedule test that passes proves little until it has been seen to fail. So each crate lists bugs that
//! its tests can compile in, and asks [`is_planted`] where one of them would be.

/// A crate's own list of bugs that its schedule tests plant: an enumeration.
pub trait Planted: Copy + PartialEq + std::any::Any {}

/// Returns true where a test planted this bug; always false without the feature `_shuttle`.
#[cfg(not(feature = "_shuttle"))]
#[inline(always)]
pub fn is_planted(_: impl Planted) -> bool {
    false
}

#[cfg(feature = "_shuttle")]
pub use explored::{is_planted, with_planted};

#[cfg(feature = "_shuttle")]
mod explored {
    use super::Planted;
    use std::any::Any;
    use std::cell::RefCell;

    std::thread_local! {
        /// The bug planted in this thread of the host. All threads of an exploration share that thread, and
        /// tests that run beside it have their own.
        static PLANTED: RefCell<Option<Box<dyn Any>>> = const { RefCell::new(None) };
    }

    /// Returns true where a test planted this bug.
    pub fn is_planted<B: Planted>(bug: B) -> bool {
        PLANTED.with_borrow(|planted| {
            planted
                .as_ref()
                .and_then(|planted| planted.downcast_ref::<B>())
                .is_some_and(|planted| *planted == bug)
        })
    }

    /// Calls `work` with a bug planted, and removes the bug afterwards. `work` must not panic.
    pub fn with_planted<T>(bug: impl Planted, work: impl FnOnce() -> T) -> T {
        PLANTED.set(Some(Box::new(bug)));
        let result = work();
        PLANTED.set(None);
        result
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Clone, Copy, Debug, PartialEq)]
    enum OneCrate {
        First,
        Second,
    }

    #[derive(Clone, Copy, Debug, PartialEq)]
    enum OtherCrate {
        First,
    }

    impl Planted for OneCrate {}
    impl Planted for OtherCrate {}

    fn planted() -> (bool, bool, bool) {
        (is_planted(OneCrate::First), is_planted(OneCrate::Second), is_planted(OtherCrate::First))
    }

    #[test]
    fn nothing_is_planted_by_itself() {
        assert_eq!(planted(), (false, false, false));
    }

    #[cfg(feature = "_shuttle")]
    #[test]
    fn a_bug_of_one_crate_is_planted_in_this_crate_only_and_for_one_call() {
        assert_eq!(with_planted(OneCrate::Second, planted), (false, true, false));
        assert_eq!(with_planted(OtherCrate::First, planted), (false, false, true));
        assert_eq!(planted(), (false, false, false));
    }
}
