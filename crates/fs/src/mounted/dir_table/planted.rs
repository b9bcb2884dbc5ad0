//! Bugs that the schedule tests of the table plant.

use lanefs_sync::Planted;

/// A bug of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(not(all(test, feature = "_shuttle")), allow(dead_code))]
pub(super) enum PlantedBug {
    /// An attempt is accepted although its epoch has ended.
    UncheckedEpoch,
    /// A walk does not tell through which directories it leads.
    UnmarkedWalk,
    /// Slots of all epochs are believed.
    OldEpochs,
}

impl Planted for PlantedBug {}
