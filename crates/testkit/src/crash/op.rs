//! The content of workloads: one operation, and the call that makes it durable.

use super::fill::fill;
use lanefs::{
    Allocate, Attr, Caller, Code, FileKind, Ino, RenameMode, Result, SetAttr, Time, Volume, XattrMode,
};
use std::fmt;

/// One atomic operation of a volume, by paths. It may fail, depending on the tree; then nothing changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum CrashOp {
    Create(String),
    /// Creates a file with this many bytes and some attributes in one step.
    Whole(String, usize),
    Mkdir(String),
    Symlink(String, String),
    Link(String, String),
    Unlink(String),
    Rmdir(String),
    /// Holds the inode that the path names, until the end.
    Hold(String),
    /// Removes the name of a held file or empty directory, which lives on without one.
    Orphan(String),
    /// Writes to the first inode that has no name.
    WriteOrphan(u64, usize),
    /// Releases the first inode that has no name, which frees it.
    Release,
    Rename(String, String, RenameMode),
    /// Writes this many bytes at a byte; `None`: at the end.
    Write(String, Option<u64>, usize),
    Truncate(String, u64),
    /// Copies a range: a source and a byte of it, a target and a byte of it, and a length.
    Copy(String, u64, String, u64, u64),
    Fallocate(String, Allocate, u64, u64),
    SetAttr(String, SetAttr),
    SetXattr(String, &'static str, usize),
    RemoveXattr(String, &'static str),
    /// Grows the volume to this many bytes. No tree changes by that.
    Grow(u64),
}

/// The call after an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Persist {
    Nothing,
    /// fsync of the operation's file, if it exists.
    File,
    /// fsync of the file's directory.
    Directory,
    Sync,
}

impl Persist {
    pub(super) const ALL: [Persist; 4] = [Persist::Nothing, Persist::File, Persist::Directory, Persist::Sync];
}

/// An operation and the call after it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct CrashStep {
    pub(super) op: CrashOp,
    pub(super) then: Persist,
}

impl fmt::Display for CrashStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.op)?;
        match self.then {
            Persist::Nothing => Ok(()),
            Persist::File => f.write_str(", fsync of it"),
            Persist::Directory => f.write_str(", fsync of its directory"),
            Persist::Sync => f.write_str(", sync"),
        }
    }
}

/// The scope that [`persist`] makes durable.
pub(super) enum Durable {
    Nothing,
    /// Metadata, and the data of this inode.
    File(Ino),
    All,
}

/// Makes one inode durable: all metadata changed so far, and this inode's data.
fn fsync(volume: &Volume, ino: Ino) -> Result<()> {
    volume.fsync(ino, false)
}

/// Executes the call after a step.
///
/// # Errors
/// Those of the volume; a missing inode is none.
pub(super) fn persist(volume: &Volume, step: &CrashStep) -> Result<Durable> {
    let path = step.op.path().as_bytes();
    let found = match step.then {
        Persist::Nothing => return Ok(Durable::Nothing),
        Persist::Sync => return volume.sync().map(|()| Durable::All),
        Persist::File => volume.resolve_no_follow(path).map(|attr| attr.ino),
        Persist::Directory => volume.resolve_parent(path).map(|(dir, _)| dir),
    };
    match found {
        Ok(ino) => fsync(volume, ino).map(|()| Durable::File(ino)),
        Err(error) => ordinary::<()>(Err(error)).map(|()| Durable::Nothing),
    }
}

/// Failures that a sound volume may report are not errors.
fn ordinary<T>(answer: Result<T>) -> Result<()> {
    match answer {
        Ok(_) => Ok(()),
        Err(error) if error.is_damage() || error.code() == Code::Io => Err(error),
        Err(lanefs::Error::Damaged { at, why }) => Err(lanefs::Error::Damaged { at, why }),
        Err(_) => Ok(()),
    }
}

impl CrashOp {
    /// The path that an fsync after the operation syncs.
    fn path(&self) -> &str {
        match self {
            CrashOp::Create(path)
            | CrashOp::Whole(path, _)
            | CrashOp::Mkdir(path)
            | CrashOp::Symlink(path, _)
            | CrashOp::Link(_, path)
            | CrashOp::Unlink(path)
            | CrashOp::Rmdir(path)
            | CrashOp::Rename(_, path, _)
            | CrashOp::Write(path, ..)
            | CrashOp::Truncate(path, _)
            | CrashOp::Copy(_, _, path, ..)
            | CrashOp::Fallocate(path, ..)
            | CrashOp::SetAttr(path, _)
            | CrashOp::SetXattr(path, ..)
            | CrashOp::Hold(path)
            | CrashOp::Orphan(path)
            | CrashOp::RemoveXattr(path, _) => path,
            // They concern no path.
            CrashOp::WriteOrphan(..) | CrashOp::Release | CrashOp::Grow(_) => "/a",
        }
    }

