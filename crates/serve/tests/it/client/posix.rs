//! The system calls of a program, by requests.

use super::{Client, Node};
use lanefs::{FileKind, SetAttr};
use lanefs_serve::{Groups, NewMode, NodeId, OpenFlags, Reply, Requester};
use lanefs_testkit::engine::Stat;
use lanefs_testkit::posix::{PosixFs, User};
use rustix::fs::{FallocateFlags, OFlags, RenameFlags, SeekFrom, XattrFlags};
use rustix::io::{Errno, Result};

/// Entries of a reply to a listing: few, so that names change between two replies.
const PAGE: usize = 40;
/// The mask of the kernel's caller.
const UMASK: u32 = 0o022;

/// An open file.
pub(crate) struct Open {
    node: Node,
    flags: OFlags,
}

impl Open {
    fn flags(&self) -> OpenFlags {
        OpenFlags(self.flags.bits() as i32)
    }
}

fn requester(by: &User) -> Requester<'static> {
    Requester { uid: by.uid, gid: by.gid, groups: Groups::Listed(by.groups) }
}

fn host<T>(reply: Reply<T>) -> Result<T> {
    reply.map_err(|errno| Errno::from_raw_os_error(errno.code()))
}

fn mode(kind: FileKind, mode: u32) -> NewMode {
    NewMode { mode: mode | u32::from(kind.mode()), umask: UMASK }
}

impl Client {
    fn create(&self, by: &User, path: &str, flags: OFlags, perm: u32) -> Reply<Node> {
        let (dir, name) = self.parent(path)?;
        let mode = mode(FileKind::File, perm);
        let made = self.0.create(&requester(by), dir.id, name, mode, flags.bits() as i32)?;
        Ok(self.node(made.node))
    }

    fn stat_of(&self, node: NodeId) -> Result<Stat> {
        host(self.0.getattr(node)).map(|entry| Stat { id: entry.node.0, ..Stat::from(&entry.attr) })
    }
}

impl PosixFs for Client {
    type File = Open;

    fn open(&self, by: &User, path: &str, flags: OFlags, mode: u32) -> Result<Open> {
        let creates = flags.contains(OFlags::CREATE);
        let node = match self.walk(path) {
            Ok(_) if creates && flags.contains(OFlags::EXCL) => return Err(Errno::EXIST),
            Err(errno) if creates && errno == lanefs_serve::Errno::ENOENT => {
                match self.create(by, path, flags, mode) {
                    // The name exists by now: the kernel looks it up once more.
                    Err(lanefs_serve::Errno::ESTALE) => host(self.walk(path))?,
                    made => host(made)?,
                }
            }
            walked => host(walked)?,
        };
        if flags.contains(OFlags::TRUNC) {
            let set = SetAttr { size: Some(0), ..SetAttr::default() };
            host(self.0.setattr(&requester(by), node.id, &set, None))?;
        }
        self.0.file_opened(node.id, OpenFlags(flags.bits() as i32));
        Ok(Open { node, flags })
    }

    fn read(&self, file: &Open, offset: u64, len: usize) -> Result<Vec<u8>> {
        let mut bytes = vec![0; len];
        let read = host(self.0.read(file.node.id, offset, &mut bytes, file.flags()))?;
        bytes.truncate(read);
        Ok(bytes)
    }

    fn write(&self, by: &User, file: &Open, offset: u64, data: &[u8]) -> Result<usize> {
        host(self.0.write(&requester(by), file.node.id, offset, data, by.uid != 0))
    }

    fn append(&self, by: &User, file: &Open, data: &[u8]) -> Result<usize> {
        assert!(file.flags.contains(OFlags::APPEND));
        let end = host(self.0.getattr(file.node.id))?.attr.size;
        self.write(by, file, end, data)
    }

    fn fstat(&self, file: &Open) -> Result<Stat> {
        self.stat_of(file.node.id)
    }

    fn fallocate(&self, by: &User, file: &Open, flags: FallocateFlags, offset: u64, len: u64) -> Result<()> {
        host(self.0.fallocate(&requester(by), file.node.id, (offset, len), flags.bits() as i32))
    }

    fn seek(&self, file: &Open, from: SeekFrom) -> Result<u64> {
        let (offset, whence) = match from {
            SeekFrom::Data(offset) => (offset, 3),
            SeekFrom::Hole(offset) => (offset, 4),
            _ => return Err(Errno::INVAL),
        };
        host(self.0.seek(file.node.id, offset as i64, whence)).map(|offset| offset as u64)
    }

    fn copy_range(&self, by: &User, from: (&Open, u64), to: (&Open, u64), len: usize) -> Result<usize> {
        let (from, to) = ((from.0.node.id, from.1), (to.0.node.id, to.1));
        host(self.0.copy_range(&requester(by), from, to, len as u64))
    }

