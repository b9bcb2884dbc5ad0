//! Changing attributes.

use crate::edit::{Edit, Outcome};
use crate::inode::Node;
use crate::perm::{self, WRITE, access};
use crate::{Caller, SetAttr, data};
use lanefs_format::{Code, FileKind, inode as f};

/// `chmod`, `chown`, `truncate` and `utimensat` in one.
pub(crate) fn set(edit: &mut Edit<'_>, who: &Caller, node: Node<'_>, set: &SetAttr) -> Outcome<()> {
    let kind = node.kind()?;
    match kind {
        FileKind::File => {}
        FileKind::Directory if set.size.is_some() => return Err(Code::IsDirectory.into()),
        _ if set.size.is_some() => return Err(Code::Invalid.into()),
        _ => {}
    }
    check(who, &node, set)?;
    if let Some(size) = set.size {
        data::truncate(edit, node, size)?;
        perm::drop_set_id(edit, who, &node);
    }
    if set.uid.is_some() || set.gid.is_some() {
        if kind != FileKind::Directory {
            edit.tx.put(node.view, f::MODE, perm::without_set_id(who, &node));
        }
        edit.tx.put(node.view, f::UID, set.uid.unwrap_or(node.view.get(f::UID)));
        edit.tx.put(node.view, f::GID, set.gid.unwrap_or(node.view.get(f::GID)));
    }
    if let Some(perm) = set.perm {
        let mut perm = perm & 0o7777;
        if perm::checked(who).is_some_and(|user| !user.in_group(node.view.get(f::GID))) {
            perm &= !0o2000;
        }
        edit.tx.put(node.view, f::MODE, kind.mode() | perm);
    }
    if let Some(time) = set.atime {
        edit.tx.put(node.view, f::ATIME, time.0);
    }
    if let Some(time) = set.mtime {
        edit.tx.put(node.view, f::MTIME, time.0);
    }
    if *set != SetAttr::default() {
        edit.tx.put(node.view, f::CTIME, edit.now.0);
    }
    Ok(())
}

fn check(who: &Caller, node: &Node<'_>, set: &SetAttr) -> Outcome<()> {
    let Some(user) = perm::checked(who) else { return Ok(()) };
    if set.size.is_some() {
        access(who, node, WRITE)?;
    }
    let owns = perm::owns(who, node);
    let gives_away = set.uid.is_some_and(|uid| !owns || uid != node.view.get(f::UID));
    let other_group =
        set.gid.is_some_and(|gid| !owns || !(gid == node.view.get(f::GID) || user.in_group(gid)));
    let not_his = !owns && (set.perm.is_some() || set.atime.is_some() || set.mtime.is_some());
    if gives_away || other_group || not_his { Err(Code::NotPermitted.into()) } else { Ok(()) }
}
