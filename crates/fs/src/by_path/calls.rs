//! Calls by path, for programs that use a volume as a library. They act as [`Caller::OWNER`], and their
//! errors name the path. Each is one operation: no other thread comes between its parts.

use super::steps::{DIRECTORY_PERM, Step};
use crate::attempt::Core;
use crate::by_inode::ops;
use crate::files::inode::Inode;
use crate::files::xattr;
use crate::names::lookup;
use crate::names::resolve::{self, Start};
use crate::running::volume::Volume;
use crate::vocabulary::as_path::AsPath;
use crate::vocabulary::error::{Error, Outcome, Result};
use crate::vocabulary::path::{self, show};
use crate::vocabulary::types::{Attr, Caller, Ino, RenameMode, SetAttr};
use lanefs_format::{Code, FileKind};

/// # Names and attributes, by path
impl Volume {
    pub(crate) fn start_at_root(&self) -> Start<'static> {
        let root = self.root().0;
        Start { root, base: root, follow: true, caller: &Caller::OWNER }
    }

    /// Runs a read-only operation on the inode that a path names.
    fn view_at<T>(
        &self,
        path: &[u8],
        follow: bool,
        mut operation: impl FnMut(&Core<'_>, Inode<'_>) -> Outcome<T>,
    ) -> Result<T> {
        let start = Start { follow, ..self.start_at_root() };
        self.view(|core| {
            let (ino, _) = resolve::resolve(core, &start, path)?;
            operation(core, Inode::load(core, ino)?)
        })
        .map_err(|error| error.at(show(path)))
    }

    /// Returns the attributes of the inode that a path names. Symbolic links are followed.
    ///
    /// # Errors
    /// [`Code::NotFound`], [`Code::ComponentNotFound`], [`Code::NotDirectory`], [`Code::SymlinkLoop`].
    pub fn resolve(&self, path: impl AsPath) -> Result<Attr> {
        self.view_at(path.as_path(), true, |_, node| node.attr())
    }

    /// Resolves as [`resolve`](Self::resolve) does, but does not follow a symbolic link in the last
    /// component.
    ///
    /// # Errors
    /// As [`resolve`](Self::resolve).
    pub fn resolve_no_follow(&self, path: impl AsPath) -> Result<Attr> {
        self.view_at(path.as_path(), false, |_, node| node.attr())
    }

    /// The attributes of the inode that a path names, as [`std::fs::metadata`]: [`resolve`](Self::resolve)
    /// under the standard library's name.
    ///
    /// # Errors
    /// As [`resolve`](Self::resolve).
    pub fn metadata(&self, path: impl AsPath) -> Result<Attr> {
        self.resolve(path)
    }

    /// As [`metadata`](Self::metadata), of a symbolic link itself.
    ///
    /// # Errors
    /// As [`resolve`](Self::resolve).
    pub fn symlink_metadata(&self, path: impl AsPath) -> Result<Attr> {
        self.resolve_no_follow(path)
    }

    /// True where a path names an inode. Symbolic links are followed; one that leads nowhere does not exist.
    ///
    /// # Errors
    /// Those of the device and of a damaged volume; [`Code::SymlinkLoop`].
    pub fn exists(&self, path: impl AsPath) -> Result<bool> {
        match self.resolve(path) {
            Ok(_) => Ok(true),
            Err(error) if error.is_not_found() || error.code() == Code::NotDirectory => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Returns the directory that holds, or would hold, the last component of a path, and that component.
    ///
    /// # Errors
    /// [`Code::Invalid`] for a path without components (`/`); those of [`resolve`](Self::resolve) for the
    /// directory.
    pub fn resolve_parent<'p>(&self, path: &'p [u8]) -> Result<(Ino, &'p [u8])> {
        let invalid = || Error::from(Code::Invalid).at(show(path));
        let (dir, name) = path::split_last(path).ok_or_else(invalid)?;
        let parent = if dir.is_empty() { self.getattr(self.root())? } else { self.resolve(dir)? };
        if parent.kind != FileKind::Directory {
            return Err(Error::from(Code::NotDirectory).at(show(dir)));
        }
        Ok((parent.ino, name))
    }

    /// Makes a directory of mode 0755.
    ///
    /// # Errors
    /// [`Code::Exists`], [`Code::NoSpace`]; those of [`resolve`](Self::resolve) for the directory above it.
    pub fn create_dir(&self, path: impl AsPath) -> Result<Attr> {
        self.do_step_on_inode(&Step::MakeDir { path: path.as_path(), perm: DIRECTORY_PERM })
    }

    /// Removes a name that is not a directory's. The inode is freed with its last name and its last holder.
    ///
    /// # Errors
    /// [`Code::NotFound`], [`Code::IsDirectory`]; those of [`resolve`](Self::resolve) for the directory.
    pub fn remove_file(&self, path: impl AsPath) -> Result<()> {
        self.do_step(&Step::RemoveFile { path: path.as_path() }).map(drop)
    }

    /// Removes an empty directory. [`remove_all`](Self::remove_all) removes a whole tree.
    ///
    /// # Errors
    /// [`Code::NotFound`], [`Code::NotDirectory`], [`Code::NotEmpty`]; [`Code::Busy`] for the root directory.
    pub fn remove_dir(&self, path: impl AsPath) -> Result<()> {
        self.do_step(&Step::RemoveDir { path: path.as_path() }).map(drop)
    }

    /// Gives a file or directory another name. A file or an empty directory that has the new name is
    /// replaced, as by [`std::fs::rename`]. [`rename_at`](Self::rename_at) is the call by inode number.
    ///
    /// # Errors
    /// [`Code::NotFound`]; [`Code::Invalid`] for a directory into itself; [`Code::NotEmpty`],
    /// [`Code::IsDirectory`], [`Code::NotDirectory`] for a new name that cannot be replaced.
    pub fn rename(&self, from: impl AsPath, to: impl AsPath) -> Result<()> {
        self.rename_with(from, to, RenameMode::Replace)
    }

    /// Renames as [`rename`](Self::rename), with another treatment of an existing name.
    ///
    /// # Errors
    /// As [`rename`](Self::rename); [`Code::Exists`] with [`RenameMode::NoReplace`].
    pub fn rename_with(&self, from: impl AsPath, to: impl AsPath, mode: RenameMode) -> Result<()> {
        self.do_step(&Step::Rename { from: from.as_path(), to: to.as_path(), mode }).map(drop)
    }

    /// Gives the inode that `original` names a further name. A symbolic link there is not followed.
    ///
    /// # Errors
    /// [`Code::Exists`]; [`Code::NotPermitted`] for a directory; [`Code::TooManyLinks`]; [`Code::NoSpace`].
    pub fn hard_link(&self, original: impl AsPath, link: impl AsPath) -> Result<Attr> {
        self.do_step_on_inode(&Step::HardLink { of: original.as_path(), path: link.as_path() })
    }

    /// Makes a symbolic link with this target, of 1 to 4095 bytes. [`symlink_at`](Self::symlink_at) is the
    /// call by inode number.
    ///
    /// # Errors
    /// [`Code::Exists`], [`Code::NameTooLong`], [`Code::NoSpace`].
    pub fn symlink(&self, target: impl AsPath, link: impl AsPath) -> Result<Attr> {
        self.do_step_on_inode(&Step::Symlink { target: target.as_path(), path: link.as_path() })
    }

    /// Reads the target of a symbolic link.
    ///
    /// # Errors
    /// [`Code::Invalid`] for any other inode; those of [`resolve`](Self::resolve).
    pub fn read_link(&self, path: impl AsPath) -> Result<Vec<u8>> {
        self.view_at(path.as_path(), false, |core, node| lookup::readlink(core, node.ino))
    }

    /// Changes attributes. Symbolic links are followed.
    ///
    /// # Errors
    /// Those of [`resolve`](Self::resolve); [`Code::Invalid`] for a size of an inode that is not a file.
    pub fn set_attributes(&self, path: impl AsPath, set: &SetAttr) -> Result<Attr> {
        self.do_step_on_inode(&Step::SetAttributes { path: path.as_path(), set: *set })
    }

    /// Sets the low 12 bits of the mode. Symbolic links are followed.
    ///
    /// # Errors
    /// Those of [`resolve`](Self::resolve).
    pub fn set_permissions(&self, path: impl AsPath, perm: u16) -> Result<Attr> {
        self.set_attributes(path, &SetAttr { perm: Some(perm), ..SetAttr::default() })
    }

    /// Returns the value of an extended attribute; names include their name space, such as `user.`.
    ///
    /// # Errors
    /// [`Code::NoAttribute`]; those of [`resolve`](Self::resolve).
    pub fn xattr(&self, path: impl AsPath, name: impl AsRef<[u8]>) -> Result<Vec<u8>> {
        self.view_at(path.as_path(), true, |core, node| {
            ops::getxattr(core, &Caller::OWNER, Ino(node.ino), name.as_ref())
        })
    }

    /// Lists the names of all extended attributes.
    ///
    /// # Errors
    /// Those of [`resolve`](Self::resolve).
    pub fn xattrs(&self, path: impl AsPath) -> Result<Vec<Vec<u8>>> {
        self.view_at(path.as_path(), true, xattr::list)
    }

    /// Sets an extended attribute, as [`setxattr`](Self::setxattr).
    ///
    /// # Errors
    /// [`Code::AttributeTooLarge`], [`Code::NoSpace`]; those of [`resolve`](Self::resolve).
    pub fn set_xattr(
        &self,
        path: impl AsPath,
        name: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
    ) -> Result<()> {
        let (name, value) = (name.as_ref(), value.as_ref());
        self.do_step(&Step::SetXattr { path: path.as_path(), name, value }).map(drop)
    }

    /// Removes an extended attribute.
    ///
    /// # Errors
    /// [`Code::NoAttribute`]; those of [`resolve`](Self::resolve).
    pub fn remove_xattr(&self, path: impl AsPath, name: impl AsRef<[u8]>) -> Result<()> {
        self.do_step(&Step::RemoveXattr { path: path.as_path(), name: name.as_ref() }).map(drop)
    }
}
