//! The model under the trait that every engine implements.

use super::permission::SEARCH;
use super::{Body, LastPage, Model, ROOT};
use crate::engine::{Engine, EngineResult, Handle, Page, Stamp, Stat};
use lanefs::{Allocate, Caller, RenameMode, Seek, SetAttr, XattrMode};
use lanefs_format::{Code, FileKind};
use std::ops::Bound;

impl Engine for Model {
    fn root(&mut self) -> Handle {
        ROOT
    }

    fn resolve(
        &mut self,
        caller: &Caller,
        base: Option<Handle>,
        path: &[u8],
        follow: bool,
    ) -> EngineResult<Handle> {
        self.walk(caller, base.unwrap_or(ROOT), path, follow)
    }

    fn lookup(&mut self, caller: &Caller, dir: Handle, name: &[u8]) -> EngineResult<Handle> {
        self.child(caller, dir, name)
    }

    fn stat(&mut self, handle: Handle) -> EngineResult<Stat> {
        self.stat_of(handle)
    }

    fn set(&mut self, caller: &Caller, handle: Handle, set: &SetAttr) -> EngineResult<Stat> {
        self.change(caller, handle, set)?;
        self.stat_of(handle)
    }

    fn create(&mut self, caller: &Caller, dir: Handle, name: &[u8], perm: u16) -> EngineResult<Stat> {
        let made = self.make_file(caller, dir, name, perm)?;
        self.stat_of(made)
    }

    fn create_whole(
        &mut self,
        caller: &Caller,
        dir: Handle,
        name: &[u8],
        content: &[u8],
        set: &SetAttr,
    ) -> EngineResult<Stat> {
        let made = self.make_whole(caller, dir, name, content, set)?;
        self.stat_of(made)
    }

    fn mknod(
        &mut self,
        caller: &Caller,
        dir: Handle,
        name: &[u8],
        kind: FileKind,
        perm: u16,
        rdev: u64,
    ) -> EngineResult<Stat> {
        let made = match kind {
            FileKind::File => self.make_file(caller, dir, name, perm)?,
            FileKind::Directory | FileKind::Symlink => return Err(Code::Invalid.into()),
            FileKind::CharDevice | FileKind::BlockDevice => {
                self.make_device(caller, dir, name, (kind, rdev), perm)?
            }
            _ => self.make(caller, dir, name, kind, perm, Body::Special)?,
        };
        self.stat_of(made)
    }

    fn mkdir(&mut self, caller: &Caller, dir: Handle, name: &[u8], perm: u16) -> EngineResult<Stat> {
        let made = self.make_directory(caller, dir, name, perm)?;
        self.stat_of(made)
    }

    fn symlink(&mut self, caller: &Caller, dir: Handle, name: &[u8], target: &[u8]) -> EngineResult<Stat> {
        let made = self.make_link(caller, dir, name, target)?;
        self.stat_of(made)
    }

    fn readlink(&mut self, handle: Handle) -> EngineResult<Vec<u8>> {
        match &self.node(handle)?.body {
            Body::Link(target) => Ok(target.clone()),
            _ => Err(Code::Invalid.into()),
        }
    }

    fn link(&mut self, caller: &Caller, handle: Handle, dir: Handle, name: &[u8]) -> EngineResult<Stat> {
        self.add_name(caller, handle, dir, name)?;
        self.stat_of(handle)
    }

    fn unlink(&mut self, caller: &Caller, dir: Handle, name: &[u8]) -> EngineResult<()> {
        self.remove_name(caller, dir, name)
    }

    fn rmdir(&mut self, caller: &Caller, dir: Handle, name: &[u8]) -> EngineResult<()> {
        self.remove_directory(caller, dir, name)
    }

    fn rename(
        &mut self,
        caller: &Caller,
        from: (Handle, &[u8]),
        to: (Handle, &[u8]),
        mode: RenameMode,
    ) -> EngineResult<()> {
        self.move_name(caller, from, to, mode)
    }

