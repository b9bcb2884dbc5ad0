//! A directory of a volume as a side of a comparison.

use super::failure::Failure;
use super::node::{Name, Node, Xattrs};
use super::tree::{Buffers, Source, Tree};
use crate::import::content::Copied;
use crate::in_volume::volume::TargetDir;
use crate::on_host::host::HostMeta;
use crate::running::job::TransferJob;
use crate::vocabulary::error::{Error, Result};
use crate::vocabulary::name::{is_entry_name, shown};
use crate::vocabulary::xattrs::is_kept;
use lanefs::path::join;
use lanefs::{Code, Description, FileKind, FileSystem, Ino, Seek};
use lanefs_sync::lock::Mutex;
use std::collections::HashSet;
use std::ffi::{CStr, CString};
use std::sync::atomic::Ordering::Relaxed;

/// Entries that one call lists.
const PAGE_ENTRIES: usize = 4096;

/// A directory of a volume.
#[derive(Clone, Copy, Debug)]
pub(crate) struct VolumeDir {
    pub(crate) ino: Ino,
    /// False where it is known that new inodes inherit nothing from it.
    pub(crate) may_hand_down: bool,
}

impl VolumeDir {
    /// The directory as the place of new names.
    pub(crate) fn target(self, volume: &dyn FileSystem) -> lanefs::Result<TargetDir> {
        if self.may_hand_down {
            TargetDir::existing(volume, self.ino)
        } else {
            Ok(TargetDir::plain(self.ino))
        }
    }
}

/// A directory of a volume with everything below it.
pub(crate) struct VolumeTree<'v> {
    volume: &'v dyn FileSystem,
    path: Vec<u8>,
    top: Option<(VolumeDir, Node)>,
    /// The directories that have attributes, where not all have: those of an archive.
    stated: Option<&'v HashSet<Ino>>,
    /// Directories that were entered, so that no damaged volume keeps a walk for ever.
    entered: Mutex<HashSet<Ino>>,
}

impl<'v> VolumeTree<'v> {
    /// Finds the directory `path`; a tree without a top where the volume has nothing there.
    pub(crate) fn find(volume: &'v dyn FileSystem, path: &[u8]) -> Result<Self> {
        let cannot = |error| Error::volume(format!("cannot compare '{}' of the volume", shown(path)), error);
        let attr = match volume.resolve(path) {
            Ok(attr) => Some(attr),
            Err(error) if matches!(error.code(), Code::NotFound | Code::ComponentNotFound) => None,
            Err(error) => return Err(cannot(error)),
        };
        if attr.is_some_and(|attr| attr.kind != FileKind::Directory) {
            return Err(cannot(Code::NotDirectory.into()));
        }
        let top = match attr {
            None => None,
            Some(attr) => {
                let described =
                    volume.describe_inodes(&[attr.ino]).map_err(cannot)?.into_iter().flatten().next();
                let described = described.ok_or_else(|| cannot(Code::StaleInode.into()))?;
                Some((VolumeDir { ino: attr.ino, may_hand_down: described.has_xattrs }, node(&described)))
            }
        };
        let entered = Mutex::new(top.iter().map(|(dir, _)| dir.ino).collect());
        Ok(VolumeTree { volume, path: path.to_vec(), top, stated: None, entered })
    }

    /// The tree of an archive that was unpacked into a volume; only the directories `stated` have attributes.
    pub(crate) fn of_archive(volume: &'v dyn FileSystem, stated: &'v HashSet<Ino>) -> Result<Self> {
        let mut tree = VolumeTree::find(volume, b"/")?;
        tree.stated = Some(stated);
        tree.top = tree.top.map(|(dir, node)| (dir, tree.known(node)));
        Ok(tree)
    }

    fn known(&self, node: Node) -> Node {
        let is_stated = |stated: &HashSet<Ino>| stated.contains(&ino(&node));
        let is_implied = node.meta.kind == FileKind::Directory && !self.stated.is_none_or(is_stated);
        Node { is_implied, ..node }
    }

    /// The top directory, if there is one.
    pub(crate) fn top(&self) -> Option<(VolumeDir, Node)> {
        self.top
    }

    fn read_xattrs(&self, ino: Ino) -> std::result::Result<Xattrs, Failure> {
        let names = self.volume.listxattr(ino)?.into_iter().filter(|name| is_kept(name));
        let read = |name: Vec<u8>| Ok((name.clone(), self.volume.getxattr(ino, &name)?));
        names.map(read).collect::<lanefs::Result<Xattrs>>().map_err(Failure::Volume)
    }

