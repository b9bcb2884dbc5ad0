//! The access control lists of inodes: they lie in extended attributes, and flags of the inode say which it
//! has.

use super::inode::{self, Inode, NewInode};
use super::xattr;
use crate::attempt::Core;
use crate::attempt::edit::Edit;
use crate::vocabulary::acl::{Acl, AclKind};
use crate::vocabulary::error::Outcome;
use crate::vocabulary::types::XattrMode;
use lanefs_format::{Code, FileKind, inode as f};
use lanefs_store::Fault;

/// Reads a list; `None` where the inode has none, without reading its attributes.
pub(crate) fn get(core: &Core<'_>, node: Inode<'_>, kind: AclKind) -> Outcome<Option<Acl>> {
    if node.flags() & kind.flag() == 0 {
        return Ok(None);
    }
    match xattr::get(core, node, kind.name()).map(|value| Acl::parse(&value)) {
        Ok(Ok(Some(acl))) => Ok(Some(acl)),
        Ok(_) => Err(Fault::damaged(node.view.at(), "an access control list that is not valid")),
        Err(Fault::Code(Code::NoAttribute)) => {
            Err(Fault::damaged(node.view.at(), "a flag for an access control list that is not there"))
        }
        Err(fault) => Err(fault),
    }
}

/// Stores a list, or removes it.
fn put(edit: &mut Edit<'_>, node: Inode<'_>, kind: AclKind, acl: Option<&Acl>) -> Outcome<()> {
    let value = acl.map(Acl::encode);
    if value.is_none() && node.flags() & kind.flag() == 0 {
        return Ok(());
    }
    xattr::set(edit, node, kind.name(), value.as_deref(), XattrMode::Set)
}

/// Replaces or removes a list. The mode gets the permissions of an access list, and no list is stored that
/// says no more than the mode.
///
/// # Errors
/// [`Code::Unsupported`] for a symbolic link, [`Code::AccessDenied`] for a default list of an inode that is
/// no directory, as in Linux.
pub(crate) fn set(edit: &mut Edit<'_>, node: Inode<'_>, kind: AclKind, acl: Option<Acl>) -> Outcome<()> {
    match (node.kind()?, kind) {
        (FileKind::Symlink, _) => return Err(Code::Unsupported.into()),
        (FileKind::Directory, _) | (_, AclKind::Access) => {}
        (_, AclKind::Default) if acl.is_none() => return Ok(()),
        (_, AclKind::Default) => return Err(Code::AccessDenied.into()),
    }
    if let (Some(acl), AclKind::Access) = (&acl, kind) {
        edit.tx.put(node.view, f::MODE, node.mode() & !0o777 | acl.mode());
    }
    let stored = acl.filter(|acl| kind == AclKind::Default || !acl.is_minimal());
    put(edit, node, kind, stored.as_ref())?;
    edit.tx.put(node.view, f::CTIME, edit.now.0);
    Ok(())
}

/// Gives the access list the permissions of a new mode.
pub(crate) fn set_mode(edit: &mut Edit<'_>, node: Inode<'_>, mode: u16) -> Outcome<()> {
    let Some(mut acl) = get(edit.core, node, AclKind::Access)? else { return Ok(()) };
    acl.set_mode(mode);
    put(edit, node, AclKind::Access, Some(&acl))
}

/// Makes an inode in a directory, which passes on its default list.
pub(crate) fn make_in<'v>(edit: &mut Edit<'v>, parent: Inode<'_>, new: &NewInode<'_>) -> Outcome<Inode<'v>> {
    let default = match new.kind {
        FileKind::Symlink => None,
        _ => get(edit.core, parent, AclKind::Default)?,
    };
    let Some(default) = default else { return inode::make(edit, new) };
    let mut access = default.clone();
    access.inherit(new.perm);
    let perm = new.perm & !0o777 | access.mode();
    let node = inode::make(edit, &NewInode { perm, ..*new })?;
    if !access.is_minimal() {
        put(edit, node, AclKind::Access, Some(&access))?;
    }
    if new.kind == FileKind::Directory {
        put(edit, node, AclKind::Default, Some(&default))?;
    }
    Ok(node)
}
