//! Creates and removes names: create, link, unlink, rmdir, and the calls built on them.

use super::permission::{SEARCH, WRITE, bound, demand};
use super::{Body, Content, Model};
use crate::engine::{EngineResult, Handle};
use lanefs::{Caller, SetAttr};
use lanefs_format::{Code, FileKind};
use std::collections::BTreeMap;

pub(super) fn is_dots(name: &[u8]) -> bool {
    name == b"." || name == b".."
}

impl Model {
    /// Rights for a new name in a directory; the name is free.
    pub(super) fn may_add(&self, caller: &Caller, dir: Handle, name: &[u8]) -> EngineResult<()> {
        match self.child(caller, dir, name) {
            Ok(_) => return Err(Code::Exists.into()),
            Err(error) if error.code != Code::NotFound => return Err(error),
            Err(_) => {}
        }
        demand(caller, self.node(dir)?, WRITE | SEARCH)
    }

    pub(super) fn make(
        &mut self,
        caller: &Caller,
        dir: Handle,
        name: &[u8],
        kind: FileKind,
        perm: u16,
        body: Body,
    ) -> EngineResult<Handle> {
        self.may_add(caller, dir, name)?;
        self.make_unchecked(caller, dir, name, kind, perm, body)
    }

    /// Makes an inode with a name that is free, and that the caller may make.
    pub(super) fn make_unchecked(
        &mut self,
        caller: &Caller,
        dir: Handle,
        name: &[u8],
        kind: FileKind,
        perm: u16,
        body: Body,
    ) -> EngineResult<Handle> {
        let (perm, uid, gid) = self.heritage(caller, dir, kind, perm)?;
        let node = self.fresh(kind, perm, uid, gid, body);
        let made = self.add(node);
        self.insert(dir, name, made)?;
        Ok(made)
    }

    /// Makes a device. Users may make a whiteout, which is the character device 0.
    pub(super) fn make_device(
        &mut self,
        caller: &Caller,
        dir: Handle,
        name: &[u8],
        (kind, rdev): (FileKind, u64),
        perm: u16,
    ) -> EngineResult<Handle> {
        self.may_add(caller, dir, name)?;
        if bound(caller).is_some() && (kind, rdev) != (FileKind::CharDevice, 0) {
            return Err(Code::NotPermitted.into());
        }
        let made = self.make_unchecked(caller, dir, name, kind, perm, Body::Special)?;
        self.node_mut(made)?.rdev = rdev;
        Ok(made)
    }

    pub(super) fn make_file(
        &mut self,
        caller: &Caller,
        dir: Handle,
        name: &[u8],
        perm: u16,
    ) -> EngineResult<Handle> {
        self.make(caller, dir, name, FileKind::File, perm, Body::File(Content::default()))
    }

    /// Makes a file with its content and attributes, or nothing.
    pub(super) fn make_whole(
        &mut self,
        caller: &Caller,
        dir: Handle,
        name: &[u8],
        content: &[u8],
        set: &SetAttr,
    ) -> EngineResult<Handle> {
        self.may_add(caller, dir, name)?;
        let (before, next) = (self.node(dir)?.clone(), self.next);
        let made = self.make_file(caller, dir, name, 0o600)?;
        let written = self.write_data(caller, made, 0, content);
        match written.and_then(|_| self.change(caller, made, set)) {
            Ok(()) => Ok(made),
            Err(error) => {
                self.nodes.remove(&made);
                self.nodes.insert(dir, before);
                self.next = next;
                Err(error)
            }
        }
    }

    pub(super) fn make_directory(
        &mut self,
        caller: &Caller,
        dir: Handle,
        name: &[u8],
        perm: u16,
    ) -> EngineResult<Handle> {
        let body = Body::Directory { entries: BTreeMap::new(), parent: dir };
        self.make(caller, dir, name, FileKind::Directory, perm, body)
    }

    pub(super) fn make_link(
        &mut self,
        caller: &Caller,
        dir: Handle,
        name: &[u8],
        target: &[u8],
    ) -> EngineResult<Handle> {
        if target.is_empty() {
            return Err(Code::NotFound.into());
        }
        if target.len() > lanefs_format::MAX_SYMLINK {
            return Err(Code::NameTooLong.into());
        }
        self.make(caller, dir, name, FileKind::Symlink, 0o777, Body::Link(target.to_vec()))
    }

