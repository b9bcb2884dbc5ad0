//! The calls that a program can make on a volume wherever its engine runs: in this process, or in the process
//! that serves a mount.

use crate::batches::bulk::{Applied, Change};
use crate::by_path::tree::MkdirAll;
use crate::running::volume::Volume;
use crate::vocabulary::error::{Error, Result};
use crate::vocabulary::types::{
    Attr, Caller, Description, DirEntry, Ino, RenameMode, Resolution, ResolveOptions, Seek, SetAttr,
    XattrMode,
};
use lanefs_format::{Code, FileKind};

const OWNER: &Caller = &Caller::OWNER;

/// Calls on a volume, as its owner ([`Caller::OWNER`]).
///
/// Each call does the same as [`Volume`]'s of this name, with the same errors. An implementation that reaches
/// the volume through another process also fails with [`Error::Io`] where that process does not reply.
#[allow(missing_docs, reason = "the calls of `Volume` with these names have the documentation")]
pub trait FileSystem: Sync {
    fn root(&self) -> Ino;

    /// Returns the size of the volume in bytes.
    ///
    /// # Errors
    /// As [`Volume::statfs`].
    fn size(&self) -> Result<u64>;

    /// Returns the number of inodes in use; `None` where the implementation does not know it.
    ///
    /// # Errors
    /// As [`Volume::statfs`].
    fn inodes(&self) -> Result<Option<u64>> {
        Ok(None)
    }

    /// Resolves a path that starts in `base` where it is relative, with attributes.
    ///
    /// # Errors
    /// As [`Volume::resolve_batch`]; all others are in the result.
    fn resolve_at(&self, base: Ino, path: &[u8], follow: bool) -> Result<Resolution>;

    /// Returns the attributes of the inode that a path names. Symbolic links are followed.
    ///
    /// # Errors
    /// As [`Volume::resolve`].
    fn resolve(&self, path: &[u8]) -> Result<Attr> {
        attributes(self, path, true)
    }

    /// Resolves as [`resolve`](Self::resolve) does, but does not follow a symbolic link in the last
    /// component.
    ///
    /// # Errors
    /// As [`Volume::resolve`].
    fn resolve_no_follow(&self, path: &[u8]) -> Result<Attr> {
        attributes(self, path, false)
    }

    fn lookup(&self, dir: Ino, name: &[u8]) -> Result<(Ino, FileKind)>;
    fn getattr(&self, ino: Ino) -> Result<Attr>;
    fn describe_inodes(&self, inos: &[Ino]) -> Result<Vec<Option<Description>>>;
    fn setattr(&self, ino: Ino, set: SetAttr) -> Result<Attr>;
    fn create_file(&self, dir: Ino, name: &[u8], perm: u16) -> Result<Attr>;
    fn mknod(&self, dir: Ino, name: &[u8], kind: FileKind, perm: u16, rdev: u64) -> Result<Attr>;
    fn mkdir(&self, dir: Ino, name: &[u8], perm: u16) -> Result<Attr>;

    /// Creates a file with its content and attributes in one step; `None` also where the implementation has
    /// no such step.
    ///
    /// # Errors
    /// As [`Volume::create_whole`].
    fn create_whole(&self, dir: Ino, name: &[u8], content: &[u8], set: &SetAttr) -> Result<Option<Attr>> {
        let _ = (dir, name, content, set);
        Ok(None)
    }

    /// Makes a directory and the missing ones above it.
    ///
    /// # Errors
    /// As [`Volume::mkdir_all_with`].
    fn mkdir_all(&self, options: MkdirAll, path: &[u8]) -> Result<Attr>;

    fn symlink(&self, dir: Ino, name: &[u8], target: &[u8]) -> Result<Attr>;
    fn readlink(&self, ino: Ino) -> Result<Vec<u8>>;
    fn link(&self, ino: Ino, dir: Ino, name: &[u8]) -> Result<Attr>;
    fn unlink(&self, dir: Ino, name: &[u8]) -> Result<()>;
    fn rename(&self, from: Ino, name: &[u8], to: Ino, new_name: &[u8], mode: RenameMode) -> Result<()>;

    /// Lists entries after `cookie`: at most `max` of them, and at least one where there is one.
    ///
    /// # Errors
    /// As [`Volume::readdir`].
    fn readdir(&self, dir: Ino, cookie: u64, max: usize) -> Result<Vec<DirEntry>>;

    fn read(&self, ino: Ino, offset: u64, buffer: &mut [u8]) -> Result<usize>;

    /// Fetches the content of files that the caller reads next, as [`Volume::bring_files`]. An implementation
    /// may do nothing, and return their number.
    fn bring_files(&self, files: &[Ino]) -> usize {
        files.len()
    }

    /// Fetches what the caller looks up next, as [`Volume::bring_names`]. An implementation may do nothing.
    fn bring_names(&self, names: &[(Ino, &[u8])]) {
        let _ = names;
    }

    /// Writes all of `data`; in an implementation through another process, an error leaves a part written.
    ///
    /// # Errors
    /// As [`Volume::write`].
    fn write(&self, ino: Ino, offset: u64, data: &[u8]) -> Result<usize>;

