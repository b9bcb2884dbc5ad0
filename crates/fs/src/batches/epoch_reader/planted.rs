//! Bugs that the schedule tests of the hand-over plant.

use lanefs_sync::Planted;

/// A bug of the hand-over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(not(all(test, feature = "_shuttle")), allow(dead_code))]
pub(super) enum PlantedBug {
    /// A batch that was read wakes nobody.
    ForgetsCaller,
    /// The reader does not learn that the caller waits while it holds all memory.
    HidesWaitingCaller,
    /// The threads do not learn that nobody wants more.
    ForgetsStop,
    /// A window of batches takes more memory than there is.
    IgnoresBudget,
}

impl Planted for PlantedBug {}
