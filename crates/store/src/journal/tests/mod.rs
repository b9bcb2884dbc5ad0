//! Tests of the journal alone, on devices that lose unflushed writes.

mod crash;
mod medium;
mod single;
mod sums;
