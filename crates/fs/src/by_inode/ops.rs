//! Calls by inode number and single names. Each is one atomic operation.

use super::pieces::{self, FileState, in_one_state, read_state};
use crate::attempt::Core;
use crate::attempt::edit::Edit;
use crate::files::inode::Inode;
use crate::files::perm::{self, READ, WRITE, access};
use crate::files::{attr, data, lists, xattr};
use crate::names::{dir, lookup, namespace};
use crate::running::volume::Volume;
use crate::vocabulary::acl::{Acl, AclKind};
use crate::vocabulary::error::{Outcome, Result};
use crate::vocabulary::notice::Changed;
use crate::vocabulary::types::{
    AccessTimes, Allocate, Attr, Caller, Description, DirEntry, FileExtent, Ino, RenameMode, Seek, SetAttr,
    Time, XattrMode,
};
use lanefs_format::{Code, FileKind, inode as f};
use lanefs_store::Fault;

/// Loads the inode of a regular file.
pub(crate) fn regular<'a>(core: &Core<'a>, ino: Ino) -> std::result::Result<Inode<'a>, Fault> {
    let node = Inode::load(core, ino.0)?;
    match node.kind()? {
        FileKind::File => Ok(node),
        FileKind::Directory => Err(Code::IsDirectory.into()),
        _ => Err(Code::Invalid.into()),
    }
}

/// Checks that a caller may change an extended attribute: some name spaces require privilege.
fn may_change_xattr(core: &Core<'_>, caller: &Caller, node: &Inode<'_>, name: &[u8]) -> Outcome<()> {
    xattr::check_name(name)?;
    if name.starts_with(b"user.") {
        // Only files and directories have attributes of users; in a sticky directory only the owner sets
        // them.
        let kind = node.kind()?;
        let sticky = kind == FileKind::Directory && node.mode() & perm::STICKY != 0;
        if !matches!(kind, FileKind::File | FileKind::Directory) || (sticky && !perm::owns(caller, node)) {
            return Err(Code::NotPermitted.into());
        }
        return access(core, caller, node, WRITE);
    }
    let privileged = name.starts_with(b"trusted.") || !perm::owns(caller, node);
    if perm::checked(caller).is_some() && privileged { Err(Code::NotPermitted.into()) } else { Ok(()) }
}

/// Checks that a caller may read an extended attribute. One that it may not see does not exist for it.
fn may_read_xattr(core: &Core<'_>, caller: &Caller, node: &Inode<'_>, name: &[u8]) -> Outcome<()> {
    xattr::check_name(name)?;
    if name.starts_with(b"user.") {
        if !matches!(node.kind()?, FileKind::File | FileKind::Directory) {
            return Err(Code::NoAttribute.into());
        }
        return access(core, caller, node, READ);
    }
    if name.starts_with(b"trusted.") && perm::checked(caller).is_some() {
        return Err(Code::NoAttribute.into());
    }
    Ok(())
}

/// Sets or removes an access control list. The set-group-id bit goes where the caller is not in the group, as
/// with chmod.
fn set_acl(
    edit: &mut Edit<'_>,
    caller: &Caller,
    node: Inode<'_>,
    kind: AclKind,
    acl: Option<Acl>,
) -> Outcome<()> {
    let sets_mode = kind == AclKind::Access && acl.is_some();
    lists::set(edit, node, kind, acl)?;
    let is_stranger = perm::checked(caller).is_some_and(|user| !user.in_group(node.view.get(f::GID)));
    if sets_mode && is_stranger {
        edit.tx.put(node.view, f::MODE, node.mode() & !perm::SETGID);
    }
    Ok(())
}

pub(crate) fn set_xattr(
    edit: &mut Edit<'_>,
    caller: &Caller,
    node: Inode<'_>,
    name: &[u8],
    value: &[u8],
    mode: XattrMode,
) -> Outcome<()> {
    xattr::check_name(name)?;
    if value.len() > xattr::MAX_VALUE {
        return Err(Code::AttributeTooLarge.into());
    }
    may_change_xattr(edit.core, caller, &node, name)?;
    match AclKind::of(name) {
        Some(kind) => set_acl(edit, caller, node, kind, Acl::parse(value)?),
        None => xattr::set(edit, node, name, Some(value), mode),
    }
}

