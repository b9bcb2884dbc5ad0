//! Permissions, as Linux checks them.

use super::inode::Inode;
use super::lists;
use crate::attempt::Core;
use crate::attempt::edit::Edit;
use crate::vocabulary::acl::{Acl, AclKind};
use crate::vocabulary::error::Outcome;
use crate::vocabulary::types::{Caller, User};
use lanefs_format::{Code, FileKind, inode as f};

/// Search a directory, or execute.
pub(crate) const SEARCH: u16 = 1;
/// Write.
pub(crate) const WRITE: u16 = 2;
/// Read.
pub(crate) const READ: u16 = 4;

/// The sticky bit.
pub(crate) const STICKY: u16 = 0o1000;
/// The set-group-id bit.
pub(crate) const SETGID: u16 = 0o2000;

impl User {
    /// True for a member of the group.
    pub(crate) fn in_group(&self, gid: u32) -> bool {
        self.gid == gid || self.groups.contains(&gid)
    }
}

/// Returns the identity to check, unless the caller overrides permissions.
pub(crate) fn checked(caller: &Caller) -> Option<&User> {
    caller.user.as_ref().filter(|user| user.uid != 0)
}

/// Checks that a caller has permissions on an inode.
///
/// # Errors
/// [`Code::AccessDenied`].
#[inline]
pub(crate) fn access(core: &Core<'_>, caller: &Caller, node: &Inode<'_>, wanted: u16) -> Outcome<()> {
    checked(caller).map_or(Ok(()), |user| user_access(core, user, node, wanted))
}

// Apart, so that callers who override permissions pay a comparison and no call.
fn user_access(core: &Core<'_>, user: &User, node: &Inode<'_>, wanted: u16) -> Outcome<()> {
    let (mode, group) = (node.mode(), node.view.get(f::GID));
    let granted = if user.uid == node.view.get(f::UID) {
        mode >> 6
    } else if let Some(list) = decisive_list(core, node)? {
        if list.allows(user, group, wanted) { wanted } else { 0 }
    } else if user.in_group(group) {
        mode >> 3
    } else {
        mode
    };
    if granted & wanted == wanted { Ok(()) } else { Err(Code::AccessDenied.into()) }
}

/// The access list of an inode. As in Linux, one whose mask is empty decides nothing.
#[inline(always)]
fn decisive_list(core: &Core<'_>, node: &Inode<'_>) -> Outcome<Option<Acl>> {
    if node.mode() & 0o70 == 0 { Ok(None) } else { lists::get(core, *node, AclKind::Access) }
}

/// True for the owner and for callers who override permissions.
pub(crate) fn owns(caller: &Caller, node: &Inode<'_>) -> bool {
    checked(caller).is_none_or(|user| user.uid == node.view.get(f::UID))
}

/// Checks that a caller may remove the entry of `node` from `dir`: write permission there, and the rule of
/// the sticky bit.
pub(crate) fn may_remove(core: &Core<'_>, caller: &Caller, dir: &Inode<'_>, node: &Inode<'_>) -> Outcome<()> {
    access(core, caller, dir, WRITE | SEARCH)?;
    if dir.mode() & STICKY != 0 && !owns(caller, dir) && !owns(caller, node) {
        return Err(Code::NotPermitted.into());
    }
    Ok(())
}

/// Owner and group of a new inode of `caller` in `dir`, and the resulting permission bits.
pub(crate) fn ownership(caller: &Caller, dir: &Inode<'_>, kind: FileKind, perm: u16) -> (u32, u32, u16) {
    let (uid, gid) = caller.user.as_ref().map_or((0, 0), |user| (user.uid, user.gid));
    if dir.mode() & SETGID == 0 {
        return (uid, gid, perm);
    }
    let gid = dir.view.get(f::GID);
    let stranger = checked(caller).is_some_and(|user| !user.in_group(gid));
    match kind {
        FileKind::Directory => (uid, gid, perm | SETGID),
        _ if stranger && perm & 0o10 != 0 => (uid, gid, perm & !SETGID),
        _ => (uid, gid, perm),
    }
}

/// The mode without the set-id bits that a change of owner, or a write by another user, removes: set-user-id,
/// and set-group-id unless it marks a file without group execution that a member of the group changes.
pub(crate) fn without_set_id(caller: &Caller, node: &Inode<'_>) -> u16 {
    let mode = node.mode();
    let member = checked(caller).is_none_or(|user| user.in_group(node.view.get(f::GID)));
    let group = if mode & 0o10 != 0 || !member { SETGID } else { 0 };
    mode & !(0o4000 | group)
}

/// Removes set-id bits of a file after a write or a truncation by an unprivileged caller.
pub(crate) fn drop_set_id(edit: &mut Edit<'_>, caller: &Caller, node: &Inode<'_>) {
    if checked(caller).is_some() {
        edit.tx.put(node.view, f::MODE, without_set_id(caller, node));
    }
}
