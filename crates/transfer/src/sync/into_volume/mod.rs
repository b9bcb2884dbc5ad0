//! The differences, applied to a volume.
//!
//! A file gets its name when it is complete: until then the old file has it, or none. So a reader never sees
//! half of a file, and whatever ends a sync leaves whole files. A file that has a name under which it waits
//! (`.lanefs-*.tmp`) is removed where the sync ends early; after a kill or a power cut it may stay.

mod attributes;
mod making;

use super::difference::Aspects;
use super::effect::{Complete, Effect, Found, Made, MakeRoom, Renaming, There};
use super::failure::{Failure, report};
use super::node::{Name, Node, Xattrs};
use super::tree::{Buffers, Source};
use super::volume_tree::{VolumeDir, VolumeTree, ino};
use crate::on_host::hostdir::FileId;
use crate::running::commits::{Commits, LARGE_BYTES};
use crate::running::job::{TransferJob, count};
use lanefs::bulk::Change;
use lanefs::{Code, FileKind, FileSystem, Ino, RenameMode, SetAttr};
use rustix::io::Errno;

/// A volume that follows the tree `a`.
pub(super) struct IntoVolume<'v, A> {
    pub(super) job: &'v TransferJob<'v>,
    pub(super) volume: &'v dyn FileSystem,
    pub(super) a: &'v A,
    pub(super) commits: &'v Commits<'v>,
}

/// The identity of a file of the volume.
fn id(ino: Ino) -> FileId {
    FileId { dev: 0, ino: ino.0 }
}

/// The error of a directory that was to be made and was not: there is no place for its names.
fn no_place() -> Failure {
    Failure::Volume(Code::NotFound.into())
}

impl<A: Source> IntoVolume<'_, A> {
    fn failed(&self, path: Vec<u8>, failure: Failure) {
        report(self.job, path, "cannot copy", failure);
    }

    /// Reports a failure of a step; true where there is none.
    fn done(&self, path: &dyn Fn() -> Vec<u8>, step: Result<(), Failure>) -> bool {
        step.map_err(|failure| self.failed(path(), failure)).is_ok()
    }

    /// Removes an empty directory.
    fn rmdir(&self, dir: Ino, name: &[u8]) -> lanefs::Result<()> {
        let removed = self.volume.apply(dir, &[Change::Rmdir { path: name }])?;
        match removed.first().map(|removed| removed.code) {
            None | Some(Code::Success) => Ok(()),
            Some(code) => Err(code.into()),
        }
    }

    fn try_set(
        &self,
        buffers: &mut Buffers,
        found: &Found<'_, A>,
        old: &Node,
        aspects: Aspects,
    ) -> Result<(), Failure> {
        if aspects.has(Aspects::ACL | Aspects::XATTR) {
            let xattrs = self.xattrs_of_name(buffers, found)?;
            self.set_xattrs(ino(old), &xattrs, Some(old), found.path)?;
        }
        self.volume.setattr(ino(old), attributes_of(found.node))?;
        Ok(())
    }

    /// Reads the extended attributes of a name: of a regular file through a descriptor of the same inode, so
    /// that they belong to its other attributes. A caller that may not read the file has them by its name.
    fn xattrs_of_name(&self, buffers: &mut Buffers, found: &Found<'_, A>) -> Result<Xattrs, Failure> {
        if found.node.meta.kind == FileKind::File {
            match self.a.open(found.dir, found.name, found.node) {
                Ok((file, node)) if node.meta.id == found.node.meta.id => {
                    return self.a.xattrs_of(buffers, &file);
                }
                Ok(_) => return Err(Errno::STALE.into()),
                Err(Failure::Host(Errno::ACCESS)) => {}
                Err(failure) => return Err(failure),
            }
        }
        self.a.xattrs(buffers, found.dir, Some(found.name), found.node)
    }

    /// Sets the attributes of a directory, of which all names are done.
    fn try_complete(
        &self,
        buffers: &mut Buffers,
        dir: &Complete<'_, A, VolumeTree<'_>>,
    ) -> Result<(), Failure> {
        let ((from, node), (to, old)) = (dir.a, dir.b);
        if node.is_implied && old.is_some() {
            return Ok(());
        }
        let has_other_lists = old.is_none() || dir.aspects.has(Aspects::ACL | Aspects::XATTR);
        if has_other_lists {
            let xattrs = self.a.xattrs(buffers, from, None, node)?;
            self.set_xattrs(to.ino, &xattrs, old, dir.path)?;
        }
        if old.is_none() || dir.is_touched || !dir.aspects.is_empty() {
            self.volume.setattr(to.ino, node.meta.set_attr())?;
        }
        Ok(())
    }
}

