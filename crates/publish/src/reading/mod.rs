//! The way from a store to a reader: fetches, caches, the manifest, reads ahead, a device on top.
//!
//! It changes no object.

pub(crate) mod ahead;
pub(crate) mod cache;
pub(crate) mod device;
pub(crate) mod fetch;
pub(crate) mod in_flight;
pub(crate) mod join;
pub(crate) mod lru;
pub(crate) mod manifest;
pub(crate) mod pace;
pub(crate) mod pieces;
pub(crate) mod publication_device;
pub(crate) mod read_ahead;
pub(crate) mod threads;
