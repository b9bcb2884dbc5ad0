//! Names: lookup, creation, renaming and removal.

use crate::convert::Entry;
use crate::errno::{Errno, FuseResult};
use crate::served::Served;
use crate::versions::OpenVersion;
use fuser::{INodeNo, RenameFlags, Request};
use lanefs::{Attr, Caller, Code, FileKind, Ino, RenameMode, SetAttr, Volume};

const OWNER: Caller = Caller::OWNER;
/// Write and search permission of one class of users.
const WRITE_SEARCH: u16 = 0o3;
const SETGID: u16 = 0o2000;
/// `O_EXCL` of `open(2)`.
const O_EXCL: i32 = 0o200;

/// The mode of a new inode as the kernel gives it, and the umask of the caller.
#[derive(Clone, Copy)]
pub(crate) struct NewMode {
    pub(crate) mode: u32,
    pub(crate) umask: u32,
}

/// Returns the permission bits of a new inode in `dir`. The kernel leaves the umask to the server, because it
/// has no effect where the directory has a default access control list.
fn masked(volume: &Volume, dir: Ino, NewMode { mode, umask }: NewMode) -> FuseResult<u16> {
    let mask = if umask != 0 && volume.has_default_acl(dir)? { 0 } else { umask };
    Ok((mode & !mask & 0o7777) as u16)
}

