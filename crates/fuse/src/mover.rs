//! The handle that moves a mount to another version of its volume.

use crate::error::{Error, Result};
use lanefs::Volume;
use lanefs_serve::Served;
use std::sync::{Arc, Weak};

/// Handle that moves a mount to other versions of its volume.
pub struct Mover(Weak<Served>);

impl Mover {
    pub(crate) fn new(served: &Arc<Served>) -> Self {
        Mover(Arc::downgrade(served))
    }

    /// Serves `volume` instead of the present one. On return every new lookup sees it. Files that are open,
    /// and directories in use, stay those of the version in which they were opened; that version ends with
    /// the last of them.
    ///
    /// # Errors
    /// [`Error::Move`]: the mount has ended; the mount or `volume` can be changed; files of 255 older
    /// versions are in use. [`Error::Volume`]: a root cannot be listed. The mount stays as it is, and
    /// `volume` closes.
    pub fn move_to(&mut self, volume: impl Into<Arc<Volume>>) -> Result<()> {
        let served = self.0.upgrade().ok_or(Error::ENDED)?;
        Ok(served.move_to(volume.into())?)
    }

    /// Makes the kernel drop what it has of older versions and does not use, and ends the versions of which
    /// it has nothing more. Costs a listing of each directory of an older version that the kernel knows.
    pub fn end_unused(&self) {
        if let Some(served) = self.0.upgrade() {
            served.end_unused();
        }
    }
}
