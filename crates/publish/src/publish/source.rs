//! Volumes that are published.

use lanefs::{Access, OpenOptions, UsedBlocks, Volume, VolumeSnapshot};

/// Memory for the blocks of a snapshot that a publisher reads more than once.
const CACHE: u64 = 64 << 20;

/// A volume that is published: one that was closed, or the snapshot of one that is in use.
pub trait Source: Sync {
    /// Returns the volume, which was closed and is open for reading.
    fn volume(&self) -> &Volume;

    /// Learns that these blocks are not read any more.
    fn release(&self, _blocks: &UsedBlocks) {}

    /// Returns the reason why nothing more can be read, where it is known.
    fn given_up(&self) -> Option<String> {
        None
    }
}

impl Source for Volume {
    fn volume(&self) -> &Volume {
        self
    }
}

/// A snapshot of a volume that is in use, for [`publish`](crate::publish).
pub struct Snapshot {
    volume: Volume,
    snapshot: VolumeSnapshot,
}

impl Snapshot {
    /// Memory for blocks that change while they are published, by default.
    pub const MEMORY: u64 = 512 << 20;

    /// Takes a snapshot of a volume that is in use. Blocks that change before they were read are kept in
    /// memory, up to `memory` bytes.
    ///
    /// # Errors
    /// As [`Volume::snapshot`].
    pub fn take(volume: &Volume, memory: u64) -> lanefs::Result<Snapshot> {
        let snapshot = volume.snapshot(memory)?;
        let options = OpenOptions { cache: Some(CACHE), ..OpenOptions::from(Access::Read) };
        Ok(Snapshot { volume: snapshot.open(options)?, snapshot })
    }
}

impl Source for Snapshot {
    fn volume(&self) -> &Volume {
        &self.volume
    }

    fn release(&self, blocks: &UsedBlocks) {
        self.snapshot.release(blocks);
    }

    fn given_up(&self) -> Option<String> {
        self.snapshot.given_up()
    }
}
