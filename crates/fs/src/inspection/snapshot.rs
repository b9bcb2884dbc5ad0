//! Snapshots of an open volume: its state of one commit stays readable while it changes.
//!
//! The snapshot is that of a commit, as a volume that was closed then: everything of the commit is in place
//! on the device, and the device keeps the old content of the blocks that are used in it. The superblock of
//! the snapshot says that the volume was closed, and has the counts of the commit.

use super::used::UsedBlocks;
use crate::running::commit::CommitLock;
use crate::running::volume::Volume;
use crate::vocabulary::error::{Error, ErrorKind, Result};
use crate::vocabulary::options::{Access, OpenOptions};
use lanefs_format::superblock::Superblock;
use lanefs_format::{BLOCK, JOURNAL_HEADERS, SUPERBLOCK_COPY};
use lanefs_store::{Device, DeviceSnapshot};

/// Memory for the blocks of the snapshot that are read to find the used ones.
const CACHE: u64 = 64 << 20;

/// The state of a volume at one commit, which stays readable while the volume changes. It ends with this
/// value and the devices and volumes that were made from it. Until then the image counts as in use, also when
/// the volume has been closed.
pub struct VolumeSnapshot {
    device: DeviceSnapshot,
}

/// # Snapshots
impl Volume {
    /// Takes a snapshot, which has all changes so far. Operations of other threads go on meanwhile, except
    /// for the short time in which a commit copies the changed blocks.
    ///
    /// Blocks that change before they were [released](VolumeSnapshot::release) are kept in memory, up to
    /// `memory` bytes. Where that is not enough, reads of the snapshot fail; the volume is as good as ever.
    ///
    /// Blocks of files without checksums may have changes that were made while the snapshot was taken, and in
    /// part, as after a crash.
    ///
    /// # Errors
    /// [`Error::Image`] for a volume in memory, and for one that is open for reading and was not closed; a
    /// damaged group or table of a chunk; the device's.
    pub fn snapshot(&self, memory: u64) -> Result<VolumeSnapshot> {
        let shared = &self.shared;
        let refuse = |kind, why: &str| Error::Image { kind, what: "volume".into(), why: why.into() };
        // No thread writes a block in place that a commit has while this one has the lock.
        let lock = shared.lock_commits();
        let mut superblock = match shared.access {
            Access::Read => self.closed()?,
            Access::Write | Access::Repair => self.all_in_place(&lock)?,
        };
        let Some(device) = shared.state.store.device_snapshot(memory) else {
            return Err(refuse(ErrorKind::Unsupported, "is in memory only, and a snapshot needs a device"));
        };
        superblock.clean = true;
        let headers = superblock.journal_blocks.min(JOURNAL_HEADERS);
        let block = |number: u64| superblock.journal.saturating_add(number.saturating_mul(BLOCK));
        for at in (0..headers).map(block) {
            let mut header = vec![0; BLOCK as usize];
            shared.state.store.read_image(at, &mut header)?;
            device.replace(at, &header);
        }
        // The log of a closed volume counts for nothing, and this one goes on.
        device.blank(block(headers)..block(superblock.journal_blocks));
        let snapshot = VolumeSnapshot { device };
        snapshot.set_superblock(&superblock);
        let volume = snapshot.open(OpenOptions {
            cache: Some(CACHE),
            directory_table: Some(0),
            ..OpenOptions::default()
        })?;
        if shared.access != Access::Read {
            let totals = volume.recount()?;
            (superblock.free_blocks, superblock.inodes) = (totals.free_blocks, totals.inodes);
            snapshot.set_superblock(&superblock);
        }
        for group in 0..volume.group_count() {
            for window in volume.used_blocks(group)? {
                snapshot.device.keep(window.position, window.used);
            }
        }
        Ok(snapshot)
    }

    /// Makes all changes durable and writes them in place. Returns the superblock.
    fn all_in_place(&self, lock: &CommitLock<'_>) -> Result<Superblock> {
        if !self.shared.state.store.is_memory() {
            self.shared.commit_locked(lock)?;
            self.shared.state.store.checkpoint()?;
        }
        Ok(self.superblock())
    }
}

impl VolumeSnapshot {
    fn set_superblock(&self, superblock: &Superblock) {
        let block = superblock.encode();
        for at in [0, SUPERBLOCK_COPY] {
            self.device.replace(at, &block);
        }
    }

    /// Opens the snapshot for reading, as a volume that was closed.
    ///
    /// # Errors
    /// As [`Volume::open`].
    pub fn open(&self, options: impl Into<OpenOptions>) -> Result<Volume> {
        let options = OpenOptions { access: Access::Read, ..options.into() };
        Volume::open_device(self.device(), options)
    }

    /// Returns the bytes of the snapshot as a device. Blocks that are not used in it read as anything.
    pub fn device(&self) -> Box<dyn Device> {
        Box::new(self.device.clone())
    }

    /// Releases blocks that are not read any more: changes of them cost no memory from now on.
    pub fn release(&self, blocks: &UsedBlocks) {
        self.device.release(blocks.position, blocks.used);
    }

    /// Returns the reason why reads fail, once the snapshot has been given up.
    pub fn given_up(&self) -> Option<String> {
        self.device.given_up()
    }

    /// Returns the bytes of memory that the snapshot takes for blocks that have changed.
    pub fn memory(&self) -> u64 {
        self.device.saved_bytes()
    }
}
