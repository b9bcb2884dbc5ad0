//! One byte for each block: how a resident block differs from the device.

/// Values of a block's dirty byte.
pub(crate) struct Dirty;

impl Dirty {
    /// The device has the same bytes.
    pub(crate) const CLEAN: u8 = 0;
    /// The block was changed.
    pub(crate) const CHANGED: u8 = 1;
    /// The block is being written, and was not changed since the write began.
    pub(crate) const WRITING: u8 = 2;
    /// File data that a writer is changing now: written or not, the block is dirty until the writer unpins
    /// it.
    pub(crate) const PINNED: u8 = 3;
}
