//! Bugs that the schedule tests of the lookup service plant.

use lanefs_sync::Planted;

/// A bug of the service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(not(all(test, feature = "_shuttle")), allow(dead_code))]
pub(super) enum PlantedBug {
    /// A path wakes no server.
    UnwokenServer,
    /// Servers do not learn that the service is closed.
    SilentClose,
    /// A server that is woken before its time is over does not look for the reason.
    LostWakeUp,
    /// A server takes for granted that no other one took its batch while it waited.
    TakenBatch,
    /// Answers wake no thread.
    UnwokenThread,
    /// Answers wake no task.
    UnwokenTask,
}

impl Planted for PlantedBug {}