pub(crate) fn remove_xattr(
    edit: &mut Edit<'_>,
    caller: &Caller,
    node: Inode<'_>,
    name: &[u8],
) -> Outcome<()> {
    may_change_xattr(edit.core, caller, &node, name)?;
    match AclKind::of(name) {
        Some(kind) => set_acl(edit, caller, node, kind, None),
        None => xattr::set(edit, node, name, None, XattrMode::Replace),
    }
}

pub(crate) fn getattr(core: &Core<'_>, ino: Ino) -> Outcome<Attr> {
    Inode::load(core, ino.0)?.attr()
}

pub(crate) fn readdir(
    core: &Core<'_>,
    caller: &Caller,
    dir: Ino,
    cookie: u64,
    max: usize,
) -> Outcome<Vec<DirEntry>> {
    let node = Inode::directory(core, dir.0)?;
    access(core, caller, &node, READ)?;
    dir::list(core, node, cookie, max)
}

pub(crate) fn read(
    core: &Core<'_>,
    caller: &Caller,
    ino: Ino,
    offset: u64,
    buffer: &mut [u8],
) -> Outcome<usize> {
    let node = regular(core, ino)?;
    access(core, caller, &node, READ)?;
    data::read(core, node, offset, buffer)
}

pub(crate) fn getxattr(core: &Core<'_>, caller: &Caller, ino: Ino, name: &[u8]) -> Outcome<Vec<u8>> {
    let node = Inode::load(core, ino.0)?;
    may_read_xattr(core, caller, &node, name)?;
    xattr::get(core, node, name)
}