    /// The model's cookies are ranks in the order of names, so a listing must not be mixed with changes.
    fn list(&mut self, caller: &Caller, dir: Handle, cookie: u64, max: usize) -> EngineResult<Page> {
        let Body::Directory { entries, .. } = self.listed(caller, dir)? else {
            return Err(Code::NotDirectory.into());
        };
        // The page after the last one goes on from its name: to count the names again at each page would take
        // the square of a directory's names.
        let last = self.last_page.as_ref().filter(|last| last.dir == dir && last.cookie == cookie);
        let (from, skipped) = match last {
            Some(last) => (Bound::Excluded(&last.name[..]), 0),
            None => (Bound::Unbounded, cookie as usize),
        };
        let mut page = Vec::new();
        let rest = entries.range::<[u8], _>((from, Bound::Unbounded)).skip(skipped).take(max);
        for (rank, (name, child)) in (cookie + 1..).zip(rest) {
            page.push((name.clone(), self.node(*child)?.kind, rank));
        }
        self.last_page =
            page.last().map(|(name, _, cookie)| LastPage { dir, cookie: *cookie, name: name.clone() });
        self.node_mut(dir)?.atime = Stamp::UNKNOWN;
        Ok(page)
    }

    fn read(
        &mut self,
        caller: &Caller,
        handle: Handle,
        offset: u64,
        buffer: &mut [u8],
    ) -> EngineResult<usize> {
        self.read_data(caller, handle, offset, buffer)
    }

    fn write(&mut self, caller: &Caller, handle: Handle, offset: u64, data: &[u8]) -> EngineResult<usize> {
        self.write_data(caller, handle, offset, data)
    }

    fn fallocate(
        &mut self,
        caller: &Caller,
        handle: Handle,
        mode: Allocate,
        offset: u64,
        len: u64,
    ) -> EngineResult<()> {
        self.allocate(caller, handle, mode, offset, len)
    }

    fn seek(&mut self, handle: Handle, offset: u64, what: Seek) -> EngineResult<u64> {
        self.seek_data(handle, offset, what)
    }

    fn getxattr(&mut self, caller: &Caller, handle: Handle, name: &[u8]) -> EngineResult<Vec<u8>> {
        self.xattr(caller, handle, name)
    }

    fn setxattr(
        &mut self,
        caller: &Caller,
        handle: Handle,
        name: &[u8],
        value: &[u8],
        mode: XattrMode,
    ) -> EngineResult<()> {
        self.set_xattr(caller, handle, name, value, mode)
    }

    fn listxattr(&mut self, handle: Handle) -> EngineResult<Vec<Vec<u8>>> {
        self.xattr_names(handle)
    }

    fn removexattr(&mut self, caller: &Caller, handle: Handle, name: &[u8]) -> EngineResult<()> {
        self.remove_xattr(caller, handle, name)
    }

    fn mkdir_all(&mut self, path: &[u8], perm: u16) -> EngineResult<Stat> {
        let made = self.make_all(path, perm)?;
        self.stat_of(made)
    }

    fn remove_all(&mut self, caller: &Caller, dir: Handle, name: &[u8]) -> EngineResult<()> {
        super::permission::demand(caller, self.node(dir)?, SEARCH)?;
        self.remove_tree(caller, dir, name)
    }

    /// The model's own invariants: every inode has the link count that its names give it, and none is lost.
    fn check(&mut self) -> EngineResult<Vec<String>> {
        let mut findings = Vec::new();
        let mut names = std::collections::HashMap::from([(ROOT, 2u32)]);
        for (handle, node) in &self.nodes {
            let Body::Directory { entries, .. } = &node.body else { continue };
            for child in entries.values() {
                let is_directory = self.kind(*child) == Some(FileKind::Directory);
                *names.entry(*child).or_default() += if is_directory { 2 } else { 1 };
                if is_directory {
                    *names.entry(*handle).or_default() += 1;
                }
            }
        }
        for (handle, node) in &self.nodes {
            if names.get(handle) != Some(&node.links) {
                findings.push(format!("link-count: inode {handle} has {} links", node.links));
            }
        }
        if names.len() != self.nodes.len() {
            findings.push("reachable: a name has no inode".to_owned());
        }
        Ok(findings)
    }
}
