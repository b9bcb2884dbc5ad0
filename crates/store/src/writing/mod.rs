//! The way of changes to the device: write-behind and write-back of file data, checksums, commits.
//!
//! It knows blocks and positions, and not which operation changed them.

pub(crate) mod behind;
pub(crate) mod commit;
pub(crate) mod data;
mod placement;
pub(crate) mod seal;
mod unnamed;
mod write_back;