/// # Calls by inode number and single names
impl Volume {
    /// Runs a change that removes names, which must not fail because the volume is full.
    fn change_names<T>(&self, mut operation: impl FnMut(&mut Edit<'_>) -> Outcome<T>) -> Result<T> {
        match self.change(&mut operation) {
            Err(error) if error.code() == Code::NoSpace => self.change(|edit| {
                edit.may_list = false;
                operation(edit)
            }),
            done => done,
        }
    }

    /// Looks up the inode and type of a name in a directory, including `.` and `..`.
    ///
    /// # Errors
    /// [`Code::NotFound`], [`Code::NotDirectory`], [`Code::NameTooLong`], [`Code::AccessDenied`].
    pub fn lookup(&self, caller: &Caller, dir: Ino, name: &[u8]) -> Result<(Ino, FileKind)> {
        self.view(|core| lookup::lookup(core, caller, dir.0, name)).map(|(ino, kind)| (Ino(ino), kind))
    }

    /// Returns the attributes of an inode.
    ///
    /// # Errors
    /// [`Code::StaleInode`] when the inode is not in use.
    pub fn getattr(&self, ino: Ino) -> Result<Attr> {
        self.view(|core| getattr(core, ino))
    }

    /// Describes many inodes, in their order; `None` for one that is not in use.
    ///
    /// # Errors
    /// The device's, and those of a damaged volume.
    pub fn describe_inodes(&self, inos: &[Ino]) -> Result<Vec<Option<Description>>> {
        let describe = |ino: &Ino| {
            let found = self.view(|core| {
                let node = Inode::load(core, ino.0)?;
                Ok(Description { attr: node.attr()?, has_xattrs: node.has_xattrs() })
            });
            match found {
                Err(error) if error.code() == Code::StaleInode => Ok(None),
                found => found.map(Some),
            }
        };
        inos.iter().map(describe).collect()
    }

    /// Changes attributes; see [`SetAttr`].
    ///
    /// # Errors
    /// [`Code::NotPermitted`], [`Code::AccessDenied`]; for the size of an inode that is not a regular file
    /// [`Code::IsDirectory`] or [`Code::Invalid`]; [`Code::FileTooLarge`].
    pub fn setattr(&self, caller: &Caller, ino: Ino, set: &SetAttr) -> Result<Attr> {
        let attr = self.change_data(|edit, plan| {
            let node = Inode::load(edit.core, ino.0)?;
            attr::set(edit, caller, node, set, plan)?;
            node.attr()
        })?;
        self.notify(&[Changed::Inode(ino)]);
        Ok(attr)
    }

    /// Sets both times to now, as `utimensat(2)` without times does. The owner may do so, and a caller with
    /// write permission.
    ///
    /// # Errors
    /// [`Code::AccessDenied`].
    pub fn touch(&self, caller: &Caller, ino: Ino) -> Result<Attr> {
        let attr = self.change_data(|edit, plan| {
            let node = Inode::load(edit.core, ino.0)?;
            if !perm::owns(caller, &node) {
                access(edit.core, caller, &node, WRITE)?;
            }
            let set = SetAttr { atime: Some(edit.now), mtime: Some(edit.now), ..SetAttr::default() };
            attr::set(edit, &Caller::OWNER, node, &set, plan)?;
            node.attr()
        })?;
        self.notify(&[Changed::Inode(ino)]);
        Ok(attr)
    }

    /// Records that content was read: the access time becomes now where `rule` says so. Otherwise the call
    /// only reads the inode. It does nothing on a volume that is read-only.
    ///
    /// # Errors
    /// [`Code::StaleInode`]; those of a change.
    pub fn accessed(&self, ino: Ino, rule: AccessTimes) -> Result<()> {
        let now = Time::now();
        let is_news = |attr: &Attr, now| match rule {
            AccessTimes::Never => false,
            AccessTimes::Relative => attr::is_access_news(attr, now),
            AccessTimes::Always => attr.atime != now,
        };
        let attr = self.getattr(ino)?;
        if self.is_read_only() || !is_news(&attr, now) {
            return Ok(());
        }
        self.change(|edit| {
            let node = Inode::load(edit.core, ino.0)?;
            if is_news(&node.attr()?, edit.now) {
                edit.tx.put(node.view, lanefs_format::inode::ATIME, edit.now.0);
            }
            Ok(())
        })
    }

    /// Creates a regular file. `perm`: the low 12 bits of a mode.
    ///
    /// # Errors
    /// [`Code::Exists`], [`Code::NoSpace`], and those of [`lookup`](Self::lookup).
    pub fn create_file(&self, caller: &Caller, dir: Ino, name: &[u8], perm: u16) -> Result<Attr> {
        self.mknod(caller, dir, name, FileKind::File, perm, 0)
    }

    /// Creates a file, pipe, socket or device (`rdev`: its number).
    ///
    /// # Errors
    /// As [`create_file`](Self::create_file); [`Code::Invalid`] for directories and symbolic links, which
    /// have their own calls; [`Code::NotPermitted`] for devices without privilege.
    pub fn mknod(
        &self,
        caller: &Caller,
        dir: Ino,
        name: &[u8],
        kind: FileKind,
        perm: u16,
        rdev: u64,
    ) -> Result<Attr> {
        let is_device = matches!(kind, FileKind::CharDevice | FileKind::BlockDevice);
        if matches!(kind, FileKind::Directory | FileKind::Symlink) {
            return Err(Code::Invalid.into());
        }
        let rdev = if is_device { rdev } else { 0 };
        let made = self.change(|edit| namespace::create(edit, caller, dir.0, name, kind, perm, rdev)?.attr());
        self.notify_name(dir, name, made)
    }

    /// Creates a directory.
    ///
    /// # Errors
    /// As [`create_file`](Self::create_file).
    pub fn mkdir(&self, caller: &Caller, dir: Ino, name: &[u8], perm: u16) -> Result<Attr> {
        let kind = FileKind::Directory;
        let made = self.change(|edit| namespace::create(edit, caller, dir.0, name, kind, perm, 0)?.attr());
        self.notify_name(dir, name, made)
    }

    /// Creates a symbolic link to `target`, 1 to 4095 bytes.
    ///
    /// # Errors
    /// As [`create_file`](Self::create_file).
    pub fn symlink_at(&self, caller: &Caller, dir: Ino, name: &[u8], target: &[u8]) -> Result<Attr> {
        let made = self.change(|edit| namespace::symlink(edit, caller, dir.0, name, target)?.attr());
        self.notify_name(dir, name, made)
    }

    /// Reads the target of a symbolic link.
    ///
    /// # Errors
    /// [`Code::Invalid`] for any other inode.
    pub fn readlink(&self, ino: Ino) -> Result<Vec<u8>> {
        self.view(|core| lookup::readlink(core, ino.0))
    }

    /// Gives an inode another name.
    ///
    /// # Errors
    /// [`Code::Exists`], [`Code::NotPermitted`] for a directory, [`Code::NotFound`] for an inode that has
    /// lost its last name, [`Code::TooManyLinks`], [`Code::NoSpace`].
    pub fn link(&self, caller: &Caller, ino: Ino, dir: Ino, name: &[u8]) -> Result<Attr> {
        let made = self.change(|edit| namespace::link(edit, caller, ino.0, dir.0, name)?.attr());
        let made = self.notify_name(dir, name, made)?;
        if made.links == 1 {
            self.shared.state.holds.forbid_link(ino.0);
        }
        self.notify(&[Changed::Inode(ino)]);
        Ok(made)
    }

    /// Removes a name that is not a directory's. The inode is freed with its last name.
    ///
    /// # Errors
    /// [`Code::NotFound`], [`Code::IsDirectory`], [`Code::AccessDenied`], [`Code::NotPermitted`].
    pub fn unlink(&self, caller: &Caller, dir: Ino, name: &[u8]) -> Result<()> {
        let removed = self.change_names(|edit| namespace::unlink(edit, caller, dir.0, name));
        let ino = self.notify_name(dir, name, removed)?;
        self.notify(&[Changed::Inode(Ino(ino))]);
        Ok(())
    }

    /// Removes an empty directory.
    ///
    /// # Errors
    /// [`Code::NotFound`], [`Code::NotDirectory`], [`Code::NotEmpty`].
    pub fn rmdir(&self, caller: &Caller, dir: Ino, name: &[u8]) -> Result<()> {
        let removed = self.change_names(|edit| namespace::rmdir(edit, caller, dir.0, name));
        let ino = self.notify_name(dir, name, removed)?;
        self.notify(&[Changed::Inode(Ino(ino))]);
        Ok(())
    }

    /// Renames, as `renameat2(2)`.
    ///
    /// # Errors
    /// [`Code::NotFound`]; [`Code::Exists`] (no-replace); [`Code::Invalid`] for a directory into itself;
    /// [`Code::NotEmpty`], [`Code::IsDirectory`], [`Code::NotDirectory`] for a new name that cannot be
    /// replaced; [`Code::NoSpace`] where a whiteout finds none, and where the new name does.
    pub fn rename_at(
        &self,
        caller: &Caller,
        from: Ino,
        name: &[u8],
        to: Ino,
        new_name: &[u8],
        mode: RenameMode,
    ) -> Result<()> {
        self.rename_for(caller, caller, (from, name), (to, new_name), mode)
    }

    /// Renames as [`rename_at`](Self::rename_at); a whiteout that stays belongs to `maker`. So a service whose
    /// client has checked permissions renames as the owner of the volume on behalf of a user.
    ///
    /// # Errors
    /// Those of [`rename_at`](Self::rename_at), for `caller`.
    pub fn rename_for(
        &self,
        caller: &Caller,
        maker: &Caller,
        (from, name): (Ino, &[u8]),
        (to, new_name): (Ino, &[u8]),
        mode: RenameMode,
    ) -> Result<()> {
        let source = namespace::RenameSide { dir: from.0, name };
        let target = namespace::RenameSide { dir: to.0, name: new_name };
        let inodes = [self.named_inode(from, name), self.named_inode(to, new_name)];
        self.change_names(|edit| namespace::rename(edit, caller, maker, &source, &target, mode))?;
        self.notify(&[Changed::Name { dir: from, name }, Changed::Name { dir: to, name: new_name }]);
        self.notify(&[Changed::Inode(from), Changed::Inode(to)]);
        inodes.iter().flatten().for_each(|ino| self.notify(&[Changed::Inode(*ino)]));
        Ok(())
    }

    /// Looks up a name for the listener; `None` without a listener.
    fn named_inode(&self, dir: Ino, name: &[u8]) -> Option<Ino> {
        if !self.has_listener() {
            return None;
        }
        self.lookup(&Caller::OWNER, dir, name).ok().map(|(ino, _)| ino)
    }

    /// Notifies the listener of a name that was made or removed.
    pub(super) fn notify_name<T>(&self, dir: Ino, name: &[u8], done: Result<T>) -> Result<T> {
        if done.is_ok() {
            self.notify(&[Changed::Name { dir, name }, Changed::Inode(dir)]);
        }
        done
    }

    /// Lists up to `max` entries after `cookie` (0: from the start), in no particular order; none at the
    /// end. To continue, pass the cookie of the last entry.
    ///
    /// # Errors
    /// [`Code::NotDirectory`], [`Code::AccessDenied`].
    pub fn readdir(&self, caller: &Caller, dir: Ino, cookie: u64, max: usize) -> Result<Vec<DirEntry>> {
        self.view(|core| readdir(core, caller, dir, cookie, max))
    }

    /// Reads content from byte `offset` on. The result is shorter than the buffer only at the end of the
    /// file.
    ///
    /// # Errors
    /// [`Code::IsDirectory`], [`Code::Invalid`] for an inode without content, [`Code::AccessDenied`];
    /// [`Error::Expansion`](crate::Error::Expansion) beyond a [bound](Self::bound_expansion).
    pub fn read(&self, caller: &Caller, ino: Ino, offset: u64, buffer: &mut [u8]) -> Result<usize> {
        let read = if buffer.len() <= pieces::most_at_once(&self.shared.state.store) {
            self.view(|core| read(core, caller, ino, offset, buffer))
        } else {
            self.read_in_pieces(caller, ino, offset, buffer)
        };
        let count = read.map_err(|error| self.name_wrong_data(ino, error))?;
        self.check_expansion(buffer.get(..count).unwrap_or_default())?;
        Ok(count)
    }

    /// Reads as [`read`](Self::read), more than the cache may have room for.
    fn read_in_pieces(&self, caller: &Caller, ino: Ino, offset: u64, buffer: &mut [u8]) -> Result<usize> {
        let shared = &self.shared;
        in_one_state(shared, |mode| {
            let (state, len) = mode.run(shared, |core| {
                let node = regular(core, ino)?;
                access(core, caller, &node, READ)?;
                let len = node.size().saturating_sub(offset).min(buffer.len() as u64);
                Ok((FileState::of(core, ino, &node), len as usize))
            })?;
            Ok(read_state(shared, mode, &state, offset, &mut buffer[..len], || false)?.then_some(len))
        })
    }

    /// Writes all of `data` at byte `offset`, or nothing.
    ///
    /// # Errors
    /// [`Code::NoSpace`], [`Code::FileTooLarge`], and those of [`read`](Self::read).
    pub fn write(&self, caller: &Caller, ino: Ino, offset: u64, data: &[u8]) -> Result<usize> {
        let written = self.change_data(|edit, plan| {
            let node = regular(edit.core, ino)?;
            access(edit.core, caller, &node, WRITE)?;
            data::write(edit, node, offset, data, plan)?;
            if !data.is_empty() {
                perm::drop_set_id(edit, caller, &node);
            }
            Ok(data.len())
        });
        // A block of which a part stays is read.
        let written = written.map_err(|error| self.name_wrong_data(ino, error))?;
        self.notify(&[Changed::Inode(ino)]);
        Ok(written)
    }

    /// Writes all of `data` at the end of the file, or nothing; no other write comes between. Returns the
    /// offset at which the data begin.
    ///
    /// # Errors
    /// As [`write`](Self::write).
    pub fn append(&self, caller: &Caller, ino: Ino, data: &[u8]) -> Result<u64> {
        let written = self.change_data(|edit, plan| {
            let node = regular(edit.core, ino)?;
            access(edit.core, caller, &node, WRITE)?;
            edit.tx.lock(node.view)?;
            let offset = node.size();
            data::write(edit, node, offset, data, plan)?;
            if !data.is_empty() {
                perm::drop_set_id(edit, caller, &node);
            }
            Ok(offset)
        });
        let offset = written.map_err(|error| self.name_wrong_data(ino, error))?;
        self.notify(&[Changed::Inode(ino)]);
        Ok(offset)
    }

    /// Allocates, punches or zeroes a range; see [`Allocate`].
    ///
    /// # Errors
    /// [`Code::Invalid`] for an empty range, and those of [`write`](Self::write).
    pub fn fallocate(&self, caller: &Caller, ino: Ino, mode: Allocate, offset: u64, len: u64) -> Result<()> {
        self.change_data(|edit, plan| {
            let node = regular(edit.core, ino)?;
            access(edit.core, caller, &node, WRITE)?;
            data::fallocate(edit, node, mode, offset, len, plan)?;
            perm::drop_set_id(edit, caller, &node);
            Ok(())
        })?;
        self.notify(&[Changed::Inode(ino)]);
        Ok(())
    }

    /// Finds the next data or hole at or after `offset`, to the precision of blocks.
    ///
    /// # Errors
    /// [`Code::NoSuchRange`] at and past the end of the file, or where no data follows.
    pub fn seek(&self, ino: Ino, offset: u64, what: Seek) -> Result<u64> {
        self.view(|core| data::seek(core, regular(core, ino)?, offset, what))
    }

    /// Lists the extents of a file, in the order of the file. Holes are left out, and a file that fits into
    /// its inode has none.
    ///
    /// # Errors
    /// As [`seek`](Self::seek) for an inode that is not a file.
    pub fn extents(&self, ino: Ino) -> Result<Vec<FileExtent>> {
        self.view(|core| data::extents(core, regular(core, ino)?))
    }

    /// Returns the value of an extended attribute; names include their name space, such as `user.`.
    ///
    /// # Errors
    /// [`Code::NoAttribute`].
    pub fn getxattr(&self, caller: &Caller, ino: Ino, name: &[u8]) -> Result<Vec<u8>> {
        self.view(|core| getxattr(core, caller, ino, name))
    }

    /// Sets an extended attribute; names to 255 bytes, values to 64 KiB, 256 KiB in all.
    ///
    /// `system.posix_acl_access` and `system.posix_acl_default` are access control lists in the form of
    /// Linux: the mode follows an access list, a list that says no more than the mode is not stored, a list
    /// without entries removes the old one, and `mode` has no effect.
    ///
    /// # Errors
    /// [`Code::Exists`] or [`Code::NoAttribute`] as `mode` requires; [`Code::AttributeTooLarge`],
    /// [`Code::NoSpace`]. For access control lists [`Code::Invalid`] where the list is not valid;
    /// [`Code::AttributeTooLarge`] above 4096 bytes; [`Code::AccessDenied`] for a default list of an inode
    /// that is not a directory; [`Code::Unsupported`] for a symbolic link.
    pub fn setxattr(
        &self,
        caller: &Caller,
        ino: Ino,
        name: &[u8],
        value: &[u8],
        mode: XattrMode,
    ) -> Result<()> {
        self.change(|edit| {
            let node = Inode::load(edit.core, ino.0)?;
            set_xattr(edit, caller, node, name, value, mode)
        })?;
        self.notify(&[Changed::Inode(ino)]);
        Ok(())
    }

    /// Returns true for a directory with a default access control list, which decides about the permissions
    /// of inodes made in it in place of the caller's umask.
    ///
    /// # Errors
    /// [`Code::StaleInode`].
    pub fn has_default_acl(&self, ino: Ino) -> Result<bool> {
        self.view(|core| Ok(Inode::load(core, ino.0)?.flags() & AclKind::Default.flag() != 0))
    }

    /// Lists the names of all extended attributes.
    ///
    /// # Errors
    /// [`Code::StaleInode`].
    pub fn listxattr(&self, ino: Ino) -> Result<Vec<Vec<u8>>> {
        self.view(|core| xattr::list(core, Inode::load(core, ino.0)?))
    }

    /// Removes an extended attribute. As in Linux, an access control list may be missing.
    ///
    /// # Errors
    /// [`Code::NoAttribute`].
    pub fn removexattr(&self, caller: &Caller, ino: Ino, name: &[u8]) -> Result<()> {
        self.change(|edit| remove_xattr(edit, caller, Inode::load(edit.core, ino.0)?, name))?;
        self.notify(&[Changed::Inode(ino)]);
        Ok(())
    }
}
