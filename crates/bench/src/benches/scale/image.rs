//! The place of a volume: a sparse file, or a packed device.

use super::packed::Packed;
use lanefs::{Access, CreateOptions, Device, OpenOptions, Result, Volume};
use std::path::PathBuf;

/// Memory for blocks of the device: little, so that the memory of a step says what the step needs.
const CACHE: u64 = 64 << 20;

/// The place of a volume.
pub(super) struct Image {
    pub(super) path: PathBuf,
    pub(super) is_packed: bool,
}

impl Image {
    /// Makes a volume of `bytes` bytes, in place of an older one.
    pub(super) fn create(&self, bytes: u64) -> Result<Volume> {
        let options = CreateOptions { size: bytes, force: true, ..CreateOptions::default() };
        if !self.is_packed {
            return Volume::create(&self.path, &options);
        }
        // A device that is not there yet has nothing to remove.
        let _ = std::fs::remove_dir_all(&self.path);
        Volume::create_device(self.device(bytes, 0)?, &options)
    }

    /// Opens the volume.
    pub(super) fn open(&self, bytes: u64, access: Access) -> Result<Volume> {
        self.open_with(bytes, OpenOptions { cache: Some(CACHE), growth: Some(0), ..access.into() })
    }

    /// Opens the volume with room up to `room` bytes.
    pub(super) fn open_to_grow(&self, bytes: u64, room: u64) -> Result<Volume> {
        let growth = Some(room.saturating_sub(bytes));
        self.open_with(bytes, OpenOptions { cache: Some(CACHE), growth, ..OpenOptions::default() })
    }

    fn open_with(&self, bytes: u64, options: OpenOptions) -> Result<Volume> {
        if !self.is_packed {
            return Volume::open(&self.path, options);
        }
        Volume::open_device(self.device(bytes, options.growth.unwrap_or(0) + bytes)?, options)
    }

    fn device(&self, bytes: u64, room: u64) -> Result<Box<dyn Device>> {
        let opened = Packed::open(&self.path, bytes, room);
        let failed = |source| lanefs::Error::Io { what: self.path.display().to_string(), source };
        Ok(Box::new(opened.map_err(failed)?))
    }
}
