//! The rows: what is published and read, over which link.

use super::link::Quality;
use std::time::Duration;

/// Rows of a tree that is published.
pub(super) const PUBLISH: &str = "publish";
pub(super) const SIZE: &str = "publish-size";
pub(super) const AGAIN: &str = "publish-again";

/// Rows of a tree that is read.
pub(super) const FIRST: &str = "first-lookup";
pub(super) const LOOKUP: &str = "lookup-cold";
pub(super) const WALK: &str = "walk-cold";
pub(super) const ALL: &str = "read-all";

/// Row of small files.
pub(super) const SHUFFLED: &str = "read-shuffled";

/// Rows of a batch of small files at random, over a long link and a short one.
pub(super) const FAR_BATCH: &str = "batch-far";
pub(super) const NEAR_BATCH: &str = "batch-near";

/// Share of the files that change before they are published again.
pub(super) const CHANGED: usize = 100;

/// Goals: size beside a SquashFS image; bytes and time of the second publication beside the first one; round
/// trips to the first answer; bytes of a walk beside those of metadata and manifest; time of lookups beside
/// plain reads of as many bytes; rate beside them; time beside mounts of objects.
pub(super) const GOAL_SIZE: f64 = 1.05;
pub(super) const GOAL_AGAIN_BYTES: f64 = 0.02;
pub(super) const GOAL_AGAIN_TIME: f64 = 0.1;
pub(super) const GOAL_TRIPS: f64 = 4.0;
pub(super) const GOAL_WALK: f64 = 1.01;
pub(super) const GOAL_LOOKUP: f64 = 3.0;
pub(super) const GOAL_ALL: f64 = 0.95;
pub(super) const GOAL_SHUFFLED: f64 = 20.0;

/// Goals of a batch: its bytes beside those of the files; its time beside that without frames, and beside
/// that of a client that knows all ranges.
pub(super) const GOAL_BATCH_BYTES: f64 = 4.0;
pub(super) const GOAL_BATCH_WHOLE: f64 = 5.0;
pub(super) const GOAL_BATCH_RANGES: f64 = 0.77;

/// Paths of `lookup-cold`.
pub(super) const LOOKUPS: usize = 100_000;

/// A store in another part of the world, one of 1 GB/s, and one in the same building.
pub(super) const FAR: Quality = Quality { round_trip: Duration::from_millis(50), bandwidth: None };
pub(super) const WIDE: Quality = Quality { round_trip: Duration::from_millis(1), bandwidth: Some(1e9) };
pub(super) const NEAR: Quality = Quality { round_trip: Duration::from_millis(10), bandwidth: None };

pub(super) const TREE_ROWS: [&str; 7] = [PUBLISH, SIZE, AGAIN, FIRST, LOOKUP, WALK, ALL];

/// Lists every row, in the order measured.
pub fn row_names() -> Vec<String> {
    TREE_ROWS.into_iter().chain([SHUFFLED, FAR_BATCH, NEAR_BATCH]).map(String::from).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::documented::assert_documented;

    #[test]
    fn the_documentation_names_every_row() {
        assert_documented(row_names());
    }
}