    fn replace(&self, ino: Ino, content: &[u8]) -> Result<bool>;
    fn seek(&self, ino: Ino, offset: u64, what: Seek) -> Result<u64>;
    fn getxattr(&self, ino: Ino, name: &[u8]) -> Result<Vec<u8>>;
    fn setxattr(&self, ino: Ino, name: &[u8], value: &[u8], mode: XattrMode) -> Result<()>;
    fn listxattr(&self, ino: Ino) -> Result<Vec<Vec<u8>>>;
    fn removexattr(&self, ino: Ino, name: &[u8]) -> Result<()>;
    fn apply(&self, base: Ino, changes: &[Change<'_>]) -> Result<Vec<Applied>>;
    fn sync(&self) -> Result<()>;
}

fn attributes(volume: &(impl FileSystem + ?Sized), path: &[u8], follow: bool) -> Result<Attr> {
    let named = |error: Error| error.at(String::from_utf8_lossy(path));
    let found = volume.resolve_at(volume.root(), path, follow).map_err(named)?;
    match (found.code, found.attr) {
        (Code::Success, Some(attr)) => Ok(attr),
        (Code::Success, None) => Err(named(Code::NotFound.into())),
        (code, _) => Err(named(code.into())),
    }
}

impl FileSystem for Volume {
    fn root(&self) -> Ino {
        self.root()
    }

    fn size(&self) -> Result<u64> {
        self.statfs().map(|space| space.blocks.saturating_mul(space.block_size))
    }

    fn inodes(&self) -> Result<Option<u64>> {
        Ok(Some(self.statfs()?.inodes))
    }

    fn resolve_at(&self, base: Ino, path: &[u8], follow: bool) -> Result<Resolution> {
        let options = ResolveOptions { base: Some(base), follow, attributes: true, caller: Caller::OWNER };
        let answers = self.resolve_batch(&options, &[path])?;
        let none = Resolution { code: Code::NotFound, ino: None, kind: None, attr: None };
        Ok(answers.first().copied().unwrap_or(none))
    }

    fn resolve(&self, path: &[u8]) -> Result<Attr> {
        self.resolve(path)
    }

    fn resolve_no_follow(&self, path: &[u8]) -> Result<Attr> {
        self.resolve_no_follow(path)
    }

    fn lookup(&self, dir: Ino, name: &[u8]) -> Result<(Ino, FileKind)> {
        self.lookup(OWNER, dir, name)
    }

    fn getattr(&self, ino: Ino) -> Result<Attr> {
        self.getattr(ino)
    }

    fn describe_inodes(&self, inos: &[Ino]) -> Result<Vec<Option<Description>>> {
        self.describe_inodes(inos)
    }

    fn setattr(&self, ino: Ino, set: SetAttr) -> Result<Attr> {
        self.setattr(OWNER, ino, &set)
    }

    fn create_file(&self, dir: Ino, name: &[u8], perm: u16) -> Result<Attr> {
        self.create_file(OWNER, dir, name, perm)
    }

    fn create_whole(&self, dir: Ino, name: &[u8], content: &[u8], set: &SetAttr) -> Result<Option<Attr>> {
        self.create_whole(OWNER, dir, name, content, set)
    }

    fn mknod(&self, dir: Ino, name: &[u8], kind: FileKind, perm: u16, rdev: u64) -> Result<Attr> {
        self.mknod(OWNER, dir, name, kind, perm, rdev)
    }

    fn mkdir(&self, dir: Ino, name: &[u8], perm: u16) -> Result<Attr> {
        self.mkdir(OWNER, dir, name, perm)
    }

    fn mkdir_all(&self, options: MkdirAll, path: &[u8]) -> Result<Attr> {
        self.mkdir_all_with(&options, path)
    }

    fn symlink(&self, dir: Ino, name: &[u8], target: &[u8]) -> Result<Attr> {
        self.symlink_at(OWNER, dir, name, target)
    }

    fn readlink(&self, ino: Ino) -> Result<Vec<u8>> {
        self.readlink(ino)
    }

    fn link(&self, ino: Ino, dir: Ino, name: &[u8]) -> Result<Attr> {
        self.link(OWNER, ino, dir, name)
    }

    fn unlink(&self, dir: Ino, name: &[u8]) -> Result<()> {
        self.unlink(OWNER, dir, name)
    }

    fn rename(&self, from: Ino, name: &[u8], to: Ino, new_name: &[u8], mode: RenameMode) -> Result<()> {
        self.rename_at(OWNER, from, name, to, new_name, mode)
    }

    fn readdir(&self, dir: Ino, cookie: u64, max: usize) -> Result<Vec<DirEntry>> {
        self.readdir(OWNER, dir, cookie, max)
    }

    fn read(&self, ino: Ino, offset: u64, buffer: &mut [u8]) -> Result<usize> {
        self.read(OWNER, ino, offset, buffer)
    }

    fn bring_files(&self, files: &[Ino]) -> usize {
        self.bring_files(files)
    }

    fn bring_names(&self, names: &[(Ino, &[u8])]) {
        self.bring_names(names);
    }

    fn write(&self, ino: Ino, offset: u64, data: &[u8]) -> Result<usize> {
        self.write(OWNER, ino, offset, data)
    }

    fn replace(&self, ino: Ino, content: &[u8]) -> Result<bool> {
        self.replace(ino, content)
    }

    fn seek(&self, ino: Ino, offset: u64, what: Seek) -> Result<u64> {
        self.seek(ino, offset, what)
    }

    fn getxattr(&self, ino: Ino, name: &[u8]) -> Result<Vec<u8>> {
        self.getxattr(OWNER, ino, name)
    }

    fn setxattr(&self, ino: Ino, name: &[u8], value: &[u8], mode: XattrMode) -> Result<()> {
        self.setxattr(OWNER, ino, name, value, mode)
    }

    fn listxattr(&self, ino: Ino) -> Result<Vec<Vec<u8>>> {
        self.listxattr(ino)
    }

    fn removexattr(&self, ino: Ino, name: &[u8]) -> Result<()> {
        self.removexattr(OWNER, ino, name)
    }

    fn apply(&self, base: Ino, changes: &[Change<'_>]) -> Result<Vec<Applied>> {
        self.apply(base, changes)
    }

    fn sync(&self) -> Result<()> {
        self.sync()
    }
}
