//! The state of a mounted volume, outside of its bytes: counts, cursors, claims, holders, known directories.
//!
//! It knows no operation: what it has can be lost, and is then found again.

mod claims;
pub(crate) mod counts;
pub(crate) mod cursors;
pub(crate) mod dir_table;
pub(crate) mod hints;
mod holds;
pub(crate) mod journal;
pub(crate) mod moves;
pub(crate) mod prealloc;
pub(crate) mod shared;
pub(crate) mod state;
pub(crate) mod writer;
