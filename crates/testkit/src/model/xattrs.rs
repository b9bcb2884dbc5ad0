//! Extended attributes.

use super::permission::{READ, STICKY, WRITE, bound, demand};
use super::{Model, Node};
use crate::engine::{EngineResult, Handle};
use lanefs::{Caller, XattrMode};
use lanefs_format::{Code, FileKind, MAX_NAME};

/// Largest value, as Linux has it (`XATTR_SIZE_MAX`).
pub(super) const MAX_VALUE: usize = 65536;

/// Checks the rights that Linux demands by the name's prefix. Only `user.` is open to everyone.
fn permitted(caller: &Caller, node: &Node, name: &[u8], write: bool) -> EngineResult<()> {
    // Inodes without data have no `user.` attributes, for any caller.
    let holds = matches!(node.kind, FileKind::File | FileKind::Directory);
    if name.starts_with(b"user.") && !holds {
        return Err(if write { Code::NotPermitted } else { Code::NoAttribute }.into());
    }
    let Some(user) = bound(caller) else { return Ok(()) };
    if name.starts_with(b"trusted.") {
        return Err(if write { Code::NotPermitted } else { Code::NoAttribute }.into());
    }
    if name.starts_with(b"user.") {
        let sticky = node.kind == FileKind::Directory && node.perm & STICKY != 0;
        if write && sticky && user.uid != node.uid {
            return Err(Code::NotPermitted.into());
        }
        return demand(caller, node, if write { WRITE } else { READ });
    }
    Ok(())
}

fn named(name: &[u8]) -> EngineResult<()> {
    if name.is_empty() || name.len() > MAX_NAME { Err(Code::BufferTooSmall.into()) } else { Ok(()) }
}

impl Model {
    pub(super) fn xattr(&self, caller: &Caller, handle: Handle, name: &[u8]) -> EngineResult<Vec<u8>> {
        let node = self.node(handle)?;
        named(name)?;
        permitted(caller, node, name, false)?;
        node.xattrs.get(name).cloned().ok_or_else(|| Code::NoAttribute.into())
    }

    pub(super) fn set_xattr(
        &mut self,
        caller: &Caller,
        handle: Handle,
        name: &[u8],
        value: &[u8],
        mode: XattrMode,
    ) -> EngineResult<()> {
        let node = self.node(handle)?;
        named(name)?;
        if value.len() > MAX_VALUE {
            return Err(Code::AttributeTooLarge.into());
        }
        permitted(caller, node, name, true)?;
        match (mode, node.xattrs.contains_key(name)) {
            (XattrMode::Create, true) => return Err(Code::Exists.into()),
            (XattrMode::Replace, false) => return Err(Code::NoAttribute.into()),
            _ => {}
        }
        self.node_mut(handle)?.xattrs.insert(name.to_vec(), value.to_vec());
        self.changed(handle);
        Ok(())
    }

    pub(super) fn remove_xattr(&mut self, caller: &Caller, handle: Handle, name: &[u8]) -> EngineResult<()> {
        let node = self.node(handle)?;
        named(name)?;
        permitted(caller, node, name, true)?;
        self.node_mut(handle)?.xattrs.remove(name).ok_or(Code::NoAttribute)?;
        self.changed(handle);
        Ok(())
    }

    pub(super) fn xattr_names(&self, handle: Handle) -> EngineResult<Vec<Vec<u8>>> {
        Ok(self.node(handle)?.xattrs.keys().cloned().collect())
    }
}