    pub(super) fn add_name(
        &mut self,
        caller: &Caller,
        node: Handle,
        dir: Handle,
        name: &[u8],
    ) -> EngineResult<()> {
        self.node(node)?;
        self.may_add(caller, dir, name)?;
        if self.node(node)?.kind == FileKind::Directory {
            return Err(Code::NotPermitted.into());
        }
        self.node_mut(node)?.links += 1;
        self.changed(node);
        self.insert(dir, name, node)
    }

    pub(super) fn remove_name(&mut self, caller: &Caller, dir: Handle, name: &[u8]) -> EngineResult<()> {
        self.searched(caller, dir, b"-")?;
        if is_dots(name) {
            return Err(Code::IsDirectory.into());
        }
        let victim = self.child(caller, dir, name)?;
        self.may_remove(caller, dir, victim, false)?;
        self.detach(dir, name)?;
        self.drop_link(victim)
    }

    pub(super) fn remove_directory(&mut self, caller: &Caller, dir: Handle, name: &[u8]) -> EngineResult<()> {
        self.searched(caller, dir, b"-")?;
        match name {
            b"." => return Err(Code::Invalid.into()),
            b".." => return Err(Code::NotEmpty.into()),
            _ => {}
        }
        let victim = self.child(caller, dir, name)?;
        self.may_remove(caller, dir, victim, true)?;
        if self.entries(victim).is_some_and(|entries| !entries.is_empty()) {
            return Err(Code::NotEmpty.into());
        }
        self.detach(dir, name)?;
        self.nodes.remove(&victim);
        Ok(())
    }

    pub(super) fn remove_tree(&mut self, caller: &Caller, dir: Handle, name: &[u8]) -> EngineResult<()> {
        if self.entries(dir).is_none() {
            return Err(Code::NotDirectory.into());
        }
        if is_dots(name) {
            return Err(Code::Invalid.into());
        }
        let top = self.child(caller, dir, name)?;
        // A stack and not recursion, for trees deeper than the stack. Each directory is visited twice: full,
        // then empty.
        let mut pending = vec![(dir, name.to_vec(), top)];
        while let Some((parent, name, node)) = pending.pop() {
            match self.entries(node) {
                None => self.remove_name(caller, parent, &name)?,
                Some(entries) if entries.is_empty() => self.remove_directory(caller, parent, &name)?,
                Some(entries) => {
                    let below: Vec<_> = entries.iter().map(|(n, child)| (node, n.clone(), *child)).collect();
                    pending.push((parent, name, node));
                    pending.extend(below);
                }
            }
        }
        Ok(())
    }

    /// Inserts a name into a directory, and updates the directory's own link count.
    pub(super) fn insert(&mut self, dir: Handle, name: &[u8], child: Handle) -> EngineResult<()> {
        let is_directory = self.node(child)?.kind == FileKind::Directory;
        if let Body::Directory { parent, .. } = &mut self.node_mut(child)?.body {
            *parent = dir;
        }
        let node = self.node_mut(dir)?;
        if is_directory {
            node.links += 1;
        }
        if let Body::Directory { entries, .. } = &mut node.body {
            entries.insert(name.to_vec(), child);
        }
        self.modified(dir);
        Ok(())
    }

    /// Removes a name from a directory; its inode is left as it is.
    pub(super) fn detach(&mut self, dir: Handle, name: &[u8]) -> EngineResult<Handle> {
        let Body::Directory { entries, .. } = &mut self.node_mut(dir)?.body else {
            return Err(Code::NotDirectory.into());
        };
        let child = entries.remove(name).ok_or(Code::NotFound)?;
        if self.node(child)?.kind == FileKind::Directory {
            self.node_mut(dir)?.links -= 1;
        }
        self.modified(dir);
        Ok(child)
    }

    /// Subtracts one link of a file; the last one removes the file.
    pub(super) fn drop_link(&mut self, victim: Handle) -> EngineResult<()> {
        self.changed(victim);
        let node = self.node_mut(victim)?;
        node.links -= 1;
        if node.links == 0 {
            self.nodes.remove(&victim);
        }
        Ok(())
    }
}
