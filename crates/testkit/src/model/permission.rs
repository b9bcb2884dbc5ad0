//! Permission checks, as Linux makes them.

use super::{Body, Model, Node};
use crate::engine::{EngineResult, Handle};
use lanefs::{Caller, User};
use lanefs_format::{Code, FileKind};

pub(super) const READ: u16 = 4;
pub(super) const WRITE: u16 = 2;
pub(super) const SEARCH: u16 = 1;
pub(super) const SET_UID: u16 = 0o4000;
pub(super) const SET_GID: u16 = 0o2000;
pub(super) const STICKY: u16 = 0o1000;
const GROUP_EXECUTE: u16 = 0o010;

/// Returns the user whom permissions bind: none for the volume's owner and for root.
pub(super) fn bound(caller: &Caller) -> Option<&User> {
    caller.user.as_ref().filter(|user| user.uid != 0)
}

pub(super) fn in_group(user: &User, gid: u32) -> bool {
    user.gid == gid || user.groups.contains(&gid)
}

/// Only the first class of bits that fits counts: the group's rights do not help the owner.
fn allowed(user: &User, node: &Node, want: u16) -> bool {
    let bits = if user.uid == node.uid {
        node.perm >> 6
    } else if in_group(user, node.gid) {
        node.perm >> 3
    } else {
        node.perm
    };
    bits & want == want
}

/// Returns `AccessDenied` unless the caller has all rights in `want`.
pub(super) fn demand(caller: &Caller, node: &Node, want: u16) -> EngineResult<()> {
    match bound(caller) {
        Some(user) if !allowed(user, node, want) => Err(Code::AccessDenied.into()),
        _ => Ok(()),
    }
}

/// Set-group-id survives on a file only for members of its group and for root.
pub(super) fn without_foreign_set_gid(caller: &Caller, perm: u16, gid: u32) -> u16 {
    match bound(caller) {
        Some(user) if !in_group(user, gid) => perm & !SET_GID,
        _ => perm,
    }
}

/// The bits left after the set-id bits are dropped: set-user-id always; set-group-id unless it is the old
/// mark of mandatory locking (no group execute) and the caller is a member of the group.
pub(super) fn without_set_ids(caller: &Caller, node: &Node) -> u16 {
    let mut perm = node.perm & !SET_UID;
    if perm & SET_GID != 0 {
        let marked = perm & GROUP_EXECUTE == 0;
        let member = bound(caller).is_none_or(|user| in_group(user, node.gid));
        if !(marked && member) {
            perm &= !SET_GID;
        }
    }
    perm
}

impl Model {
    /// Returns the entries of `dir`, after a check that the caller may search it for a name of this length.
    pub(super) fn searched(&self, caller: &Caller, dir: Handle, name: &[u8]) -> EngineResult<&Node> {
        let node = self.node(dir)?;
        if node.kind != FileKind::Directory {
            return Err(Code::NotDirectory.into());
        }
        demand(caller, node, SEARCH)?;
        if name.is_empty() || name.contains(&b'/') || name.contains(&0) {
            return Err(Code::Invalid.into());
        }
        if name.len() > lanefs_format::MAX_NAME {
            return Err(Code::NameTooLong.into());
        }
        Ok(node)
    }

    /// Checks rights and kind for removing `victim`'s name from `dir` (`may_delete` in Linux).
    pub(super) fn may_remove(
        &self,
        caller: &Caller,
        dir: Handle,
        victim: Handle,
        as_directory: bool,
    ) -> EngineResult<()> {
        let (parent, node) = (self.node(dir)?, self.node(victim)?);
        demand(caller, parent, WRITE | SEARCH)?;
        if let Some(user) = bound(caller)
            && parent.perm & STICKY != 0
            && user.uid != node.uid
            && user.uid != parent.uid
        {
            return Err(Code::NotPermitted.into());
        }
        match (as_directory, node.kind == FileKind::Directory) {
            (true, false) => Err(Code::NotDirectory.into()),
            (false, true) => Err(Code::IsDirectory.into()),
            _ => Ok(()),
        }
    }

    /// Owner, group and permissions of a new inode that `caller` creates in `dir`.
    pub(super) fn heritage(
        &self,
        caller: &Caller,
        dir: Handle,
        kind: FileKind,
        perm: u16,
    ) -> EngineResult<(u16, u32, u32)> {
        let parent = self.node(dir)?;
        let (uid, mut gid) = caller.user.as_ref().map_or((0, 0), |user| (user.uid, user.gid));
        let mut perm = perm & 0o7777;
        if parent.perm & SET_GID != 0 {
            gid = parent.gid;
            if kind == FileKind::Directory {
                perm |= SET_GID;
            } else if perm & (SET_GID | GROUP_EXECUTE) == SET_GID | GROUP_EXECUTE {
                // Otherwise a user outside the group would get a program that runs as that group.
                perm = without_foreign_set_gid(caller, perm, gid);
            }
        }
        Ok((perm, uid, gid))
    }

    /// A write or a truncation by anyone but root drops a regular file's set-id bits.
    pub(super) fn drop_set_ids_at_write(&mut self, caller: &Caller, handle: Handle) -> EngineResult<()> {
        if bound(caller).is_some() {
            let node = self.node_mut(handle)?;
            if matches!(node.body, Body::File(_)) {
                node.perm = without_set_ids(caller, node);
            }
        }
        Ok(())
    }
}
