//! A device that fails on request: errors of reading, writing and flushing, short files, bit rot, a full
//! disk, a missing disk.
//!
//! A [`FaultyDevice`] passes every call to the device below it, except as the [`Rule`]s of its [`Faults`]
//! demand. The test keeps the `Faults` (rules can be added and removed while a volume is open) and the device
//! below, which it opens again without faults.

mod access;
mod device;
mod rule;

pub use access::{Access, AccessKind};
pub use device::{Faults, FaultyDevice};
pub use rule::Rule;
