//! Misuse by the program: frees of what is not there, writes past a block's end.
//!
//! It reports; it repairs nothing.

pub(crate) mod checks;
pub(crate) mod guard;
pub(crate) mod misuse;
