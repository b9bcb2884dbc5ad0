//! The changes of a batch in their order, each on the names and inodes of the plan.

use super::{BatchPlan, Object, SplitPath, paths};
use crate::attempt::Core;
use crate::batches::bulk::change::Change;
use crate::files::inode::Inode;
use crate::names::dir;
use crate::vocabulary::error::Outcome;
use crate::vocabulary::path;
use crate::vocabulary::types::RenameMode;
use lanefs_format::{Code, FileKind, INODE_DEFAULT_ACL, inode as f};
use lanefs_store::Fault;

const SETGID: u16 = 0o2000;

/// The reason why a change is not made.
enum Stop {
    /// It fails with this code.
    Fails(Code),
    /// Batches cannot contain it: its path has symbolic links, or it inherits an access control list.
    Obstacle,
    /// The attempt cannot continue.
    Fault(Fault),
}

impl From<Fault> for Stop {
    fn from(fault: Fault) -> Self {
        Stop::Fault(fault)
    }
}

impl From<Code> for Stop {
    fn from(code: Code) -> Self {
        Stop::Fails(code)
    }
}

impl<'c> BatchPlan<'c> {
    /// Plans the changes in their order, up to one that batches cannot contain. Returns the number planned.
    pub(in crate::batches::bulk) fn go_through(
        &mut self,
        core: &Core<'_>,
        changes: &[Change<'c>],
    ) -> Outcome<usize> {
        let mut at = 0;
        for (number, change) in changes.iter().enumerate() {
            let done = match *change {
                Change::Create { perm, data, .. } => self.make(core, at, FileKind::File, perm, data),
                Change::Mkdir { perm, .. } => self.make(core, at, FileKind::Directory, perm, b""),
                Change::MkdirAll { perm, .. } => self.make_all(core, at, perm),
                Change::Unlink { .. } => self.unlink(core, at),
                Change::Rmdir { .. } => self.rmdir(core, at),
                Change::Rename { mode, .. } => self.rename(core, at, mode),
            };
            at += paths(change).iter().flatten().count();
            self.answers.push(match done {
                Ok(object) => (Code::Success, object),
                Err(Stop::Fails(code)) => (code, None),
                Err(Stop::Obstacle) => return Ok(number),
                Err(Stop::Fault(fault)) => return Err(fault),
            });
        }
        Ok(changes.len())
    }

    /// The directory of a path's last name, where it is known and no directory has moved since.
    fn known_parent(&self, path: &SplitPath<'c>) -> Option<u32> {
        let (dir, moved) = self.parents[path.parent as usize].found?;
        (moved == self.moved).then_some(dir)
    }

    /// The binding of a path's last name, in its directory.
    fn last_binding(&mut self, core: &Core<'_>, path: &SplitPath<'c>, dir: u32) -> Outcome<u32> {
        match path.binding {
            Some(binding) if self.moved == 0 => Ok(binding),
            _ => self.binding(core, dir, path.name),
        }
    }

    /// The directory of a path's last name, and that name's binding.
    fn walk(&mut self, core: &Core<'_>, at: usize) -> Result<(u32, u32), Stop> {
        let path = self.paths[at];
        let dir = match self.known_parent(&path) {
            Some(dir) => dir,
            None => {
                let dir = self.enter(core, self.parents[path.parent as usize].path)?;
                self.parents[path.parent as usize].found = Some((dir, self.moved));
                dir
            }
        };
        Ok((dir, self.last_binding(core, &path, dir)?))
    }

    /// The directory with this path.
    fn enter(&mut self, core: &Core<'_>, path: &'c [u8]) -> Result<u32, Stop> {
        let (mut dir, mut rest) = (self.start(path), path);
        loop {
            let object = &self.objects[dir as usize];
            if !object.is_directory() {
                return Err(if object.kind == FileKind::Symlink {
                    Stop::Obstacle
                } else {
                    Code::NotDirectory.into()
                });
            }
            // A path may begin in a directory that was removed.
            if object.is_gone {
                return Err(Stop::Obstacle);
            }
            let Some((name, more)) = path::split_first(rest) else { return Ok(dir) };
            let binding = self.binding(core, dir, name)?;
            dir = self.bindings[binding as usize].now.ok_or(Code::ComponentNotFound)?;
            rest = more;
        }
    }

    /// Records a new inode in a directory. One that inherits an access control list is made alone.
    fn made(&mut self, core: &Core<'_>, dir: u32, binding: u32, new: Object<'c>) -> Result<u32, Stop> {
        let (mut perm, mut gid) = (new.perm, 0);
        if let Some(group) = self.inherited_group(core, dir)? {
            gid = group;
            perm |= if new.is_directory() { SETGID } else { 0 };
        }
        let number = self.objects.len() as u32;
        self.objects.push(Object { perm, gid, ..new });
        self.bindings[binding as usize].now = Some(number);
        self.count(dir, 1);
        Ok(number)
    }

    /// The group that new inodes inherit from a directory.
    fn inherited_group(&self, core: &Core<'_>, dir: u32) -> Result<Option<u32>, Stop> {
        let object = &self.objects[dir as usize];
        if object.ino == 0 {
            return Ok((object.perm & SETGID != 0).then_some(object.gid));
        }
        let node = Inode::directory(core, object.ino)?;
        if node.flags() & INODE_DEFAULT_ACL != 0 {
            return Err(Stop::Obstacle);
        }
        Ok((node.mode() & SETGID != 0).then(|| node.view.get(f::GID)))
    }

    /// Records a change of a directory's content.
    fn count(&mut self, dir: u32, by: i64) {
        let object = &mut self.objects[dir as usize];
        object.entries += by;
        object.is_stamped = true;
    }

    fn make(
        &mut self,
        core: &Core<'_>,
        at: usize,
        kind: FileKind,
        perm: u16,
        data: &'c [u8],
    ) -> Result<Option<u32>, Stop> {
        let (dir, binding) = self.walk(core, at)?;
        if self.bindings[binding as usize].now.is_some() {
            return Err(Code::Exists.into());
        }
        let new = Object { perm: perm & 0o7777, data, ..Object::there(kind, 0, dir) };
        Ok(Some(self.made(core, dir, binding, new)?))
    }

    fn make_all(&mut self, core: &Core<'_>, at: usize, perm: u16) -> Result<Option<u32>, Stop> {
        let path = self.paths[at];
        let dir = match self.known_parent(&path) {
            Some(dir) => dir,
            None => {
                let above = self.parents[path.parent as usize].path;
                let (mut dir, mut rest) = (self.start(above), above);
                while let Some((name, more)) = path::split_first(rest) {
                    let binding = self.binding_in(core, dir, name)?;
                    dir = self.make_where_missing(core, dir, binding, perm)?;
                    rest = more;
                }
                if self.objects[dir as usize].is_gone {
                    return Err(Stop::Obstacle);
                }
                self.parents[path.parent as usize].found = Some((dir, self.moved));
                dir
            }
        };
        let binding = self.last_binding(core, &path, dir)?;
        Ok(Some(self.make_where_missing(core, dir, binding, perm)?))
    }

    /// The binding of a name in a directory that may have been removed.
    fn binding_in(&mut self, core: &Core<'_>, dir: u32, name: &'c [u8]) -> Result<u32, Stop> {
        if self.objects[dir as usize].is_gone {
            return Err(Stop::Obstacle);
        }
        Ok(self.binding(core, dir, name)?)
    }

    /// The directory in a binding, which is made where the binding is empty.
    fn make_where_missing(
        &mut self,
        core: &Core<'_>,
        dir: u32,
        binding: u32,
        perm: u16,
    ) -> Result<u32, Stop> {
        match self.bindings[binding as usize].now {
            Some(found) => match self.objects[found as usize].kind {
                FileKind::Directory => Ok(found),
                FileKind::Symlink => Err(Stop::Obstacle),
                _ => Err(Code::NotDirectory.into()),
            },
            None => {
                let new = Object { perm: perm & 0o7777, ..Object::there(FileKind::Directory, 0, dir) };
                self.made(core, dir, binding, new)
            }
        }
    }

    fn unlink(&mut self, core: &Core<'_>, at: usize) -> Result<Option<u32>, Stop> {
        let (dir, binding) = self.walk(core, at)?;
        let found = self.bindings[binding as usize].now.ok_or(Code::NotFound)?;
        if self.objects[found as usize].is_directory() {
            return Err(Code::IsDirectory.into());
        }
        self.bindings[binding as usize].now = None;
        self.count(dir, -1);
        self.lose_name(found);
        Ok(None)
    }

    fn rmdir(&mut self, core: &Core<'_>, at: usize) -> Result<Option<u32>, Stop> {
        let (dir, binding) = self.walk(core, at)?;
        let found = self.bindings[binding as usize].now.ok_or(Code::NotFound)?;
        if !self.objects[found as usize].is_directory() {
            return Err(Code::NotDirectory.into());
        }
        if !self.is_empty(core, found)? {
            return Err(Code::NotEmpty.into());
        }
        self.bindings[binding as usize].now = None;
        self.count(dir, -1);
        self.lose_name(found);
        Ok(None)
    }

    fn lose_name(&mut self, found: u32) {
        let object = &mut self.objects[found as usize];
        self.moved += u32::from(object.is_directory());
        if object.ino == 0 || object.is_directory() {
            object.is_gone = true;
        } else {
            object.lost += 1;
        }
    }

    fn is_empty(&self, core: &Core<'_>, dir: u32) -> Outcome<bool> {
        let object = &self.objects[dir as usize];
        if object.ino == 0 || object.entries > 0 {
            return Ok(object.entries == 0);
        }
        let fewer = object.entries.unsigned_abs();
        Ok(dir::count(core, &Inode::directory(core, object.ino)?, fewer)? == fewer)
    }

    /// Returns true where a directory is another one, or an ancestor of it.
    fn is_above(&self, dir: u32, below: u32) -> bool {
        let mut at = below;
        // There is no cycle, but a damaged volume may have led to one.
        for _ in 0..=self.objects.len() {
            if at == dir {
                return true;
            }
            let parent = self.objects[at as usize].parent;
            if parent == at {
                return false;
            }
            at = parent;
        }
        true
    }

    fn rename(&mut self, core: &Core<'_>, at: usize, mode: RenameMode) -> Result<Option<u32>, Stop> {
        let (from_dir, from) = self.walk(core, at)?;
        let (to_dir, to) = self.walk(core, at + 1)?;
        let moved = self.bindings[from as usize].now.ok_or(Code::NotFound)?;
        let other = self.bindings[to as usize].now;
        if mode == RenameMode::NoReplace && other.is_some() {
            return Err(Code::Exists.into());
        }
        let is_directory = self.objects[moved as usize].is_directory();
        if is_directory && self.is_above(moved, to_dir) {
            return Err(Code::Invalid.into());
        }
        if let Some(other) = other {
            let (object, with) = (&self.objects[moved as usize], &self.objects[other as usize]);
            if with.is_directory() && self.is_above(other, from_dir) {
                return Err(Code::NotEmpty.into());
            }
            if moved == other || object.ino != 0 && object.ino == with.ino {
                return Ok(None);
            }
            match (is_directory, with.is_directory()) {
                (true, false) => return Err(Code::NotDirectory.into()),
                (false, true) => return Err(Code::IsDirectory.into()),
                (true, true) if !self.is_empty(core, other)? => return Err(Code::NotEmpty.into()),
                _ => {}
            }
            self.lose_name(other);
        }
        self.bindings[from as usize].now = None;
        self.bindings[to as usize].now = Some(moved);
        self.count(from_dir, -1);
        self.count(to_dir, i64::from(other.is_none()));
        let object = &mut self.objects[moved as usize];
        object.is_moved = true;
        if is_directory {
            object.parent = to_dir;
            self.moved += 1;
        }
        Ok(None)
    }
}
