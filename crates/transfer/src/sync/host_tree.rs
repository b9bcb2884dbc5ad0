//! A directory of the host as a side of a comparison.

use super::failure::Failure;
use super::node::{Name, Node, Xattrs};
use super::tree::{Buffers, Source, Tree};
use crate::import::content::{Copied, copy_in, has_changed};
use crate::on_host::host::HostMeta;
use crate::on_host::host_top::HostTop;
use crate::on_host::hostdir::{HostDir, OPEN_DIR, OpenDirs};
use crate::on_host::opener::Opener;
use crate::running::job::TransferJob;
use crate::vocabulary::error::{Error, Result};
use crate::vocabulary::name::shown_path;
use crate::vocabulary::xattrs::XattrTarget;
use lanefs::path::join;
use lanefs::{FileKind, FileSystem, Ino};
use rustix::fd::OwnedFd;
use rustix::fs::{AtFlags, CWD, FileType, RawDir, SeekFrom, Stat, fstat, readlinkat, seek, statat};
use rustix::io::{Errno, pread};
use std::ffi::{CStr, CString};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Through this directory attributes of names are read.
const DESCRIPTORS: &str = "/proc/self/fd";

/// A directory of the host, read by descriptor.
pub(crate) struct HostTree {
    path: Vec<u8>,
    top: Arc<HostDir>,
    node: Node,
    dirs: OpenDirs,
    opener: Opener,
    /// Extended attributes that the host refused, or that are not kept.
    refused: AtomicU64,
}

impl HostTree {
    /// Opens the directory `path`, which may be a link to it. `doing` begins the message of an error.
    pub(crate) fn open(path: &Path, doing: &str) -> Result<Self> {
        HostTree::new(&HostTop::open(path, doing)?, doing)
    }

    /// The tree below a directory that is open. `doing` begins the message of an error.
    pub(crate) fn new(top: &HostTop, doing: &str) -> Result<Self> {
        let path = top.path();
        let cannot = |errno| Error::host(format!("{doing} '{}'", shown_path(path)), errno);
        // Without it every file would seem to have lost its attributes.
        statat(CWD, DESCRIPTORS, AtFlags::empty()).map_err(|errno| {
            Error::host(format!("cannot read extended attributes by {DESCRIPTORS}"), errno)
        })?;
        let fd = top.fd_of_its_own().map_err(cannot)?;
        let node = node(&fstat(&fd).map_err(cannot)?).map_err(cannot)?;
        let name = CString::new(path.as_os_str().as_bytes()).map_err(|_| cannot(Errno::INVAL))?;
        let top = HostDir::top(name, fd).map_err(cannot)?;
        Ok(HostTree {
            path: path.as_os_str().as_bytes().to_vec(),
            top,
            node,
            dirs: OpenDirs::new(),
            opener: Opener::new(),
            refused: AtomicU64::new(0),
        })
    }

    /// The top directory.
    pub(crate) fn top(&self) -> (Arc<HostDir>, Node) {
        (self.top.clone(), self.node)
    }

    fn read_xattrs(&self, buffers: &mut Buffers, target: &XattrTarget<'_>) -> Xattrs {
        let mut xattrs = Xattrs::new();
        let refused = buffers.xattrs.each(target, |name, value| {
            xattrs.insert(name.to_vec(), value.to_vec());
        });
        self.refused.fetch_add(refused, Relaxed);
        xattrs
    }

    fn fd(&self, dir: &Arc<HostDir>) -> std::result::Result<Arc<OwnedFd>, Errno> {
        dir.fd(&self.dirs)
    }
}

fn node(stat: &Stat) -> std::result::Result<Node, Errno> {
    Ok(Node { meta: HostMeta::new(stat).ok_or(Errno::INVAL)?, may_have_xattrs: true, is_implied: false })
}

fn kind_of(dir: &OwnedFd, name: &CStr, kind: FileType) -> std::result::Result<Option<FileKind>, Errno> {
    let kind = match kind {
        // Some file systems list names without types.
        FileType::Unknown => match statat(dir, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => FileType::from_raw_mode(stat.st_mode),
            Err(Errno::NOENT) => return Ok(None),
            Err(errno) => return Err(errno),
        },
        kind => kind,
    };
    Ok(Some(match kind {
        FileType::RegularFile => FileKind::File,
        FileType::Directory => FileKind::Directory,
        FileType::Symlink => FileKind::Symlink,
        FileType::Fifo => FileKind::Fifo,
        FileType::Socket => FileKind::Socket,
        FileType::CharacterDevice => FileKind::CharDevice,
        FileType::BlockDevice => FileKind::BlockDevice,
        FileType::Unknown => return Err(Errno::INVAL),
    }))
}

