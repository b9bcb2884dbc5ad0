//! setattr: chmod, chown, utimes and truncate in one call.

use super::permission::{WRITE, bound, demand, in_group, without_foreign_set_gid, without_set_ids};
use super::{Body, Model};
use crate::engine::{EngineResult, Handle, Stamp};
use lanefs::{Caller, SetAttr};
use lanefs_format::{Code, FileKind, MAX_FILE_SIZE};

impl Model {
    pub(super) fn change(&mut self, caller: &Caller, handle: Handle, set: &SetAttr) -> EngineResult<()> {
        self.may_change(caller, handle, set)?;
        if let Some(size) = set.size {
            self.resize(caller, handle, size)?;
        }
        let now = Stamp::AtLeast(self.clock);
        let node = self.node_mut(handle)?;
        if set.uid.is_some() || set.gid.is_some() {
            // A new owner must not get a program that runs as the old one; Linux enforces this for root, too.
            if node.kind != FileKind::Directory {
                node.perm = without_set_ids(caller, node);
            }
            node.uid = set.uid.unwrap_or(node.uid);
            node.gid = set.gid.unwrap_or(node.gid);
        }
        if let Some(perm) = set.perm {
            node.perm = without_foreign_set_gid(caller, perm & 0o7777, node.gid);
        }
        if let Some(time) = set.atime {
            node.atime = Stamp::Exactly(time);
        }
        if let Some(time) = set.mtime {
            node.mtime = Stamp::Exactly(time);
        }
        if *set != SetAttr::default() && set.size.is_none() {
            node.ctime = now;
        }
        Ok(())
    }

    /// Checks all rights before anything is changed.
    fn may_change(&self, caller: &Caller, handle: Handle, set: &SetAttr) -> EngineResult<()> {
        let node = self.node(handle)?;
        if set.size.is_some() {
            match node.body {
                Body::Directory { .. } => return Err(Code::IsDirectory.into()),
                Body::File(_) => {}
                Body::Link(_) | Body::Special => return Err(Code::Invalid.into()),
            }
        }
        if let Some(user) = bound(caller) {
            let owner = user.uid == node.uid;
            let new_owner = set.uid.is_some_and(|uid| !(owner && uid == node.uid));
            let new_group = set.gid.is_some_and(|gid| !(owner && (gid == node.gid || in_group(user, gid))));
            let owner_only = set.perm.is_some() || set.atime.is_some() || set.mtime.is_some();
            if new_owner || new_group || (owner_only && !owner) {
                return Err(Code::NotPermitted.into());
            }
        }
        if let Some(size) = set.size {
            demand(caller, node, WRITE)?;
            if size > MAX_FILE_SIZE {
                return Err(Code::FileTooLarge.into());
            }
        }
        Ok(())
    }

    fn resize(&mut self, caller: &Caller, handle: Handle, size: u64) -> EngineResult<()> {
        let node = self.node_mut(handle)?;
        let Body::File(content) = &mut node.body else { return Err(Code::Invalid.into()) };
        let same = content.size() == size;
        content.truncate(size);
        self.drop_set_ids_at_write(caller, handle)?;
        self.modified(handle);
        if same {
            // POSIX leaves open whether the times move when the size does not.
            let node = self.node_mut(handle)?;
            (node.mtime, node.ctime) = (Stamp::UNKNOWN, Stamp::UNKNOWN);
        }
        Ok(())
    }
}