    /// Executes the operation; its data bear `stamp`.
    ///
    /// # Errors
    /// Damage and failures of the device.
    pub(super) fn apply(&self, volume: &Volume, stamp: u32) -> Result<()> {
        ordinary(self.run(volume, stamp))
    }

    fn run(&self, volume: &Volume, stamp: u32) -> Result<()> {
        let caller = &Caller::OWNER;
        let inode = |path: &str| -> Result<Attr> { volume.resolve_no_follow(path) };
        let (dir, name) = volume.resolve_parent(self.path().as_bytes())?;
        match self {
            CrashOp::Create(_) => volume.create_file(caller, dir, name, 0o644).map(drop),
            CrashOp::Whole(_, len) => {
                let set = some_attributes(stamp.into());
                volume.create_whole(caller, dir, name, &fill(stamp, 0, *len), &set).map(drop)
            }
            CrashOp::Mkdir(_) => volume.mkdir(caller, dir, name, 0o755).map(drop),
            CrashOp::Symlink(_, target) => volume.symlink_at(caller, dir, name, target.as_bytes()).map(drop),
            CrashOp::Link(from, _) => volume.link(caller, inode(from)?.ino, dir, name).map(drop),
            CrashOp::Unlink(_) => volume.unlink(caller, dir, name),
            CrashOp::Rmdir(_) => volume.rmdir(caller, dir, name),
            CrashOp::Hold(path) => volume.hold(inode(path)?.ino).map(drop),
            CrashOp::Orphan(_) => {
                let attr = volume.lookup_held(caller, dir, name)?;
                match attr.kind {
                    FileKind::Directory => volume.rmdir(caller, dir, name),
                    _ => volume.unlink(caller, dir, name),
                }
            }
            CrashOp::WriteOrphan(at, len) => match first_orphan(volume)? {
                Some(ino) => volume.write(caller, ino, *at, &fill(stamp, *at, *len)).map(drop),
                None => Ok(()),
            },
            CrashOp::Release => first_orphan(volume)?.map_or(Ok(()), |ino| volume.release(ino, u64::MAX)),
            CrashOp::Rename(from, _, mode) => {
                let (from, old) = volume.resolve_parent(from.as_bytes())?;
                volume.rename_at(caller, from, old, dir, name, *mode)
            }
            CrashOp::Write(path, at, len) => {
                let attr = inode(path)?;
                let at = at.unwrap_or(attr.size);
                volume.write(caller, attr.ino, at, &fill(stamp, at, *len)).map(drop)
            }
            CrashOp::Truncate(path, size) => {
                let set = SetAttr { size: Some(*size), ..SetAttr::default() };
                volume.setattr(caller, inode(path)?.ino, &set).map(drop)
            }
            CrashOp::Copy(from, from_at, to, at, len) => {
                let (source, target) = (inode(from)?.ino, inode(to)?.ino);
                volume.copy_range(caller, source, *from_at, target, *at, *len).map(drop)
            }
            CrashOp::Fallocate(path, mode, at, len) => {
                volume.fallocate(caller, inode(path)?.ino, *mode, *at, *len)
            }
            CrashOp::SetAttr(path, set) => volume.setattr(caller, inode(path)?.ino, set).map(drop),
            CrashOp::SetXattr(path, name, len) => {
                let value = fill(stamp, 0, *len);
                volume.setxattr(caller, inode(path)?.ino, name.as_bytes(), &value, XattrMode::Set)
            }
            CrashOp::Grow(size) => volume.grow(*size),
            CrashOp::RemoveXattr(path, name) => volume.removexattr(caller, inode(path)?.ino, name.as_bytes()),
        }
    }
}

/// Returns a held inode without a name.
fn first_orphan(volume: &Volume) -> Result<Option<Ino>> {
    let list = Ino(volume.superblock().orphans);
    // Its own entry is in the list as well.
    let entries = volume.readdir(&Caller::OWNER, list, 0, 2)?;
    Ok(entries.iter().map(|entry| entry.ino).find(|ino| *ino != list))
}

/// Changes of attributes that workloads make.
pub(super) fn some_attributes(number: u64) -> SetAttr {
    match number % 3 {
        0 => SetAttr { perm: Some(0o600 | number as u16 & 0o77), ..SetAttr::default() },
        1 => SetAttr { uid: Some(1000 + number as u32), gid: Some(7), ..SetAttr::default() },
        _ => SetAttr { mtime: Some(Time(1_000_000_007 * number as i64)), ..SetAttr::default() },
    }
}
