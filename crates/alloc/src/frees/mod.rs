//! Frees by another thread: they wait in the block's home until its owner takes them.
//!
//! It knows addresses, and not their sizes.

pub(crate) mod inbox;
pub(crate) mod outbox;
mod ring;
