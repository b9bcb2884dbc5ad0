//! Batches of changes by path: one by one, or together with an engine that computes the new directories.

mod apply;
mod change;
mod engine;
mod names;
mod plan;
#[cfg(test)]
pub(crate) mod tests;

pub use crate::names::dir::{Added, Batch, Built, Head, Home, Lookup, Source, Task};
pub use apply::Shares;
pub use change::{Applied, Change};
pub use engine::{DirEngine, Frozen, LookupRequest, Rebuilt, Undecided};
