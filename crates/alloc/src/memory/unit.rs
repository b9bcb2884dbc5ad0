//! Units: pieces of 256 KiB of address space, each with a header at its start.

use crate::host::os::PAGE_BYTES;
use std::ptr::NonNull;

/// Bytes of a unit, and its alignment: one mask leads from a pointer to the header of its unit.
pub(crate) const UNIT: usize = 256 << 10;

/// Bytes at the start of a unit, or of several in one piece, in which no object lies: the header, and the
/// pool's own part.
pub(crate) const HEADER_BYTES: usize = 256;

/// Offset of the pool's own part.
pub(crate) const POOL_PART: usize = 128;

const _: () = assert!(UNIT.is_power_of_two() && UNIT.is_multiple_of(PAGE_BYTES) && POOL_PART < HEADER_BYTES);

/// Consecutive units.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Units {
    pub(crate) base: NonNull<u8>,
    pub(crate) count: usize,
    /// All bytes are zero.
    pub(crate) is_zero: bool,
}
