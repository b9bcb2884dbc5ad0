//! The schedules of these tests.

use crate::planted::PlantedBug;
use lanefs_sync::Explorer;

const EXPLORER: Explorer = Explorer::new(0x4ea9_0001);

pub(super) fn explore(schedules: usize, body: fn()) {
    EXPLORER.explore(schedules, body);
}

/// Expects that a schedule fails with a bug planted.
pub(super) fn finds(bug: PlantedBug, schedules: usize, body: fn()) {
    EXPLORER.expect_failure(bug, schedules, body);
}
