//! Bugs that the schedule tests of the lookup service plant.

use lanefs_sync::Planted;

/// A bug of the service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(not(all(test, feature = "shuttle")), allow(dead_code))]
pub(super) enum PlantedBug {
    /// A path wakes no server.
    UnwokenServer,
    /// Servers do not learn that the service is closed.
    SilentClose,
    /// Answers wake no thread.
    UnwokenThread,
    /// Answers wake no task.
    UnwokenTask,
}

impl Planted for PlantedBug {}
