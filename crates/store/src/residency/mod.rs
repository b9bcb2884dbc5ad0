//! Blocks become resident and absent again: fetches with their neighbours, verification, eviction, pins.
//!
//! It changes no block.

mod evict;
mod fetch;
mod origin;
pub(crate) mod pins;
pub(crate) mod sum;
mod window;
