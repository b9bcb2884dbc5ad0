//! Many paths or files at once: lookups, reads, changes, and the engines that answer them.
//!
//! It knows no device of an engine.

mod batch;
pub mod bulk;
pub(crate) mod engine;
pub(crate) mod epoch_reader;
pub(crate) mod lookup_service;
pub(crate) mod read_files;
pub(crate) mod write_many;
