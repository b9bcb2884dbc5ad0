//! Batches of paths on a device: lookups, searches by name, listings.
//!
//! The host decides what a kernel leaves open; the answers are those of the CPU engine.

mod answering;
mod asked;
mod batch;
mod batch_pool;
pub(crate) mod below;
mod direct;
pub(crate) mod find;
mod input;
pub(crate) mod kept;
pub(crate) mod list;
pub(crate) mod mirrored;
mod names;
mod output;
mod packing;
pub(crate) mod pending;
mod warm;
