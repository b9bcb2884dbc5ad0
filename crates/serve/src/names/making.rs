//! Making of names: files, directories, links.

use crate::errno::{Errno, Reply};
use crate::requester::Requester;
use crate::served::Served;
use crate::statistics::Operation;
use crate::versions::OpenVersion;
use crate::versions::{Entry, NodeId};
use lanefs::{Attr, Caller, Code, FileKind, Ino, SetAttr, Volume};
use std::cell::Cell;

const OWNER: Caller = Caller::OWNER;
/// Write and search permission of one class of users.
const WRITE_SEARCH: u16 = 0o3;
const SETGID: u16 = 0o2000;
const GROUP_EXECUTES: u16 = 0o10;
/// `O_EXCL` of `open(2)`.
const O_EXCL: i32 = 0o200;

/// The mode of a new inode.
#[derive(Clone, Copy, Debug)]
pub struct NewMode {
    /// Type and permissions, as in `mknod(2)`.
    pub mode: u32,
    /// Permissions that the requester takes away, unless the directory has a default access control list.
    pub umask: u32,
}

/// Returns the permission bits of a new inode in `dir`. The umask is left to the service, because it has no
/// effect where the directory has a default access control list.
fn masked(volume: &Volume, dir: Ino, NewMode { mode, umask }: NewMode) -> Reply<u16> {
    let mask = if umask != 0 && volume.has_default_acl(dir)? { 0 } else { umask };
    Ok((mode & !mask & 0o7777) as u16)
}

/// Returns the permission bits of a new inode in `dir` that is not a directory: [`masked`], and without the
/// set-group-id bit of a program for a group that it gets from the directory, and that the requester is not
/// in. A kernel before Linux 6.0 leaves that to the file system.
fn masked_file(volume: &Volume, requester: &Requester<'_>, dir: Ino, mode: NewMode) -> Reply<u16> {
    let perm = masked(volume, dir, mode)?;
    if perm & (SETGID | GROUP_EXECUTES) != SETGID | GROUP_EXECUTES || requester.is_root() {
        return Ok(perm);
    }
    let dir = volume.getattr(dir)?;
    let is_stranger = dir.perm & SETGID != 0 && !requester.is_member(dir.gid);
    Ok(if is_stranger { perm & !SETGID } else { perm })
}

/// Returns the identity under which the volume creates a file in `dir`, so that the file belongs to the
/// requester.
///
/// The client has already permitted the operation. The volume checks the permissions again and does not know
/// the requester's groups, so the identity has the group that explains the client's decision. `None` where
/// only a privilege explains it.
fn creator(volume: &Volume, requester: &Requester<'_>, dir: Ino) -> Reply<Option<Caller>> {
    let (uid, gid) = (requester.uid, requester.gid);
    if requester.is_root() {
        return Ok(Some(Caller::user(0, gid, &[])));
    }
    let dir = volume.getattr(dir)?;
    let allows = |shift: u16| dir.perm >> shift & WRITE_SEARCH == WRITE_SEARCH;
    let as_member = Caller::user(uid, gid, &[dir.gid]);
    Ok(match () {
        () if dir.uid == uid => allows(6).then_some(as_member),
        () if allows(3) => Some(as_member),
        () if allows(0) && dir.gid != gid => Some(Caller::user(uid, gid, &[])),
        () => None,
    })
}

impl Served {
    /// Creates an inode in `dir` that belongs to the requester, and gives the client a reference to it.
    fn make(
        &self,
        volume: &OpenVersion<'_>,
        requester: &Requester<'_>,
        dir: Ino,
        privileged: bool,
        make: impl Fn(&Caller) -> lanefs::Result<Attr>,
    ) -> Reply<Attr> {
        let identity = if privileged { None } else { creator(volume, requester, dir)? };
        let by_requester = match identity.map(|identity| make(&identity)) {
            // An access control list may explain the client's decision, by a group that is not known here.
            Some(Err(error)) if error.code() == Code::AccessDenied => None,
            Some(made) => Some(made?),
            None => None,
        };
        let made = match by_requester {
            Some(made) => made,
            None => {
                // In two steps. A crash between them leaves a file of root, which grants nobody a right.
                let made = make(&OWNER)?;
                let inherits = volume.getattr(dir)?.perm & SETGID != 0;
                let gid = if inherits { made.gid } else { requester.gid };
                let set = SetAttr {
                    uid: Some(requester.uid),
                    gid: Some(gid),
                    perm: Some(made.perm),
                    ..SetAttr::default()
                };
                volume.setattr(&OWNER, made.ino, &set)?
            }
        };
        Ok(volume.give(made.ino)?)
    }