impl Tree for HostTree {
    type Dir = Arc<HostDir>;
    type File = OwnedFd;

    fn path(&self, below: &[u8]) -> Vec<u8> {
        if below.is_empty() { self.path.clone() } else { join(&self.path, below) }
    }

    fn names(
        &self,
        job: &TransferJob<'_>,
        buffers: &mut Buffers,
        dir: &Self::Dir,
        each: &mut dyn FnMut(&CStr, FileKind, u64),
    ) -> std::result::Result<(), Failure> {
        let fd = self.fd(dir)?;
        // A descriptor that was used before stands at its end.
        seek(&*fd, SeekFrom::Start(0))?;
        let mut entries = RawDir::new(&*fd, &mut buffers.entries[..]);
        while let Some(entry) = entries.next() {
            let entry = entry?;
            let name = entry.file_name();
            if matches!(name.to_bytes(), b"." | b"..") {
                continue;
            }
            if let Some(kind) = kind_of(&fd, name, entry.file_type())? {
                each(name, kind, entry.ino());
            }
            if entries.is_buffer_empty() && job.should_stop() {
                return Err(Failure::Stopped);
            }
        }
        Ok(())
    }

    fn number(&self, dir: &Self::Dir) -> Ino {
        Ino(dir.id().ino)
    }

    fn each_node(
        &self,
        job: &TransferJob<'_>,
        buffers: &mut Buffers,
        dir: &Self::Dir,
        each: &mut dyn FnMut(&CStr, &Node),
    ) -> std::result::Result<(), Failure> {
        let fd = self.fd(dir)?;
        seek(&*fd, SeekFrom::Start(0))?;
        let mut entries = RawDir::new(&*fd, &mut buffers.entries[..]);
        while let Some(entry) = entries.next() {
            let entry = entry?;
            let name = entry.file_name();
            if !matches!(name.to_bytes(), b"." | b"..") {
                match statat(&*fd, name, AtFlags::SYMLINK_NOFOLLOW) {
                    Ok(stat) => each(name, &node(&stat)?),
                    Err(Errno::NOENT) => {}
                    Err(errno) => return Err(errno.into()),
                }
            }
            if entries.is_buffer_empty() && job.should_stop() {
                return Err(Failure::Stopped);
            }
        }
        Ok(())
    }

    fn node(&self, dir: &Self::Dir, name: &Name) -> std::result::Result<Node, Failure> {
        let fd = self.fd(dir)?;
        Ok(node(&statat(&*fd, &*name.name, AtFlags::SYMLINK_NOFOLLOW)?)?)
    }

    fn lookup(&self, dir: &Self::Dir, name: &CStr) -> std::result::Result<Option<Name>, Failure> {
        match statat(&*self.fd(dir)?, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => {
                let meta = node(&stat)?.meta;
                Ok(Some(Name { name: name.to_owned(), kind: meta.kind, ino: meta.id.ino }))
            }
            Err(Errno::NOENT) => Ok(None),
            Err(errno) => Err(errno.into()),
        }
    }

    fn nodes(&self, dir: &Self::Dir, names: &[&Name]) -> std::result::Result<Vec<Option<Node>>, Failure> {
        let node = |name: &&Name| match self.node(dir, name) {
            Err(Failure::Host(Errno::NOENT)) => Ok(None),
            found => found.map(Some),
        };
        names.iter().map(node).collect()
    }

    fn enter(&self, dir: &Self::Dir, name: &Name, node: &Node) -> std::result::Result<Self::Dir, Failure> {
        let parent = self.fd(dir)?;
        let fd = self.opener.open(&parent, &name.name, OPEN_DIR)?;
        let stat = fstat(&fd)?;
        if HostMeta::new(&stat).is_none_or(|meta| meta.id != node.meta.id) {
            return Err(Errno::STALE.into());
        }
        Ok(HostDir::below(&self.dirs, dir, name.name.clone(), node.meta.id, Arc::new(fd)))
    }

    fn look_into(
        &self,
        dir: &Self::Dir,
        name: &Name,
        node: &Node,
    ) -> std::result::Result<Self::Dir, Failure> {
        self.enter(dir, name, node)
    }

    fn xattrs(
        &self,
        buffers: &mut Buffers,
        dir: &Self::Dir,
        name: Option<&CStr>,
        _: &Node,
    ) -> std::result::Result<Xattrs, Failure> {
        let fd = self.fd(dir)?;
        let target = match name {
            Some(name) => XattrTarget::Name(&fd, name),
            None => XattrTarget::Open(&fd),
        };
        Ok(self.read_xattrs(buffers, &target))
    }

