//! An open volume becomes read-only, and writable again.

use crate::names::orphans;
use crate::running::volume::Volume;
use crate::vocabulary::error::Result;
use crate::vocabulary::options::Access;
use lanefs_format::Code;
use std::sync::atomic::Ordering;

/// # Freezing
impl Volume {
    /// Makes the volume read-only or writable. On return no change is in progress. While the volume is
    /// read-only, every change fails with [`Code::ReadOnly`], everything is durable, and the device is marked
    /// as closed, unless an inode without a name is held: it can be freed only by a change.
    ///
    /// # Errors
    /// [`Code::ReadOnly`] where a volume that was opened for reading should become writable. The device's;
    /// the volume is then read-only, but may not be marked as closed.
    pub fn set_read_only(&self, read_only: bool) -> Result<()> {
        let shared = &self.shared;
        match (shared.access == Access::Read, read_only) {
            (true, false) => return Err(Code::ReadOnly.into()),
            (true, true) => return Ok(()),
            (false, false) => shared.frozen.store(false, Ordering::Release),
            (false, true) if !shared.frozen.swap(true, Ordering::AcqRel) => self.settle()?,
            (false, true) => {}
        }
        Ok(())
    }

    /// Ends the changes of a volume that accepts no further ones, and marks it as closed.
    fn settle(&self) -> Result<()> {
        let shared = &self.shared;
        let _lock = shared.lock_commits();
        let mut closed = shared.state.gate.close_to_change(&shared.state.store);
        // A change that began before the freeze may be marking the volume as in use.
        drop(shared.superblock.lock());
        if !shared.marked.load(Ordering::Acquire) {
            return Ok(());
        }
        shared.commit_exclusive(shared.recall_prealloc(&mut closed)?)?;
        shared.state.store.checkpoint()?;
        if self.has_nameless()? {
            return Ok(());
        }
        self.write_superblock(true)?;
        shared.marked.store(false, Ordering::Release);
        Ok(())
    }

    /// True where an inode without a name is in use.
    fn has_nameless(&self) -> Result<bool> {
        // The first entry of the orphan directory is its own.
        self.view(|core| Ok(orphans::some_unlisted(core)? || orphans::entries(core, 0, 2)?.len() > 1))
    }
}
