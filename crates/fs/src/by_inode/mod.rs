//! Calls by inode number and single name, as a server has them.
//!
//! Each is one operation; none takes a path.

mod checksums;
mod copy;
pub(crate) mod hold;
mod new_file;
pub(crate) mod ops;
pub(crate) mod pieces;
mod reclaim;
