//! Inodes that are held: they outlive their last name until the last holder lets go.
//!
//! Holders are counted in memory only. A change that takes an inode's last name away decides once it holds the inode's record:
//! is somebody counted then, it [lists](crate::orphans) the inode, else it frees it. Who wants to hold an inode counts himself
//! first, and then looks at the inode in a run that notes its record. So of the two one sees the other: the change sees the
//! count, or the run sees the change, waits for its end, and finds the inode gone.
//!
//! Who lets go the last looks in the same way: he is uncounted first, and looks then whether the inode has a name.

use crate::error::Result;
use crate::inode::Inode;
use crate::options::Access;
use crate::types::{Attr, Caller, Ino};
use crate::volume::Volume;
use crate::{namespace, ops, reclaim};
use lanefs_format::inode as f;
use smallvec::SmallVec;

/// Counts holders while an operation's runs go on: one that does not count may have found another inode than the last.
struct HolderCount<'v> {
    volume: &'v Volume,
    /// In the order in which they were found; only the last is what the operation came to.
    counted: SmallVec<[u64; 2]>,
}

impl<'v> HolderCount<'v> {
    fn new(volume: &'v Volume) -> Self {
        HolderCount { volume, counted: SmallVec::new() }
    }

    /// This run is about inode `ino`.
    fn count(&mut self, ino: u64) {
        if self.counted.last() != Some(&ino) {
            self.volume.shared.state.holds.add(ino);
            self.counted.push(ino);
        }
    }

    /// The last one stays counted.
    fn keep(mut self, attr: Attr) -> Attr {
        let last = self.counted.pop();
        debug_assert_eq!(last, Some(attr.ino.0), "the last inode found is the result");
        if attr.links == 0 {
            self.volume.shared.state.holds.keep_nameless(attr.ino.0);
        }
        attr
    }
}

impl Drop for HolderCount<'_> {
    fn drop(&mut self) {
        for ino in std::mem::take(&mut self.counted) {
            // Only a damaged volume, or a device, fails here, and the next open tries again.
            let _ = self.volume.release(Ino(ino), 1);
        }
    }
}

impl Volume {
    /// True while somebody holds the inode.
    pub fn is_held(&self, ino: Ino) -> bool {
        self.shared.state.holds.has(ino.0)
    }

    /// Holds an inode: it lives on without a name, as a file that is open does, until it is [released](Self::release). Holders
    /// are counted; a process that ends holds nothing any more, and the next open of the volume frees what it left.
    ///
    /// Who made or looked up an inode and holds it by number compares [`Attr::generation`], or takes
    /// [`lookup_held`](Self::lookup_held).
    ///
    /// # Errors
    /// [`Code::StaleInode`](lanefs_format::Code::StaleInode) when it is not in use.
    pub fn hold(&self, ino: Ino) -> Result<Attr> {
        let mut counting = HolderCount::new(self);
        counting.count(ino.0);
        let attr = self.view(|core| ops::getattr(core, ino))?;
        Ok(counting.keep(attr))
    }

    /// Looks a name up and holds what it names, in one step: no other inode can have taken its number in between.
    ///
    /// # Errors
    /// As [`lookup`](Self::lookup).
    pub fn lookup_held(&self, who: &Caller, dir: Ino, name: &[u8]) -> Result<Attr> {
        let mut counting = HolderCount::new(self);
        let attr = self.view(|core| {
            let ino = namespace::lookup(core, who, dir.0, name)?.0;
            counting.count(ino);
            Inode::load(core, ino)?.attr()
        })?;
        Ok(counting.keep(attr))
    }

    /// Takes `times` holders of an inode away. With the last one an inode without a name is freed.
    ///
    /// # Errors
    /// Those of a change. The inode is not held any more then, and the next open of the volume frees it.
    pub fn release(&self, ino: Ino, times: u64) -> Result<()> {
        if !self.shared.state.holds.remove(ino.0, times) {
            return Ok(());
        }
        // Nearly always it still has a name, or got another.
        let links = self.view(|core| Ok(Inode::load(core, ino.0)?.view.get(f::LINKS)));
        if !links.is_ok_and(|links| links == 0) || self.access() == Access::Read {
            return Ok(());
        }
        self.change(|edit| reclaim::free_if_unheld(edit, ino.0))
    }

    /// Makes a regular file without a name (`O_TMPFILE`), held once. [`link`](Self::link) may give it a name. Owner and group
    /// are those of a file made in `dir`. `perm`: the low 12 bits of a mode.
    ///
    /// # Errors
    /// As [`create_file`](Self::create_file).
    pub fn create_unnamed(&self, who: &Caller, dir: Ino, perm: u16) -> Result<Attr> {
        let mut counting = HolderCount::new(self);
        let attr = self.change(|edit| {
            let node = namespace::create_unnamed(edit, who, dir.0, perm)?;
            counting.count(node.ino);
            node.attr()
        })?;
        self.shared.state.holds.allow_link(attr.ino.0);
        Ok(counting.keep(attr))
    }
}
