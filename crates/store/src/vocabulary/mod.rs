//! Words of every layer: why an attempt cannot go on, runs of blocks, counts of a volume, copies of words
//! that several threads access.
//!
//! It knows positions and numbers, and neither which memory nor which device has them.

pub(crate) mod words;

pub(crate) mod fault;
pub(crate) mod planted;
pub(crate) mod range;
pub(crate) mod totals;