    fn link_target(&self, dir: &Self::Dir, name: &CStr, _: &Node) -> std::result::Result<Vec<u8>, Failure> {
        Ok(readlinkat(&*self.fd(dir)?, name, Vec::new())?.into_bytes())
    }

    fn open(
        &self,
        dir: &Self::Dir,
        name: &CStr,
        _: &Node,
    ) -> std::result::Result<(Self::File, Node), Failure> {
        let (file, stat) = self.opener.open_file(&*self.fd(dir)?, name)?;
        Ok((file, node(&stat)?))
    }

    fn open_unseen(&self, dir: &Self::Dir, name: &CStr) -> Option<(Self::File, Node)> {
        let (file, stat) = self.opener.open_file(&*self.fd(dir).ok()?, name).ok()?;
        let node = node(&stat).ok().filter(|node| node.meta.kind == FileKind::File)?;
        Some((file, node))
    }

    fn read(&self, file: &OwnedFd, offset: u64, buffer: &mut [u8]) -> std::result::Result<usize, Failure> {
        let mut len = 0;
        while len < buffer.len() {
            match pread(file, &mut buffer[len..], offset + len as u64)? {
                0 => break,
                more => len += more,
            }
        }
        Ok(len)
    }

    fn next_data(&self, file: &OwnedFd, offset: u64) -> std::result::Result<Option<u64>, Failure> {
        match seek(file, SeekFrom::Data(offset)) {
            Ok(data) => Ok(Some(data)),
            Err(Errno::NXIO) => Ok(None),
            // The file system has no holes: all is data.
            Err(_) => Ok(Some(offset)),
        }
    }
}

impl Source for HostTree {
    fn read_whole(&self, file: &OwnedFd, node: &Node) -> std::result::Result<Option<Vec<u8>>, Failure> {
        // The extra byte shows that a file has grown.
        let size = node.meta.size as usize;
        let (mut content, mut len) = (vec![0; size + 1], 0);
        while len <= size {
            match pread(file, &mut content[len..], len as u64)? {
                0 => break,
                more => len += more,
            }
            // The attributes that are read next tell of an end that has moved.
            if len == size {
                break;
            }
        }
        content.truncate(len);
        let is_whole = len == size && !has_changed(file, &node.meta)?;
        Ok(is_whole.then_some(content))
    }

    fn xattrs_of(&self, buffers: &mut Buffers, file: &OwnedFd) -> std::result::Result<Xattrs, Failure> {
        Ok(self.read_xattrs(buffers, &XattrTarget::Open(file)))
    }

    fn terms(&self) -> Option<Vec<Vec<u8>>> {
        super::terms::of_host(&*self.fd(&self.top).ok()?)
    }

    fn refused(&self) -> u64 {
        self.refused.load(Relaxed)
    }

    fn copy(
        &self,
        job: &TransferJob<'_>,
        buffer: &mut [u8],
        file: &OwnedFd,
        node: &Node,
        (volume, ino): (&dyn FileSystem, Ino),
    ) -> std::result::Result<Copied, Failure> {
        copy_in(job, volume, buffer, file, &node.meta, ino)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The name of a file that is being copied may become that of another file, whose privileges must not
    /// come to the content.
    #[test]
    fn attributes_of_an_open_file_are_not_those_of_its_name() {
        let dir = tempfile::tempdir().expect("a directory");
        let write = |name: &str, value: &[u8]| {
            let path = dir.path().join(name);
            std::fs::write(&path, name).expect("a file");
            rustix::fs::setxattr(&path, "user.of", value, rustix::fs::XattrFlags::empty())
                .expect("an attribute");
            path
        };
        let (old, new) = (write("old", b"old"), write("new", b"new"));
        let tree = HostTree::open(dir.path(), "test").expect("a tree");
        let (top, _) = tree.top();
        let (mut buffers, name) = (Buffers::new(), c"old".to_owned());
        let found = tree.node(&top, &Name { name: name.clone(), kind: FileKind::File, ino: 0 });
        let node = found.unwrap_or_else(|_| panic!("a file"));
        let (file, _) = tree.open(&top, &name, &node).unwrap_or_else(|_| panic!("a file"));
        std::fs::rename(new, old).expect("another file under the name");
        let of_file = tree.xattrs_of(&mut buffers, &file).unwrap_or_else(|_| panic!("attributes"));
        let of_name =
            tree.xattrs(&mut buffers, &top, Some(&name), &node).unwrap_or_else(|_| panic!("attributes"));
        assert_eq!(of_file.get(&b"user.of"[..]).map(Vec::as_slice), Some(&b"old"[..]));
        assert_eq!(of_name.get(&b"user.of"[..]).map(Vec::as_slice), Some(&b"new"[..]));
    }
}
