//! A device that fails when it is told to: errors of reading, writing and flushing, short files, rotten bits, a full
//! disk, a disk that is gone.
//!
//! A [`FaultyDevice`] passes everything on to the device below it but for what the [`Rule`]s of its [`Faults`] say. The
//! test keeps the `Faults` (rules can come and go while a volume is open) and the device below, which it opens again
//! without faults.

mod device;
mod rule;

pub use device::{Access, Faults, FaultyDevice, Kind};
pub use rule::Rule;
