//! Blocks that come from other volumes.

use lanefs_format::Relocation;

/// The place from which a block of a device comes.
#[derive(Clone, Copy, Debug)]
pub struct BlockOrigin<'d> {
    /// Byte position of the block in its own volume, for which it has its checksum.
    pub home: u64,
    /// Its way into the volume on this device.
    pub relocation: Relocation<'d>,
}

/// Blocks of a device that are those of other volumes, as they lie there: a device that joins volumes. A
/// block of metadata is verified at home and relocated before anybody sees it; file data are as they are.
/// The volume on the device is open for reading only, and has no checksums of file data of its own.
pub trait Origins: Send + Sync {
    /// Returns the origin of the block at byte position `at`; `None` for one of the device itself.
    fn of(&self, at: u64) -> Option<BlockOrigin<'_>>;
}
