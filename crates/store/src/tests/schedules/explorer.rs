//! The explorer of these tests.

use crate::vocabulary::planted::Bug;
use lanefs_sync::Explorer;

const EXPLORER: Explorer = Explorer::new(0x5c4e_d01e);

pub(super) fn explore(schedules: usize, body: fn()) {
    EXPLORER.explore(schedules, body);
}

/// Expects that a schedule fails with a bug planted.
pub(super) fn finds(bug: Bug, schedules: usize, body: fn()) {
    EXPLORER.expect_failure(bug, schedules, body);
}
