//! The stamp of a volume, by which a program finds whether a closed image is the one that it knew.

use crate::running::volume::Volume;
use lanefs_format::BLOCK;
use lanefs_format::superblock::Superblock;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// The identity of a volume, and how often its superblock was written. Each session that changes the volume
/// writes it before its first change, and once more when it closes the volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VolumeStamp {
    /// Identity of the volume. A copy of the image has the same.
    pub uuid: [u8; 16],
    /// Number of writes of the superblock.
    pub sequence: u64,
    /// The volume was closed, and not changed since.
    pub is_closed: bool,
}

impl VolumeStamp {
    /// Reads the stamp from the file of an image, whoever has that open; `None` where its first block is not
    /// a superblock that this software can use.
    ///
    /// # Errors
    /// The host's.
    pub fn of_image(image: &File) -> io::Result<Option<VolumeStamp>> {
        let mut block = vec![0; BLOCK as usize];
        image.read_exact_at(&mut block, 0)?;
        Ok(Superblock::decode(&block).ok().map(|superblock| stamp(&superblock)))
    }
}

impl Volume {
    /// Returns the stamp that the device has by now.
    #[must_use]
    pub fn stamp(&self) -> VolumeStamp {
        stamp(&self.superblock())
    }
}

fn stamp(superblock: &Superblock) -> VolumeStamp {
    VolumeStamp { uuid: superblock.uuid, sequence: superblock.sequence, is_closed: superblock.clean }
}
