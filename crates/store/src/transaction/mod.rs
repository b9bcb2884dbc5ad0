//! One attempt to read, and one transaction: versions that are tracked, records that are locked, undo.
//!
//! It fetches nothing: an absent block ends the attempt.

pub(crate) mod gate;
pub(crate) mod reader;
pub(crate) mod tx;
