//! Names: looking up, making, renaming and removing them.

use crate::errno::{Errno, FuseResult};
use crate::served::Served;
use fuser::{INodeNo, RenameFlags, Request};
use lanefs::{Attr, Caller, Code, FileKind, Ino, RenameMode, SetAttr, Volume};

const OWNER: Caller = Caller::OWNER;
/// Write and search permission of one class.
const WRITE_SEARCH: u16 = 0o3;
const SETGID: u16 = 0o2000;
/// `O_EXCL` of `open(2)`.
const O_EXCL: i32 = 0o200;

/// The permission bits of a mode.
fn perm(mode: u32) -> u16 {
    (mode & 0o7777) as u16
}

/// As whom the volume is to make something in `dir`, so that it belongs to whoever asked.
///
/// The kernel has decided already that this is allowed, but the volume will look at the permissions again, and does not know the
/// caller's groups. So it is told of the group that explains the kernel's decision. `None` where only a privilege does.
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
    /// The attributes of what a name stands for, which is held from now on; `None` where there is no such name.
    pub(crate) fn lookup(&self, volume: &Volume, dir: INodeNo, name: &[u8]) -> FuseResult<Option<Attr>> {
        let dir = self.numbers.ino(dir);
        // Asked for by NFS, of any inode whatever.
        if name == b"." {
            return Ok(Some(volume.hold(dir)?));
        }
        match volume.lookup_held(&OWNER, dir, name) {
            Ok(attr) => Ok(Some(attr)),
            Err(error) if error.code() == Code::NotFound => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Makes something in `dir` that belongs to whoever asked, and holds it.
    fn make(
        &self,
        volume: &Volume,
        request: &Request,
        dir: Ino,
        privileged: bool,
        make: impl Fn(&Caller) -> lanefs::Result<Attr>,
    ) -> FuseResult<Attr> {
        let who = if privileged { None } else { creator(volume, request, dir)? };
        let made = match who {
            Some(who) => make(&who)?,
            None => {
                // Two steps, where a crash between them leaves what root owns: right, if not yet whole.
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
        Ok(volume.hold(made.ino)?)
    }

    pub(crate) fn mknod(
        &self,
        volume: &Volume,
        request: &Request,
        dir: INodeNo,
        name: &[u8],
        mode: u32,
        rdev: u32,
    ) -> FuseResult<Attr> {
        let dir = self.numbers.ino(dir);
        // Without a type it is a regular file, as mknod(2) says.
        let bits = if mode & 0o170_000 == 0 { mode | 0o100_000 } else { mode };
        let kind = FileKind::from_mode(bits as u16).ok_or(Errno::EINVAL)?;
        let device = matches!(kind, FileKind::CharDevice | FileKind::BlockDevice);
        self.make(volume, request, dir, device && request.uid() != 0, |who| {
            volume.mknod(who, dir, name, kind, perm(mode), rdev.into())
        })
    }

    pub(crate) fn mkdir(
        &self,
        volume: &Volume,
        request: &Request,
        dir: INodeNo,
        name: &[u8],
        mode: u32,
    ) -> FuseResult<Attr> {
        let dir = self.numbers.ino(dir);
        self.make(volume, request, dir, false, |who| volume.mkdir(who, dir, name, perm(mode)))
    }

    pub(crate) fn symlink(
        &self,
        volume: &Volume,
        request: &Request,
        dir: INodeNo,
        name: &[u8],
        target: &[u8],
    ) -> FuseResult<Attr> {
        let dir = self.numbers.ino(dir);
        self.make(volume, request, dir, false, |who| volume.symlink(who, dir, name, target))
    }

    pub(crate) fn create(
        &self,
        volume: &Volume,
        request: &Request,
        dir: INodeNo,
        name: &[u8],
        mode: u32,
        flags: i32,
    ) -> FuseResult<Attr> {
        let dir = self.numbers.ino(dir);
        let made =
            self.make(volume, request, dir, false, |who| volume.create_file(who, dir, name, perm(mode)));
        match made {
            // Somebody else may have made it meanwhile, which is well unless it must not exist.
            Err(errno) if errno == Errno::EEXIST && flags & O_EXCL == 0 => {
                Ok(volume.lookup_held(&OWNER, dir, name)?)
            }
            made => made,
        }
    }

    pub(crate) fn link(&self, volume: &Volume, ino: INodeNo, dir: INodeNo, name: &[u8]) -> FuseResult<Attr> {
        let (ino, dir) = (self.numbers.ino(ino), self.numbers.ino(dir));
        volume.link(&OWNER, ino, dir, name)?;
        Ok(volume.hold(ino)?)
    }

    pub(crate) fn unlink(&self, volume: &Volume, dir: INodeNo, name: &[u8]) -> FuseResult<()> {
        Ok(volume.unlink(&OWNER, self.numbers.ino(dir), name)?)
    }

    pub(crate) fn rmdir(&self, volume: &Volume, dir: INodeNo, name: &[u8]) -> FuseResult<()> {
        Ok(volume.rmdir(&OWNER, self.numbers.ino(dir), name)?)
    }

    pub(crate) fn rename(
        &self,
        volume: &Volume,
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
        let (dir, new_dir) = (self.numbers.ino(from.0), self.numbers.ino(to.0));
        Ok(volume.rename(&OWNER, dir, from.1, new_dir, to.1, mode)?)
    }
}
