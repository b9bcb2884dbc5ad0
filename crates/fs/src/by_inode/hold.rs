//! Holders: an inode outlives its last name until its last holder releases it.
//!
//! Holders are counted in memory only. A change that removes an inode's last name decides with the inode's
//! ownership record locked: it [lists](crate::names::orphans) the inode where a holder is counted, else it frees the
//! inode. A thread that wants to hold an inode first counts itself, and then reads the inode in an attempt
//! that tracks the record. So one of the two sees the other: the change sees the count, or the attempt
//! conflicts with the change, waits for its end, and finds the inode freed.
//!
//! The last release decrements first, then rechecks whether the inode has a name.

use super::{ops, reclaim};
use crate::attempt::Core;
use crate::attempt::edit::Edit;
use crate::files::inode::Inode;
use crate::files::write_plan::WritePlan;
use crate::names::{lookup, namespace};
use crate::running::volume::Volume;
use crate::vocabulary::error::{Outcome, Result};
use crate::vocabulary::options::Access;
use crate::vocabulary::types::{Attr, Caller, Ino};
use lanefs_format::inode as f;
use smallvec::SmallVec;

/// Counts holders during the attempts of an operation. A stale attempt may have found another inode than the
/// last one.
struct HolderCount<'v> {
    volume: &'v Volume,
    /// Inodes in the order in which they were found; only the last is the result.
    counted: SmallVec<[u64; 2]>,
}

impl<'v> HolderCount<'v> {
    fn new(volume: &'v Volume) -> Self {
        HolderCount { volume, counted: SmallVec::new() }
    }

    /// Counts a holder of the inode that this attempt found.
    fn count(&mut self, ino: u64) {
        if self.counted.last() != Some(&ino) {
            self.volume.shared.state.holds.add(ino);
            self.counted.push(ino);
        }
    }

    /// Keeps the last holder counted.
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
            // Only a damaged volume or a device fails here, and the next mount tries again.
            let _ = self.volume.release(Ino(ino), 1);
        }
    }
}

/// # Inodes that outlive their names
impl Volume {
    /// True while the inode has a holder.
    pub fn is_held(&self, ino: Ino) -> bool {
        self.shared.state.holds.has(ino.0)
    }

    /// Returns the inodes that have a holder, in no order. Others may be held or released meanwhile.
    pub fn held(&self) -> Vec<Ino> {
        self.shared.state.holds.list().into_iter().map(Ino).collect()
    }

    /// Holds an inode: it lives on without a name, as an open file does, until it is
    /// [released](Self::release). Holders are counted. They end with the process, and the next mount of the
    /// volume frees the inodes that they held.
    ///
    /// A caller that found an inode and holds it by number compares [`Attr::generation`], or uses
    /// [`lookup_held`](Self::lookup_held).
    ///
    /// # Errors
    /// [`Code::StaleInode`](lanefs_format::Code::StaleInode) when the inode is not in use.
    pub fn hold(&self, ino: Ino) -> Result<Attr> {
        let mut counting = HolderCount::new(self);
        counting.count(ino.0);
        let attr = self.view(|core| ops::getattr(core, ino))?;
        Ok(counting.keep(attr))
    }

    /// Looks a name up and holds its inode in one step: no other inode can take the number in between.
    ///
    /// # Errors
    /// As [`lookup`](Self::lookup).
    pub fn lookup_held(&self, caller: &Caller, dir: Ino, name: &[u8]) -> Result<Attr> {
        let mut counting = HolderCount::new(self);
        let attr = self.view(|core| {
            let ino = lookup::lookup(core, caller, dir.0, name)?.0;
            counting.count(ino);
            Inode::load(core, ino)?.attr()
        })?;
        Ok(counting.keep(attr))
    }

    /// Finds an inode, for which `find` calls its second argument, and holds it in one step.
    pub(crate) fn hold_found(
        &self,
        mut find: impl FnMut(&Core<'_>, &mut dyn FnMut(u64)) -> Outcome<Attr>,
    ) -> Result<Attr> {
        let mut counting = HolderCount::new(self);
        let attr = self.view(|core| find(core, &mut |ino| counting.count(ino)))?;
        Ok(counting.keep(attr))
    }

    /// Makes or changes an inode, for which `make` calls its last argument, and holds it in one step.
    pub(crate) fn hold_made<'d, T>(
        &self,
        mut make: impl FnMut(&mut Edit<'_>, &mut WritePlan<'d>, &mut dyn FnMut(u64)) -> Outcome<(Attr, T)>,
    ) -> Result<(Attr, T)> {
        let mut counting = HolderCount::new(self);
        let (attr, more) = self.change_data(|edit, plan| make(edit, plan, &mut |ino| counting.count(ino)))?;
        Ok((counting.keep(attr), more))
    }

    /// Removes `times` holders of an inode. The last release frees an inode that has no name.
    ///
    /// # Errors
    /// Those of a change. The inode has no holder then, and the next mount of the volume frees it.
    pub fn release(&self, ino: Ino, times: u64) -> Result<()> {
        if !self.shared.state.holds.remove(ino.0, times) {
            return Ok(());
        }
        // Nearly always the inode still has a name, or has another one.
        let links = self.view(|core| Ok(Inode::load(core, ino.0)?.view.get(f::LINKS)));
        if !links.is_ok_and(|links| links == 0) || self.access() == Access::Read {
            return Ok(());
        }
        self.change(|edit| reclaim::free_if_unheld(edit, ino.0))
    }

    /// Makes a regular file without a name (`O_TMPFILE`), held once. [`link`](Self::link) may give it a name.
    /// Owner and group are those of a file made in `dir`. `perm`: the low 12 bits of a mode.
    ///
    /// # Errors
    /// As [`create_file`](Self::create_file).
    pub fn create_unnamed(&self, caller: &Caller, dir: Ino, perm: u16) -> Result<Attr> {
        let mut counting = HolderCount::new(self);
        let attr = self.change(|edit| {
            let node = namespace::create_unnamed(edit, caller, dir.0, perm)?;
            counting.count(node.ino);
            node.attr()
        })?;
        self.shared.state.holds.allow_link(attr.ino.0);
        Ok(counting.keep(attr))
    }
}
