//! A running transfer: its threads, their queue, commits on the way, the report.
//!
//! It knows no direction.

pub(crate) mod commits;
pub(crate) mod expansion;
pub(crate) mod inventory;
pub(crate) mod job;
pub(crate) mod pending_tasks;
pub(crate) mod queue;
pub(crate) mod report;
