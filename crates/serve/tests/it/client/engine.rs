//! A service as an engine under test, beside the model.

use super::{Client, Handles, Node, ROOT};
use lanefs::{Allocate, Caller, RenameMode, Seek, SetAttr, XattrMode};
use lanefs::{Code, FileKind};
use lanefs_serve::{NewMode, NodeId, OpenFlags, Reply};
use lanefs_testkit::engine::{Engine, EngineError, EngineResult, Handle, Page, Stat};
use lanefs_testkit::volume::findings;
use rustix::io::Errno;

/// Most symbolic links that Linux follows in one path.
const MAX_LINKS: u32 = 40;
const O_NOATIME: OpenFlags = OpenFlags(0o1_000_000);

/// A service whose requests root sends.
pub(crate) struct ServedEngine {
    client: Client,
    handles: Handles,
    next: Handle,
}

fn engine<T>(reply: Reply<T>) -> EngineResult<T> {
    reply.map_err(|errno| EngineError::from(Errno::from_raw_os_error(errno.code())))
}

impl ServedEngine {
    pub(crate) fn new(client: Client) -> Self {
        ServedEngine { client, handles: Handles::new(), next: NodeId::ROOT.0 }
    }

    fn keep(&mut self, node: Node) -> Handle {
        self.next += 1;
        self.handles.insert(self.next, node);
        self.next
    }

    fn id(&self, handle: Handle) -> EngineResult<NodeId> {
        if handle == NodeId::ROOT.0 {
            return Ok(NodeId::ROOT);
        }
        self.handles.get(&handle).map(|node| node.id).ok_or_else(|| Code::StaleInode.into())
    }

    fn stat_of(&self, id: NodeId) -> EngineResult<Stat> {
        let entry = engine(self.client.0.getattr(id))?;
        Ok(Stat { id: entry.node.0, ..Stat::from(&entry.attr) })
    }

    /// The attributes in the reply to a request that has made an inode, whose reference is returned.
    fn made(&self, made: Reply<lanefs_serve::Entry>) -> EngineResult<Stat> {
        let entry = engine(made)?;
        drop(self.client.node(entry.node));
        Ok(Stat { id: entry.node.0, ..Stat::from(&entry.attr) })
    }

    /// Walks a path as the kernel does.
    fn walk(&self, path: &[u8], follow: bool) -> EngineResult<Node> {
        if path.is_empty() {
            return Err(Code::NotFound.into());
        }
        let mut rest: Vec<Vec<u8>> = Vec::new();
        let mut node = self.client.node(NodeId::ROOT);
        let push = |rest: &mut Vec<Vec<u8>>, path: &[u8]| {
            let is_dir = path.ends_with(b"/");
            let names = path.split(|byte| *byte == b'/').filter(|name| !name.is_empty());
            let mut names: Vec<Vec<u8>> = names.map(<[u8]>::to_vec).collect();
            if is_dir {
                names.push(b".".to_vec());
            }
            rest.extend(names.into_iter().rev());
        };
        push(&mut rest, path);
        let mut links = 0;
        while let Some(name) = rest.pop() {
            if self.stat_of(node.id)?.kind != FileKind::Directory {
                return Err(Code::NotDirectory.into());
            }
            if name == b"." {
                continue;
            }
            let (next, entry) = engine(self.client.lookup(node.id, &name))?;
            if entry.attr.kind == FileKind::Symlink && (follow || !rest.is_empty()) {
                links += 1;
                if links > MAX_LINKS {
                    return Err(Code::SymlinkLoop.into());
                }
                let target = engine(self.client.0.readlink(next.id))?;
                if target.starts_with(b"/") {
                    node = self.client.node(NodeId::ROOT);
                }
                push(&mut rest, &target);
                continue;
            }
            node = next;
        }
        Ok(node)
    }

    /// The node of a regular file. Other inodes get the codes that the model returns.
    fn content(&self, handle: Handle) -> EngineResult<NodeId> {
        let id = self.id(handle)?;
        match self.stat_of(id)?.kind {
            FileKind::File => Ok(id),
            FileKind::Directory => Err(Code::IsDirectory.into()),
            _ => Err(Code::Invalid.into()),
        }
    }
}

fn mode(kind: FileKind, perm: u16) -> NewMode {
    NewMode { mode: u32::from(perm | kind.mode()), umask: 0 }
}