    /// Makes a file of the type that the mode has.
    ///
    /// # Errors
    /// `EINVAL`: there is no such type. Those of [`Volume::mknod`].
    pub fn mknod(
        &self,
        requester: &Requester<'_>,
        dir: NodeId,
        name: &[u8],
        mode: NewMode,
        rdev: u32,
    ) -> Reply<Entry> {
        self.with_entry(Operation::Mknod, dir, |volume| {
            let dir = volume.numbers.ino(dir);
            // A mode without a type means a regular file (mknod(2)).
            let bits = if mode.mode & 0o170_000 == 0 { mode.mode | 0o100_000 } else { mode.mode };
            let kind = FileKind::from_mode(bits as u16).ok_or(Errno::EINVAL)?;
            let perm = masked_file(volume, requester, dir, mode)?;
            // The volume lets every user make a whiteout, which is the character device 0.
            let is_device = kind == FileKind::BlockDevice || kind == FileKind::CharDevice && rdev != 0;
            self.make(volume, requester, dir, is_device && !requester.is_root(), |identity| {
                volume.mknod(identity, dir, name, kind, perm, rdev.into())
            })
        })
    }

    /// Makes a directory.
    ///
    /// # Errors
    /// Those of [`Volume::mkdir`].
    pub fn mkdir(&self, requester: &Requester<'_>, dir: NodeId, name: &[u8], mode: NewMode) -> Reply<Entry> {
        self.with_entry(Operation::Mkdir, dir, |volume| {
            let dir = volume.numbers.ino(dir);
            let perm = masked(volume, dir, mode)?;
            self.make(volume, requester, dir, false, |identity| volume.mkdir(identity, dir, name, perm))
        })
    }

    /// Makes a symbolic link.
    ///
    /// # Errors
    /// Those of [`Volume::symlink_at`].
    pub fn symlink(
        &self,
        requester: &Requester<'_>,
        dir: NodeId,
        name: &[u8],
        target: &[u8],
    ) -> Reply<Entry> {
        self.with_entry(Operation::Symlink, dir, |volume| {
            let dir = volume.numbers.ino(dir);
            self.make(volume, requester, dir, false, |identity| {
                volume.symlink_at(identity, dir, name, target)
            })
        })
    }

    /// Makes a regular file, for `open(2)` with these flags. A file that exists is never the reply: the
    /// client takes the reply for a new file of the requester, and checks no permission of it.
    ///
    /// # Errors
    /// `ESTALE`: the name exists by now, and the flags lack `O_EXCL`. The client looks it up and opens it.
    /// Those of [`Volume::create_file`].
    pub fn create(
        &self,
        requester: &Requester<'_>,
        dir: NodeId,
        name: &[u8],
        mode: NewMode,
        flags: i32,
    ) -> Reply<Entry> {
        self.with_entry(Operation::Create, dir, |volume| {
            let dir = volume.numbers.ino(dir);
            let perm = masked_file(volume, requester, dir, mode)?;
            let made = self.make(volume, requester, dir, false, |identity| {
                volume.create_file(identity, dir, name, perm)
            });
            match made {
                // A command may have made the name since the client looked for it, which is an error only
                // with `O_EXCL`. Linux repeats the open once by itself, with a new lookup (`LOOKUP_REVAL`).
                Err(Errno::EEXIST) if flags & O_EXCL == 0 => Err(Errno::ESTALE),
                made => made,
            }
        })
    }

    /// Makes a regular file without a name, for `open(2)` with `O_TMPFILE`. [`link`](Self::link) may give it
    /// one; otherwise it ends with the client's last reference.
    ///
    /// # Errors
    /// Those of [`Volume::create_unnamed`].
    pub fn create_unnamed(&self, requester: &Requester<'_>, dir: NodeId, mode: NewMode) -> Reply<Entry> {
        self.with_entry(Operation::Create, dir, |volume| {
            let dir = volume.numbers.ino(dir);
            let perm = masked_file(volume, requester, dir, mode)?;
            let held = Cell::new(None);
            let made = self.make(volume, requester, dir, false, |identity| {
                let made = volume.create_unnamed(identity, dir, perm)?;
                held.set(Some(made.ino));
                Ok(made)
            });
            // The client has a reference of its own now, or the file goes.
            held.take().map_or(Ok(()), |ino| volume.release(ino, 1))?;
            made
        })
    }

    /// Gives an inode a further name.
    ///
    /// # Errors
    /// Those of [`Volume::link`].
    pub fn link(&self, node: NodeId, dir: NodeId, name: &[u8]) -> Reply<Entry> {
        self.with_entry(Operation::Link, dir, |volume| {
            let (ino, dir) = (volume.numbers.ino(node), volume.numbers.ino(dir));
            volume.link(&OWNER, ino, dir, name)?;
            Ok(volume.give(ino)?)
        })
    }
}
