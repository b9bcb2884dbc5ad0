//! Blocks of other volumes, on a device that joins volumes: verified at home, then relocated.

use crate::device::BlockOrigin;
use crate::store::Store;
use lanefs_format::BlockKind;

/// Relocates a block of metadata that was verified at home. Returns false for one that leads out of its
/// volume, whose bytes are worth nothing then.
pub(crate) fn relocate(origin: &BlockOrigin<'_>, kind: BlockKind, bytes: &mut [u8]) -> bool {
    origin.relocation.relocate(kind, origin.home, bytes).is_ok()
}

impl Store {
    /// Returns true where the device joins volumes, whose blocks are relocated.
    pub fn is_joined(&self) -> bool {
        self.device().is_some_and(|device| device.origins().is_some())
    }

    /// Returns the origin of the block at `at`; `None` for one of this volume.
    pub(crate) fn origin(&self, at: u64) -> Option<BlockOrigin<'_>> {
        self.device()?.origins()?.of(at)
    }
}
