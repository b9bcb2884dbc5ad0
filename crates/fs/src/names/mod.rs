//! Names inside an attempt: directories, single names, whole paths, and the directory of orphans.
//!
//! It runs no attempt: it ends with one that misses a block.

pub(crate) mod dir;
pub(crate) mod lookup;
pub(crate) mod namespace;
pub(crate) mod orphans;
pub(crate) mod resolve;