impl Engine for ServedEngine {
    fn begin(&mut self) {
        self.handles.clear();
    }

    fn forget(&mut self, handle: Handle) {
        self.handles.remove(&handle);
    }

    fn root(&mut self) -> Handle {
        NodeId::ROOT.0
    }

    fn resolve(
        &mut self,
        _: &Caller,
        base: Option<Handle>,
        path: &[u8],
        follow: bool,
    ) -> EngineResult<Handle> {
        if base.is_some() && !path.starts_with(b"/") {
            return Err(Code::Unsupported.into());
        }
        let node = self.walk(path, follow)?;
        Ok(self.keep(node))
    }

    fn lookup(&mut self, _: &Caller, dir: Handle, name: &[u8]) -> EngineResult<Handle> {
        let (node, _) = engine(self.client.lookup(self.id(dir)?, name))?;
        Ok(self.keep(node))
    }

    fn stat(&mut self, handle: Handle) -> EngineResult<Stat> {
        self.stat_of(self.id(handle)?)
    }

    fn set(&mut self, _: &Caller, handle: Handle, set: &SetAttr) -> EngineResult<Stat> {
        let id = if set.size.is_some() { self.content(handle)? } else { self.id(handle)? };
        // A program without anything to change makes no call.
        if *set == SetAttr::default() {
            return self.stat_of(id);
        }
        let entry = engine(self.client.0.setattr(&ROOT, id, set, None))?;
        Ok(Stat { id: entry.node.0, ..Stat::from(&entry.attr) })
    }

    fn create(&mut self, _: &Caller, dir: Handle, name: &[u8], perm: u16) -> EngineResult<Stat> {
        const O_EXCL: i32 = 0o200;
        let mode = mode(FileKind::File, perm);
        self.made(self.client.0.create(&ROOT, self.id(dir)?, name, mode, O_EXCL))
    }

    fn mknod(
        &mut self,
        _: &Caller,
        dir: Handle,
        name: &[u8],
        kind: FileKind,
        perm: u16,
        rdev: u64,
    ) -> EngineResult<Stat> {
        if matches!(kind, FileKind::Directory | FileKind::Symlink) {
            return Err(Code::Invalid.into());
        }
        self.made(self.client.0.mknod(&ROOT, self.id(dir)?, name, mode(kind, perm), rdev as u32))
    }

    fn mkdir(&mut self, _: &Caller, dir: Handle, name: &[u8], perm: u16) -> EngineResult<Stat> {
        self.made(self.client.0.mkdir(&ROOT, self.id(dir)?, name, mode(FileKind::Directory, perm)))
    }

    fn symlink(&mut self, _: &Caller, dir: Handle, name: &[u8], target: &[u8]) -> EngineResult<Stat> {
        self.made(self.client.0.symlink(&ROOT, self.id(dir)?, name, target))
    }

    fn readlink(&mut self, handle: Handle) -> EngineResult<Vec<u8>> {
        engine(self.client.0.readlink(self.id(handle)?))
    }

    fn link(&mut self, _: &Caller, handle: Handle, dir: Handle, name: &[u8]) -> EngineResult<Stat> {
        self.made(self.client.0.link(self.id(handle)?, self.id(dir)?, name))
    }

    fn unlink(&mut self, _: &Caller, dir: Handle, name: &[u8]) -> EngineResult<()> {
        engine(self.client.0.unlink(self.id(dir)?, name))
    }

    fn rmdir(&mut self, _: &Caller, dir: Handle, name: &[u8]) -> EngineResult<()> {
        engine(self.client.0.rmdir(self.id(dir)?, name))
    }

    fn rename(
        &mut self,
        _: &Caller,
        from: (Handle, &[u8]),
        to: (Handle, &[u8]),
        mode: RenameMode,
    ) -> EngineResult<()> {
        let flags = match mode {
            RenameMode::Replace => 0,
            RenameMode::NoReplace => 1,
            RenameMode::Exchange => 2,
            RenameMode::Whiteout => 4,
            RenameMode::NoReplaceWhiteout => 5,
        };
        let (from, to) = ((self.id(from.0)?, from.1), (self.id(to.0)?, to.1));
        engine(self.client.0.rename(&ROOT, from, to, flags))
    }