/// Returns the identity under which the volume creates a file in `dir`, so that the file belongs to the
/// caller.
///
/// The kernel has already permitted the operation. The volume checks the permissions again and does not know
/// the caller's groups, so the identity has the group that explains the kernel's decision. `None` where only
/// a privilege explains it.
fn creator(volume: &Volume, request: &Request, dir: Ino) -> FuseResult<Option<Caller>> {
    let (uid, gid) = (request.uid(), request.gid());
    if uid == 0 {
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
    /// Returns the named inode and gives the kernel a reference to it; `None` where there is no such name.
    pub(crate) fn lookup(
        &self,
        volume: &OpenVersion<'_>,
        dir: INodeNo,
        name: &[u8],
    ) -> FuseResult<Option<Entry>> {
        let dir = volume.numbers.ino(dir);
        // NFS looks up `.` in any inode, also in files.
        let found = if name == b"." { volume.give(dir) } else { volume.give_named(dir, name) };
        match found {
            // `..` of an older version leads to the root that all versions share.
            Ok(attr) if attr.ino == volume.numbers.root => self.root().map(Some),
            Ok(attr) => Ok(Some(volume.entry(&attr))),
            Err(error) if error.code() == Code::NotFound && name != b"." => {
                volume.note_missing(dir, name);
                Ok(None)
            }
            Err(error) => Err(error.into()),
        }
    }

    fn root(&self) -> FuseResult<Entry> {
        let current = self.versions.current();
        let volume = current.open()?;
        Ok(volume.entry(&volume.getattr(volume.numbers.root)?))
    }

    /// Creates a file in `dir` that belongs to the caller, and holds it.
    fn make(
        &self,
        volume: &OpenVersion<'_>,
        request: &Request,
        dir: Ino,
        privileged: bool,
        make: impl Fn(&Caller) -> lanefs::Result<Attr>,
    ) -> FuseResult<Attr> {
        let identity = if privileged { None } else { creator(volume, request, dir)? };
        let by_caller = match identity.map(|identity| make(&identity)) {
            // An access control list may explain the kernel's decision, by a group that is not known here.
            Some(Err(error)) if error.code() == Code::AccessDenied => None,
            Some(made) => Some(made?),
            None => None,
        };
        let made = match by_caller {
            Some(made) => made,
            None => {
                // In two steps. A crash between them leaves a file of root, which grants nobody a right.
                let made = make(&OWNER)?;
                let inherits = volume.getattr(dir)?.perm & SETGID != 0;
                let gid = if inherits { made.gid } else { request.gid() };
                let set = SetAttr {
                    uid: Some(request.uid()),
                    gid: Some(gid),
                    perm: Some(made.perm),
                    ..SetAttr::default()
                };
                volume.setattr(&OWNER, made.ino, &set)?
            }
        };
        Ok(volume.give(made.ino)?)
    }

    pub(crate) fn mknod(
        &self,
        volume: &OpenVersion<'_>,
        request: &Request,
        dir: INodeNo,
        name: &[u8],
        mode: NewMode,
        rdev: u32,
    ) -> FuseResult<Attr> {
        let dir = volume.numbers.ino(dir);
        // A mode without a type means a regular file (mknod(2)).
        let bits = if mode.mode & 0o170_000 == 0 { mode.mode | 0o100_000 } else { mode.mode };
        let kind = FileKind::from_mode(bits as u16).ok_or(Errno::EINVAL)?;
        let perm = masked(volume, dir, mode)?;
        let device = matches!(kind, FileKind::CharDevice | FileKind::BlockDevice);
        self.make(volume, request, dir, device && request.uid() != 0, |identity| {
            volume.mknod(identity, dir, name, kind, perm, rdev.into())
        })
    }

    pub(crate) fn mkdir(
        &self,
        volume: &OpenVersion<'_>,
        request: &Request,
        dir: INodeNo,
        name: &[u8],
        mode: NewMode,
    ) -> FuseResult<Attr> {
        let dir = volume.numbers.ino(dir);
        let perm = masked(volume, dir, mode)?;
        self.make(volume, request, dir, false, |identity| volume.mkdir(identity, dir, name, perm))
    }

    pub(crate) fn symlink(
        &self,
        volume: &OpenVersion<'_>,
        request: &Request,
        dir: INodeNo,
        name: &[u8],
        target: &[u8],
    ) -> FuseResult<Attr> {
        let dir = volume.numbers.ino(dir);
        self.make(volume, request, dir, false, |identity| volume.symlink_at(identity, dir, name, target))
    }

    pub(crate) fn create(
        &self,
        volume: &OpenVersion<'_>,
        request: &Request,
        dir: INodeNo,
        name: &[u8],
        mode: NewMode,
        flags: i32,
    ) -> FuseResult<Attr> {
        let dir = volume.numbers.ino(dir);
        let perm = masked(volume, dir, mode)?;
        let made =
            self.make(volume, request, dir, false, |identity| volume.create_file(identity, dir, name, perm));
        match made {
            // Another process may have created the file meanwhile, which is an error only with `O_EXCL`.
            Err(errno) if errno == Errno::EEXIST && flags & O_EXCL == 0 => Ok(volume.give_named(dir, name)?),
            made => made,
        }
    }

    pub(crate) fn link(
        &self,
        volume: &OpenVersion<'_>,
        ino: INodeNo,
        dir: INodeNo,
        name: &[u8],
    ) -> FuseResult<Attr> {
        let (ino, dir) = (volume.numbers.ino(ino), volume.numbers.ino(dir));
        volume.link(&OWNER, ino, dir, name)?;
        Ok(volume.give(ino)?)
    }

    pub(crate) fn unlink(&self, volume: &OpenVersion<'_>, dir: INodeNo, name: &[u8]) -> FuseResult<()> {
        Ok(volume.unlink(&OWNER, volume.numbers.ino(dir), name)?)
    }

    pub(crate) fn rmdir(&self, volume: &OpenVersion<'_>, dir: INodeNo, name: &[u8]) -> FuseResult<()> {
        Ok(volume.rmdir(&OWNER, volume.numbers.ino(dir), name)?)
    }

    pub(crate) fn rename(
        &self,
        volume: &OpenVersion<'_>,
        from: (INodeNo, &[u8]),
        to: (INodeNo, &[u8]),
        flags: RenameFlags,
    ) -> FuseResult<()> {
        let mode = match flags {
            flags if flags.is_empty() => RenameMode::Replace,
            RenameFlags::RENAME_NOREPLACE => RenameMode::NoReplace,
            RenameFlags::RENAME_EXCHANGE => RenameMode::Exchange,
            _ => return Err(Errno::EINVAL),
        };
        let (dir, new_dir) = (volume.numbers.ino(from.0), volume.numbers.ino(to.0));
        Ok(volume.rename_at(&OWNER, dir, from.1, new_dir, to.1, mode)?)
    }
}
