//! Names: lookup, creation, renaming and removal.

use crate::errno::{Errno, Reply};
use crate::requester::Requester;
use crate::served::Served;
use crate::statistics::Operation;
use crate::versions::OpenVersion;
use crate::versions::{Entry, Lookup, NodeId};
use lanefs::{Attr, Caller, Code, FileKind, Ino, RenameMode, SetAttr, Volume};

const OWNER: Caller = Caller::OWNER;
/// Write and search permission of one class of users.
const WRITE_SEARCH: u16 = 0o3;
const SETGID: u16 = 0o2000;
/// `O_EXCL` of `open(2)`.
const O_EXCL: i32 = 0o200;

// Flags of `renameat2(2)`.
const RENAME_NOREPLACE: u32 = 1;
const RENAME_EXCHANGE: u32 = 2;

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
    /// Returns the named inode and gives the client a reference to it.
    ///
    /// # Errors
    /// Those of [`Volume::lookup`], except that a missing name is an answer.
    pub fn lookup(&self, dir: NodeId, name: &[u8]) -> Reply<Lookup> {
        self.with(Operation::Lookup, dir, |volume| {
            let dir = volume.numbers.ino(dir);
            // NFS looks up `.` in any inode, also in files.
            let found = if name == b"." { volume.give(dir) } else { volume.give_named(dir, name) };
            match found {
                // `..` of an older version leads to the root that all versions share.
                Ok(attr) if attr.ino == volume.numbers.root => self.root().map(Lookup::Found),
                Ok(attr) => Ok(Lookup::Found(self.entry(volume, attr))),
                Err(error) if error.code() == Code::NotFound && name != b"." => {
                    volume.note_missing(dir, name);
                    Ok(Lookup::Missing(self.validity()))
                }
                Err(error) => Err(error.into()),
            }
        })
    }

    fn root(&self) -> Reply<Entry> {
        let current = self.versions.current();
        let volume = current.open()?;
        Ok(self.entry(&volume, volume.getattr(volume.numbers.root)?))
    }

    /// Takes back `times` references that the client had to an inode.
    ///
    /// # Errors
    /// Those of [`Volume::release`].
    pub fn forget(&self, node: NodeId, times: u64) -> Reply<()> {
        let forgotten = self
            .with(Operation::Forget, node, |volume| Ok(volume.take_back(volume.numbers.ino(node), times)?));
        self.versions.retire();
        forgotten
    }

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
            let perm = masked(volume, dir, mode)?;
            let is_device = matches!(kind, FileKind::CharDevice | FileKind::BlockDevice);
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

    /// Returns the target of a symbolic link.
    ///
    /// # Errors
    /// Those of [`Volume::readlink`].
    pub fn readlink(&self, node: NodeId) -> Reply<Vec<u8>> {
        self.with(Operation::Readlink, node, |volume| Ok(volume.readlink(volume.numbers.ino(node))?))
    }

    /// Makes a regular file, for `open(2)` with these flags.
    ///
    /// # Errors
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
            let perm = masked(volume, dir, mode)?;
            let made = self.make(volume, requester, dir, false, |identity| {
                volume.create_file(identity, dir, name, perm)
            });
            match made {
                // Another process may have created the file meanwhile, which is an error only with `O_EXCL`.
                Err(Errno::EEXIST) if flags & O_EXCL == 0 => Ok(volume.give_named(dir, name)?),
                made => made,
            }
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

    /// Removes a name of a file.
    ///
    /// # Errors
    /// Those of [`Volume::unlink`].
    pub fn unlink(&self, dir: NodeId, name: &[u8]) -> Reply<()> {
        self.with(Operation::Unlink, dir, |volume| {
            Ok(volume.unlink(&OWNER, volume.numbers.ino(dir), name)?)
        })
    }

    /// Removes an empty directory.
    ///
    /// # Errors
    /// Those of [`Volume::rmdir`].
    pub fn rmdir(&self, dir: NodeId, name: &[u8]) -> Reply<()> {
        self.with(Operation::Rmdir, dir, |volume| Ok(volume.rmdir(&OWNER, volume.numbers.ino(dir), name)?))
    }

    /// Renames, with the flags of `renameat2(2)`.
    ///
    /// # Errors
    /// `EINVAL`: a flag is unknown. Those of [`Volume::rename_at`].
    pub fn rename(&self, from: (NodeId, &[u8]), to: (NodeId, &[u8]), flags: u32) -> Reply<()> {
        self.with(Operation::Rename, from.0, |volume| {
            let mode = match flags {
                0 => RenameMode::Replace,
                RENAME_NOREPLACE => RenameMode::NoReplace,
                RENAME_EXCHANGE => RenameMode::Exchange,
                _ => return Err(Errno::EINVAL),
            };
            let (dir, new_dir) = (volume.numbers.ino(from.0), volume.numbers.ino(to.0));
            Ok(volume.rename_at(&OWNER, dir, from.1, new_dir, to.1, mode)?)
        })
    }
}