    fn list(&mut self, _: &Caller, dir: Handle, cookie: u64, max: usize) -> EngineResult<Page> {
        // 0 and 1 are `.` and `..`, which a page of the model does not have.
        let page = engine(self.client.page(self.id(dir)?, cookie.max(2), max))?;
        Ok(page.into_iter().map(|listed| (listed.name, listed.kind, listed.next)).collect())
    }

    fn read(&mut self, _: &Caller, handle: Handle, offset: u64, buffer: &mut [u8]) -> EngineResult<usize> {
        let id = self.content(handle)?;
        engine(self.client.0.read(id, offset, buffer, O_NOATIME))
    }

    fn write(&mut self, _: &Caller, handle: Handle, offset: u64, data: &[u8]) -> EngineResult<usize> {
        let id = self.content(handle)?;
        let mut done = 0;
        while done < data.len() {
            done += engine(self.client.0.write(&ROOT, id, offset + done as u64, &data[done..], false))?;
        }
        Ok(done)
    }

    fn fallocate(
        &mut self,
        _: &Caller,
        handle: Handle,
        mode: Allocate,
        offset: u64,
        len: u64,
    ) -> EngineResult<()> {
        let id = self.content(handle)?;
        let mode = match mode {
            Allocate::Extend => 0,
            Allocate::KeepSize => 1,
            Allocate::PunchHole => 3,
            Allocate::ZeroRange => 16,
            Allocate::CollapseRange | Allocate::InsertRange => return Err(Code::Unsupported.into()),
        };
        engine(self.client.0.fallocate(&ROOT, id, (offset, len), mode))
    }

    fn seek(&mut self, handle: Handle, offset: u64, what: Seek) -> EngineResult<u64> {
        let id = self.content(handle)?;
        let whence = if what == Seek::Data { 3 } else { 4 };
        engine(self.client.0.seek(id, offset as i64, whence)).map(|offset| offset as u64)
    }

    fn getxattr(&mut self, _: &Caller, handle: Handle, name: &[u8]) -> EngineResult<Vec<u8>> {
        engine(self.client.0.getxattr(&ROOT, self.id(handle)?, name))
    }

    fn setxattr(
        &mut self,
        _: &Caller,
        handle: Handle,
        name: &[u8],
        value: &[u8],
        mode: XattrMode,
    ) -> EngineResult<()> {
        let flags = match mode {
            XattrMode::Set => 0,
            XattrMode::Create => 1,
            XattrMode::Replace => 2,
        };
        engine(self.client.0.setxattr(&ROOT, self.id(handle)?, name, value, flags, None))
    }

    fn listxattr(&mut self, handle: Handle) -> EngineResult<Vec<Vec<u8>>> {
        let list = engine(self.client.0.listxattr(&ROOT, self.id(handle)?))?;
        let names = list.split(|byte| *byte == 0).filter(|name| !name.is_empty());
        Ok(names.map(<[u8]>::to_vec).collect())
    }

    fn removexattr(&mut self, _: &Caller, handle: Handle, name: &[u8]) -> EngineResult<()> {
        engine(self.client.0.removexattr(self.id(handle)?, name))
    }

    fn mkdir_all(&mut self, path: &[u8], perm: u16) -> EngineResult<Stat> {
        let volume = engine(self.client.0.volume())?;
        let made = volume.mkdir_all(path, perm)?;
        let node = self.walk(path, true)?;
        let stat = self.stat_of(node.id)?;
        assert_eq!(stat.perm, made.perm);
        Ok(stat)
    }

    fn remove_all(&mut self, caller: &Caller, dir: Handle, name: &[u8]) -> EngineResult<()> {
        if name == b"." || name == b".." {
            return Err(Code::Invalid.into());
        }
        let top = self.lookup(caller, dir, name)?;
        if self.stat(top)?.kind == FileKind::Directory {
            for (below, _, _) in self.list(caller, top, 0, usize::MAX)? {
                self.remove_all(caller, top, &below)?;
            }
            return self.rmdir(caller, dir, name);
        }
        self.unlink(caller, dir, name)
    }

    fn check(&mut self) -> EngineResult<Vec<String>> {
        let volume = engine(self.client.0.volume())?;
        Ok(findings(&volume.check(false, &|_, _| {})?))
    }

    fn free_bytes(&mut self) -> Option<u64> {
        let stat = self.client.0.statfs().ok()?;
        Some(stat.free_blocks * stat.block_size)
    }
}
