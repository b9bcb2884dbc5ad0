//! The outcome of a check: findings, the invariants that they break, repairs that were not possible,
//! progress.
//!
//! It knows no block.
pub(super) mod findings;
pub(super) mod invariants;
pub(super) mod journal_state;
pub(super) mod obstacles;
pub(super) mod progress;
pub(super) mod report;