    fn stat(&self, path: &str) -> Result<Stat> {
        let node = host(self.walk(path))?;
        self.stat_of(node.id)
    }

    fn set(&self, by: &User, path: &str, set: &SetAttr) -> Result<()> {
        let node = host(self.walk(path))?;
        host(self.0.setattr(&requester(by), node.id, set, None)).map(drop)
    }

    fn mkdir(&self, by: &User, path: &str, perm: u32) -> Result<()> {
        let (dir, name) = host(self.parent(path))?;
        let mode = mode(FileKind::Directory, perm);
        host(self.0.mkdir(&requester(by), dir.id, name, mode)).map(|made| drop(self.node(made.node)))
    }

    fn mknod(&self, by: &User, path: &str, kind: FileKind, perm: u32, rdev: u64) -> Result<()> {
        let (dir, name) = host(self.parent(path))?;
        let made = self.0.mknod(&requester(by), dir.id, name, mode(kind, perm), rdev as u32);
        host(made).map(|made| drop(self.node(made.node)))
    }

    fn symlink(&self, by: &User, target: &str, path: &str) -> Result<()> {
        let (dir, name) = host(self.parent(path))?;
        let made = self.0.symlink(&requester(by), dir.id, name, target.as_bytes());
        host(made).map(|made| drop(self.node(made.node)))
    }

    fn readlink(&self, path: &str) -> Result<Vec<u8>> {
        let node = host(self.walk(path))?;
        host(self.0.readlink(node.id))
    }

    fn link(&self, from: &str, to: &str) -> Result<()> {
        let (node, (dir, name)) = (host(self.walk(from))?, host(self.parent(to))?);
        host(self.0.link(node.id, dir.id, name)).map(|made| drop(self.node(made.node)))
    }

    fn unlink(&self, path: &str) -> Result<()> {
        let (dir, name) = host(self.parent(path))?;
        host(self.0.unlink(dir.id, name))
    }

    fn rmdir(&self, path: &str) -> Result<()> {
        let (dir, name) = host(self.parent(path))?;
        host(self.0.rmdir(dir.id, name))
    }

    fn rename(&self, from: &str, to: &str, flags: RenameFlags) -> Result<()> {
        let ((dir, name), (new_dir, new_name)) = (host(self.parent(from))?, host(self.parent(to))?);
        host(self.0.rename(&requester(&User::ROOT), (dir.id, name), (new_dir.id, new_name), flags.bits()))
    }

    fn setxattr(&self, by: &User, path: &str, name: &str, value: &[u8], flags: XattrFlags) -> Result<()> {
        let node = host(self.walk(path))?;
        let flags = flags.bits() as i32;
        host(self.0.setxattr(&requester(by), node.id, name.as_bytes(), value, flags, None))
    }

    fn getxattr(&self, by: &User, path: &str, name: &str) -> Result<Vec<u8>> {
        let node = host(self.walk(path))?;
        host(self.0.getxattr(&requester(by), node.id, name.as_bytes()))
    }

    fn listxattr(&self, by: &User, path: &str) -> Result<Vec<String>> {
        let node = host(self.walk(path))?;
        let list = host(self.0.listxattr(&requester(by), node.id))?;
        let names = list.split(|byte| *byte == 0).filter(|name| !name.is_empty());
        Ok(names.map(|name| String::from_utf8_lossy(name).into_owned()).collect())
    }

    fn removexattr(&self, path: &str, name: &str) -> Result<()> {
        let node = host(self.walk(path))?;
        host(self.0.removexattr(node.id, name.as_bytes()))
    }

    fn list(&self, path: &str, each: &mut dyn FnMut(&str)) -> Result<()> {
        let dir = host(self.walk(path))?;
        let mut offset = 0;
        // Both kinds of listings have the same offsets.
        for with_attributes in [true, false].into_iter().cycle() {
            let names: Vec<(Vec<u8>, u64)> = match with_attributes {
                true => host(self.entry_page(dir.id, offset, PAGE))?.names,
                false => {
                    let page = host(self.page(dir.id, offset, PAGE))?;
                    page.into_iter().map(|listed| (listed.name, listed.next)).collect()
                }
            };
            let Some((_, last)) = names.last() else { return Ok(()) };
            offset = *last;
            let names = names.iter().map(|(name, _)| String::from_utf8_lossy(name));
            names.filter(|name| name != "." && name != "..").for_each(|name| each(&name));
        }
        Ok(())
    }

    fn free_bytes(&self) -> Result<u64> {
        let stat = host(self.0.statfs())?;
        Ok(stat.free_blocks * stat.block_size)
    }
}
