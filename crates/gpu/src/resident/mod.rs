//! Data that stay in a device's memory between batches: the mirror of the metadata, caches of directories.
//!
//! It knows which bytes of the volume are there, and no batch.

pub(crate) mod bounce;
pub(crate) mod cache;
pub(crate) mod dir_table;
pub(crate) mod mirror;
pub(crate) mod tables;