    /// True where a file has another size or time of modification than it had.
    fn has_changed(&self, file: Ino, before: &HostMeta) -> std::result::Result<bool, Failure> {
        let after = HostMeta::from(&self.volume.getattr(file)?);
        Ok((after.size, after.mtime) != (before.size, before.mtime))
    }

    /// Returns the end of the data that begin at an offset.
    fn end_of_data(&self, file: Ino, offset: u64, size: u64) -> std::result::Result<u64, Failure> {
        match self.volume.seek(file, offset, Seek::Hole) {
            Ok(hole) => Ok(hole.clamp(offset, size)),
            Err(error) if error.code() == Code::NoSuchRange => Ok(size),
            Err(error) => Err(error.into()),
        }
    }
}

fn node(described: &Description) -> Node {
    let meta = HostMeta::from(&described.attr);
    Node { meta, may_have_xattrs: described.has_xattrs, is_implied: false }
}

/// The inode of a file of a volume.
pub(crate) fn ino(node: &Node) -> Ino {
    Ino(node.meta.id.ino)
}

/// The error of a directory that no sound volume has.
fn damaged(dir: Ino, why: &str) -> Failure {
    Failure::Volume(lanefs::Error::Damaged { at: dir.0, why: why.into() })
}

impl Tree for VolumeTree<'_> {
    type Dir = VolumeDir;
    type File = Ino;

    fn expected(&self) -> Option<u64> {
        let is_whole = self.top.is_some_and(|(top, _)| top.ino == self.volume.root());
        // It is for the progress alone.
        if is_whole { self.volume.inodes().ok().flatten() } else { None }
    }

    fn is_in_seconds(&self) -> bool {
        self.stated.is_some()
    }

    fn path(&self, below: &[u8]) -> Vec<u8> {
        if below.is_empty() { self.path.clone() } else { join(&self.path, below) }
    }

    fn names(
        &self,
        job: &TransferJob<'_>,
        _: &mut Buffers,
        dir: &VolumeDir,
        each: &mut dyn FnMut(&CStr, FileKind, u64),
    ) -> std::result::Result<(), Failure> {
        let mut cookie = 0;
        loop {
            if job.should_stop() {
                return Err(Failure::Stopped);
            }
            let page = self.volume.readdir(dir.ino, cookie, PAGE_ENTRIES)?;
            let Some(last) = page.last() else { return Ok(()) };
            cookie = last.cookie;
            for entry in page {
                let name = CString::new(entry.name).ok().filter(|name| is_entry_name(name.to_bytes()));
                let name = name.ok_or_else(|| damaged(dir.ino, "the directory has an impossible name"))?;
                each(&name, entry.kind, entry.ino.0);
            }
        }
    }

    fn number(&self, dir: &VolumeDir) -> Ino {
        dir.ino
    }

    fn each_node(
        &self,
        job: &TransferJob<'_>,
        buffers: &mut Buffers,
        dir: &VolumeDir,
        each: &mut dyn FnMut(&CStr, &Node),
    ) -> std::result::Result<(), Failure> {
        let mut names = Vec::new();
        self.names(job, buffers, dir, &mut |name, kind, ino| {
            names.push(Name { name: name.to_owned(), kind, ino });
        })?;
        let nodes = self.nodes(dir, &names.iter().collect::<Vec<_>>())?;
        for (name, node) in names.iter().zip(nodes) {
            if let Some(node) = node {
                each(&name.name, &node);
            }
        }
        Ok(())
    }

    fn node(&self, dir: &VolumeDir, name: &Name) -> std::result::Result<Node, Failure> {
        let found = self.nodes(dir, &[name])?.into_iter().flatten().next();
        found.ok_or(Failure::Volume(Code::NotFound.into()))
    }

    fn lookup(&self, dir: &VolumeDir, name: &CStr) -> std::result::Result<Option<Name>, Failure> {
        match self.volume.lookup(dir.ino, name.to_bytes()) {
            Ok((Ino(ino), kind)) => Ok(Some(Name { name: name.to_owned(), kind, ino })),
            Err(error) if error.code() == Code::NotFound => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    fn nodes(&self, _: &VolumeDir, names: &[&Name]) -> std::result::Result<Vec<Option<Node>>, Failure> {
        let inos: Vec<Ino> = names.iter().map(|name| Ino(name.ino)).collect();
        let described = self.volume.describe_inodes(&inos)?;
        let known = |described: &Option<Description>| described.as_ref().map(|found| self.known(node(found)));
        Ok(described.iter().map(known).collect())
    }

    fn bring(&self, names: &[(&VolumeDir, &CStr)]) {
        let names: Vec<_> = names.iter().map(|(dir, name)| (dir.ino, name.to_bytes())).collect();
        self.volume.bring_names(&names);
    }

    fn enter(&self, dir: &VolumeDir, _: &Name, node: &Node) -> std::result::Result<VolumeDir, Failure> {
        let ino = ino(node);
        if !self.entered.lock().insert(ino) {
            return Err(damaged(dir.ino, "a directory has more than one name"));
        }
        Ok(VolumeDir { ino, may_hand_down: node.may_have_xattrs })
    }

    fn look_into(&self, _: &VolumeDir, _: &Name, node: &Node) -> std::result::Result<VolumeDir, Failure> {
        Ok(VolumeDir { ino: ino(node), may_hand_down: node.may_have_xattrs })
    }

    fn xattrs(
        &self,
        _: &mut Buffers,
        dir: &VolumeDir,
        name: Option<&CStr>,
        node: &Node,
    ) -> std::result::Result<Xattrs, Failure> {
        if !node.may_have_xattrs {
            return Ok(Xattrs::new());
        }
        self.read_xattrs(if name.is_some() { ino(node) } else { dir.ino })
    }

    fn link_target(&self, _: &VolumeDir, _: &CStr, node: &Node) -> std::result::Result<Vec<u8>, Failure> {
        Ok(self.volume.readlink(ino(node))?)
    }

    fn open(&self, _: &VolumeDir, _: &CStr, node: &Node) -> std::result::Result<(Ino, Node), Failure> {
        Ok((ino(node), *node))
    }

    fn read(&self, file: &Ino, offset: u64, buffer: &mut [u8]) -> std::result::Result<usize, Failure> {
        Ok(self.volume.read(*file, offset, buffer)?)
    }

    fn next_data(&self, file: &Ino, offset: u64) -> std::result::Result<Option<u64>, Failure> {
        match self.volume.seek(*file, offset, Seek::Data) {
            Ok(data) => Ok(Some(data)),
            Err(error) if error.code() == Code::NoSuchRange => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}

impl Source for VolumeTree<'_> {
    fn read_whole(&self, file: &Ino, node: &Node) -> std::result::Result<Option<Vec<u8>>, Failure> {
        // The extra byte shows that a file has grown.
        let mut content = vec![0; node.meta.size as usize + 1];
        let len = self.read(file, 0, &mut content)?;
        content.truncate(len);
        let is_whole = len as u64 == node.meta.size && !self.has_changed(*file, &node.meta)?;
        Ok(is_whole.then_some(content))
    }

    fn xattrs_of(&self, _: &mut Buffers, file: &Ino) -> std::result::Result<Xattrs, Failure> {
        self.read_xattrs(*file)
    }

    fn copy(
        &self,
        job: &TransferJob<'_>,
        buffer: &mut [u8],
        file: &Ino,
        node: &Node,
        (volume, ino): (&dyn FileSystem, Ino),
    ) -> std::result::Result<Copied, Failure> {
        let (size, mut at) = (node.meta.size, 0);
        let mut end = 0;
        while let Some(data) = self.next_data(file, at)?.filter(|data| *data < size) {
            let data_end = self.end_of_data(*file, data, size)?;
            at = data;
            while at < data_end {
                if job.should_stop() {
                    return Err(Failure::Stopped);
                }
                let want = (buffer.len() as u64 - at % buffer.len() as u64).min(data_end - at) as usize;
                let len = self.read(file, at, &mut buffer[..want])?;
                if len == 0 {
                    return Ok(Copied { size: None, changed: true });
                }
                volume.write(ino, at, &buffer[..len])?;
                job.counters.bytes.fetch_add(len as u64, Relaxed);
                at += len as u64;
                end = at;
            }
            // A hole of no bytes must not keep the copy here.
            at = at.max(data + 1);
        }
        Ok(Copied { size: (end < size).then_some(size), changed: self.has_changed(*file, &node.meta)? })
    }

    fn refused(&self) -> u64 {
        0
    }
}
