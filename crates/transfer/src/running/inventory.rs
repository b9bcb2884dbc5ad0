//! All names of a tree of the host with their attributes: the reference for answers of a volume.

use super::report::Problem;
use crate::on_host::host::{ENTRIES_BYTES, HostMeta};
use crate::on_host::hostdir::{FileId, HostDir, OPEN_DIR, OpenDirs, open_named};
use crate::vocabulary::error::{Error, Result, errno_text};
use crate::vocabulary::name::shown_path;
use lanefs::path::join;
use lanefs::{FileKind, Time};
use rustix::fs::{AtFlags, Mode, RawDir, fstat, openat, statat};
use rustix::io::Errno;
use std::mem::MaybeUninit;
use std::path::Path;
use std::sync::Arc;

/// A name of the tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Item {
    /// Path relative to the top of the tree; empty for the top itself.
    pub path: Vec<u8>,
    /// Identity of the named file.
    pub id: FileId,
    /// Type.
    pub kind: FileKind,
    /// Permission bits with set-id and sticky bits.
    pub perm: u16,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Size in bytes.
    pub size: u64,
    /// Time of the last change of the content.
    pub mtime: Time,
}

/// The names, each after its parent, and the directories that could not be read.
#[derive(Clone, Debug, Default)]
pub struct Inventory {
    /// The names.
    pub items: Vec<Item>,
    /// Names and directories that could not be read.
    pub problems: Vec<Problem>,
}

/// Lists the tree `top`.
///
/// # Errors
///
/// `top` is not a directory, or cannot be opened. All other failures are in the inventory's problems.
pub fn take_inventory(top: &Path) -> Result<Inventory> {
    let cannot = |errno| Error::host(format!("cannot list '{}'", shown_path(top)), errno);
    let fd = open_named(top).map_err(cannot)?;
    let meta = HostMeta::new(&fstat(&fd).map_err(cannot)?).ok_or(cannot(Errno::INVAL))?;
    let mut walk = InventoryWalk {
        inventory: Inventory::default(),
        dirs: OpenDirs::new(),
        buffer: vec![MaybeUninit::uninit(); ENTRIES_BYTES],
        waiting: vec![(HostDir::named(top, fd).map_err(cannot)?, Vec::new())],
    };
    walk.inventory.items.push(item(Vec::new(), &meta));
    while let Some((dir, path)) = walk.waiting.pop() {
        if let Err(errno) = walk.directory(&dir, &path) {
            walk.inventory.problems.push(Problem { path, what: errno_text(errno) });
        }
    }
    Ok(walk.inventory)
}

struct InventoryWalk {
    inventory: Inventory,
    dirs: OpenDirs,
    buffer: Vec<MaybeUninit<u8>>,
    waiting: Vec<(Arc<HostDir>, Vec<u8>)>,
}

impl InventoryWalk {
    fn directory(&mut self, dir: &Arc<HostDir>, path: &[u8]) -> std::result::Result<(), Errno> {
        let fd = dir.fd(&self.dirs)?;
        let mut entries = RawDir::new(&*fd, &mut self.buffer[..]);
        while let Some(entry) = entries.next() {
            let entry = entry?;
            let name = entry.file_name();
            if matches!(name.to_bytes(), b"." | b"..") {
                continue;
            }
            let below = join(path, name.to_bytes());
            let stat = statat(&*fd, name, AtFlags::SYMLINK_NOFOLLOW);
            match stat.and_then(|stat| HostMeta::new(&stat).ok_or(Errno::INVAL)) {
                Err(errno) => {
                    self.inventory.problems.push(Problem { path: below, what: errno_text(errno) });
                }
                Ok(meta) => {
                    self.inventory.items.push(item(below.clone(), &meta));
                    if meta.kind == FileKind::Directory {
                        match openat(&*fd, name, OPEN_DIR, Mode::empty()) {
                            Ok(inner) => {
                                let inner = Arc::new(inner);
                                let dir = HostDir::below(&self.dirs, dir, name.to_owned(), meta.id, inner);
                                self.waiting.push((dir, below));
                            }
                            Err(errno) => {
                                let what = errno_text(errno);
                                self.inventory.problems.push(Problem { path: below, what });
                            }
                        }
                    }
                }
            }
        }
        Ok(())
    }
}

fn item(path: Vec<u8>, meta: &HostMeta) -> Item {
    Item {
        path,
        id: meta.id,
        kind: meta.kind,
        perm: meta.perm,
        uid: meta.uid,
        gid: meta.gid,
        size: meta.size,
        mtime: meta.mtime,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn every_name_is_listed_once_after_its_directory() {
        let temp = tempfile::tempdir().unwrap();
        fs::create_dir_all(temp.path().join("a/b")).unwrap();
        fs::write(temp.path().join("a/b/c"), "xyz").unwrap();
        fs::write(temp.path().join("d"), "").unwrap();
        let inventory = take_inventory(temp.path()).unwrap();
        assert!(inventory.problems.is_empty());
        let mut paths: Vec<&[u8]> = inventory.items.iter().map(|item| &item.path[..]).collect();
        assert!(paths.iter().position(|p| *p == b"a/b") < paths.iter().position(|p| *p == b"a/b/c"));
        paths.sort_unstable();
        assert_eq!(paths, [&b""[..], b"a", b"a/b", b"a/b/c", b"d"]);
        let c = inventory.items.iter().find(|item| item.path == b"a/b/c").unwrap();
        assert_eq!((c.size, c.kind), (3, FileKind::File));
    }
}
