//! The privileges of a program that a change takes away: set-id bits and capabilities.

use crate::errno::Reply;
use crate::requester::Requester;
use lanefs::{Caller, Code, FileKind, Ino, SetAttr, Volume};

const OWNER: Caller = Caller::OWNER;
const SETUID: u16 = 0o4000;
const SETGID: u16 = 0o2000;
const GROUP_EXECUTES: u16 = 0o10;
/// Attribute with the capabilities of a program, which a change of the program must remove.
const CAPABILITIES: &[u8] = b"security.capability";

/// Removes set-id bits and capabilities of a file that an unprivileged user changes. As in every file system
/// of Linux, the set-group-id bit of a file without group execution stays where the user is in its group.
pub(super) fn kill_privileges(volume: &Volume, requester: &Requester<'_>, ino: Ino) -> Reply<()> {
    let attr = volume.getattr(ino)?;
    let stays = attr.perm & (SETGID | GROUP_EXECUTES) == SETGID && requester.is_member(attr.gid);
    let kept = attr.perm & !(SETUID | if stays { 0 } else { SETGID });
    if kept != attr.perm && attr.kind != FileKind::Directory {
        volume.setattr(&OWNER, ino, &SetAttr { perm: Some(kept), ..SetAttr::default() })?;
    }
    drop_capabilities(volume, ino)
}

/// Removes the capabilities of a file.
pub(super) fn drop_capabilities(volume: &Volume, ino: Ino) -> Reply<()> {
    // Most files have none, which is cheap to find out.
    match volume.getxattr(&OWNER, ino, CAPABILITIES) {
        Ok(_) => Ok(volume.removexattr(&OWNER, ino, CAPABILITIES)?),
        Err(error) if error.code() == Code::NoAttribute => Ok(()),
        Err(error) => Err(error.into()),
    }
}
