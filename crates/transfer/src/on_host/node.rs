//! Files of the host that cannot be opened: symbolic links, pipes, sockets and devices.
//!
//! Their owner and mode can be set by name only. Where somebody else can change the names of the directory,
//! he could put another file under the name meanwhile. So the file is made in a directory that only this user
//! may enter, gets its attributes there, and is then moved to its name.

use super::hostdir::{FileId, is_new};
use crate::vocabulary::name::temporary_name;
use lanefs::FileKind;
use rustix::fd::OwnedFd;
use rustix::fs::{
    AtFlags, FileType, Mode, OFlags, RenameFlags, linkat, mkdirat, mknodat, openat, renameat_with, statat,
    symlinkat, unlinkat,
};
use rustix::io::Errno;

/// A file to make.
#[derive(Clone, Copy, Debug)]
pub enum NewNode<'a> {
    /// A symbolic link with this target.
    Link(&'a [u8]),
    /// A pipe, socket or device.
    Special {
        /// Its type.
        kind: FileKind,
        /// Its permissions, without those that the umask takes.
        mode: Mode,
        /// Number of a device.
        rdev: u64,
    },
}

impl NewNode<'_> {
    fn make(&self, dir: &OwnedFd, name: &[u8]) -> Result<(), Errno> {
        match *self {
            NewNode::Link(target) => symlinkat(target, dir, name),
            NewNode::Special { kind, mode, rdev } => {
                mknodat(dir, name, FileType::from_raw_mode(kind.mode().into()), mode, rdev as _)
            }
        }
    }
}

/// Makes `node` as `name` in `dir`, with the attributes that `set(directory, name)` gives it. `others`:
/// somebody else may change the names of `dir`.
///
/// # Errors
/// The host's; `EEXIST` where the name is taken.
pub fn make_node(
    dir: &OwnedFd,
    others: bool,
    name: &[u8],
    node: NewNode<'_>,
    set: impl Fn(&OwnedFd, &[u8]) -> Result<(), Errno>,
) -> Result<FileId, Errno> {
    if !others {
        return make_here(dir, name, node, set);
    }
    // The move would find that out, too, with all the work done.
    match statat(dir, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(_) => return Err(Errno::EXIST),
        Err(Errno::NOENT) => {}
        Err(errno) => return Err(errno),
    }
    let private = PrivateDir::make(dir)?;
    let id = make_here(&private.fd, PrivateDir::NODE, node, set)?;
    private.move_to(name).map(|()| id)
}

/// Makes a node in a directory of which nobody else can change the names.
fn make_here(
    dir: &OwnedFd,
    name: &[u8],
    node: NewNode<'_>,
    set: impl Fn(&OwnedFd, &[u8]) -> Result<(), Errno>,
) -> Result<FileId, Errno> {
    node.make(dir, name)?;
    let id = || {
        set(dir, name)?;
        let stat = statat(dir, name, AtFlags::SYMLINK_NOFOLLOW)?;
        Ok(FileId::of(&stat))
    };
    id().inspect_err(|_| _ = unlinkat(dir, name, AtFlags::empty()))
}

/// A new directory for one node, which only this user may enter. It is removed when it is dropped.
struct PrivateDir<'d> {
    parent: &'d OwnedFd,
    name: Vec<u8>,
    fd: OwnedFd,
}

impl<'d> PrivateDir<'d> {
    /// Name of the node in it.
    const NODE: &'static [u8] = b"node";

    fn make(parent: &'d OwnedFd) -> Result<Self, Errno> {
        let name = loop {
            let name = temporary_name();
            match mkdirat(parent, &name[..], Mode::RWXU) {
                Err(Errno::EXIST) => {}
                made => break made.map(|()| name)?,
            }
        };
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let fd = openat(parent, &name[..], flags, Mode::empty())?;
        // Somebody else may have put another directory there.
        if is_new(&fd)? { Ok(PrivateDir { parent, name, fd }) } else { Err(Errno::STALE) }
    }

    /// Moves the node to a name of the parent that nothing has.
    fn move_to(&self, name: &[u8]) -> Result<(), Errno> {
        match renameat_with(&self.fd, Self::NODE, self.parent, name, RenameFlags::NOREPLACE) {
            // The file system has no such rename; a second name replaces nothing either, and the first one is
            // removed with the directory.
            Err(Errno::INVAL | Errno::NOSYS) => {
                linkat(&self.fd, Self::NODE, self.parent, name, AtFlags::empty())
            }
            moved => moved,
        }
    }
}

impl Drop for PrivateDir<'_> {
    fn drop(&mut self) {
        // An error leaves a directory with nothing in it but this user's node.
        let _ = unlinkat(&self.fd, Self::NODE, AtFlags::empty());
        let _ = unlinkat(self.parent, &self.name[..], AtFlags::REMOVEDIR);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{read_dir, read_link};

    #[test]
    fn a_node_comes_complete_and_replaces_nothing() {
        let temp = tempfile::tempdir().unwrap();
        let dir = OwnedFd::from(std::fs::File::open(temp.path()).unwrap());
        let seen = std::cell::Cell::new(0);
        for others in [false, true] {
            let name = format!("link-{others}");
            let count = |at: &OwnedFd, node: &[u8]| {
                assert_eq!(statat(at, node, AtFlags::SYMLINK_NOFOLLOW).map(|_| ()), Ok(()));
                let visible = temp.path().join(&name).is_symlink();
                assert_eq!(visible, !others, "nobody sees a node before it has its attributes");
                seen.set(seen.get() + 1);
                Ok(())
            };
            make_node(&dir, others, name.as_bytes(), NewNode::Link(b"target"), count).unwrap();
            let again = make_node(&dir, others, name.as_bytes(), NewNode::Link(b"other"), count);
            assert_eq!(again, Err(Errno::EXIST));
            assert_eq!(read_link(temp.path().join(&name)).unwrap().to_str(), Some("target"));
            let fails = |_: &OwnedFd, _: &[u8]| Err(Errno::NOSPC);
            assert_eq!(make_node(&dir, others, b"none", NewNode::Link(b"x"), fails), Err(Errno::NOSPC));
        }
        assert_eq!(seen.get(), 2);
        assert_eq!(read_dir(temp.path()).unwrap().count(), 2, "nothing else is left");
    }
}