impl<A: Source> Effect<A, VolumeTree<'_>> for IntoVolume<'_, A> {
    const CHANGES: bool = true;

    fn put(
        &self,
        buffers: &mut Buffers,
        found: &Found<'_, A>,
        to: Option<&VolumeDir>,
        there: There,
        make_room: MakeRoom<'_>,
    ) -> Option<Made<VolumeDir>> {
        let made = with_room(buffers, make_room, |buffers| {
            let _making = (found.node.meta.size <= LARGE_BYTES).then(|| self.commits.making());
            let made = self.make(buffers, found, *to.ok_or_else(no_place)?, there)?;
            count(made.1);
            Ok(made.0)
        });
        match made {
            Ok(made) => Some(made),
            Err(failure) => {
                self.failed((found.path)(), failure);
                None
            }
        }
    }

    fn rename(
        &self,
        buffers: &mut Buffers,
        renaming: &Renaming<'_, VolumeTree<'_>>,
        make_room: MakeRoom<'_>,
    ) -> bool {
        let (dir, old) = renaming.from;
        let renamed = with_room(buffers, make_room, |_| {
            let _making = self.commits.making();
            let to = renaming.to.ok_or_else(no_place)?;
            let (old, mode) = (old.name.to_bytes(), RenameMode::NoReplace);
            Ok(self.volume.rename(dir.ino, old, to.ino, renaming.name, mode)?)
        });
        if let Err(failure) = renamed {
            report(self.job, (renaming.path)(), "cannot rename in the volume", failure);
            return false;
        }
        true
    }

    fn link(
        &self,
        found: &Found<'_, A>,
        to: Option<&VolumeDir>,
        first: Option<FileId>,
        there: There,
    ) -> bool {
        let _making = self.commits.making();
        let linked = match (to, first) {
            (Some(to), Some(first)) => self.make_link(found, *to, Ino(first.ino), there),
            _ => Err(no_place()),
        };
        let is_linked = self.done(found.path, linked);
        if is_linked {
            count(&self.job.counters.hard_links);
        }
        is_linked
    }

    fn set(
        &self,
        buffers: &mut Buffers,
        found: &Found<'_, A>,
        _: &VolumeDir,
        old: &Node,
        aspects: Aspects,
    ) -> bool {
        let _making = self.commits.making();
        let set = self.try_set(buffers, found, old, aspects);
        self.done(found.path, set)
    }

    fn remove(&self, from: &VolumeDir, name: &Name, path: &dyn Fn() -> Vec<u8>) -> bool {
        let _making = self.commits.making();
        let removed = match name.is_dir() {
            true => self.rmdir(from.ino, name.name.to_bytes()),
            false => self.volume.unlink(from.ino, name.name.to_bytes()),
        };
        if let Err(error) = removed {
            self.job.volume_refused(path(), "cannot remove from the volume", error);
            return false;
        }
        true
    }

    fn complete(&self, buffers: &mut Buffers, dir: &Complete<'_, A, VolumeTree<'_>>) -> bool {
        let _making = self.commits.making();
        let completed = self.try_complete(buffers, dir);
        self.done(dir.path, completed)
    }

    fn between(&self) {
        self.commits.commit_if_due(self.job);
    }
}

/// Tries a change once more if the volume is full and names that are to be removed make room.
fn with_room<T>(
    buffers: &mut Buffers,
    make_room: MakeRoom<'_>,
    change: impl Fn(&mut Buffers) -> Result<T, Failure>,
) -> Result<T, Failure> {
    match change(buffers) {
        Err(Failure::Volume(error)) if error.code() == Code::NoSpace && make_room(buffers) => change(buffers),
        changed => changed,
    }
}

/// The attributes that a file of the volume gets. Links have no permissions of their own on Linux.
fn attributes_of(node: &Node) -> SetAttr {
    let set = node.meta.set_attr();
    if node.meta.kind == FileKind::Symlink { SetAttr { perm: None, ..set } } else { set }
}
