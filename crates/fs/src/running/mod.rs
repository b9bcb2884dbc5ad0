//! Running operations: attempts until one is valid, the first change, durability.
//!
//! It knows the volume as callers have it, and not what an operation does.

pub(crate) mod commit;
pub(crate) mod retry;
pub(crate) mod volume;
