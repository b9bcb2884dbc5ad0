//! Attributes, and the set-id bits and capabilities that a change by an unprivileged user removes.

use crate::errno::FuseResult;
use crate::served::Served;
use fuser::{INodeNo, Request};
use lanefs::{Attr, Caller, Code, FileKind, Ino, SetAttr, Volume};

const OWNER: Caller = Caller::OWNER;
const SETUID: u16 = 0o4000;
const SETGID: u16 = 0o2000;
const GROUP_EXECUTES: u16 = 0o10;
/// Attribute with the capabilities of a program, which a change of the program must remove.
const CAPABILITIES: &[u8] = b"security.capability";

impl Served {
    /// Changes attributes.
    pub(crate) fn setattr(
        &self,
        volume: &Volume,
        request: &Request,
        ino: INodeNo,
        set: &SetAttr,
    ) -> FuseResult<Attr> {
        let ino = self.numbers.ino(ino);
        // The library does not pass on the kernel's flag for this. The kernel sets it for all callers without
        // a privilege that in practice only root has.
        if set.size.is_some() && request.uid() != 0 {
            kill_privileges(volume, ino)?;
        }
        let mut set = *set;
        if set == SetAttr::default() {
            // Either a chown that changes neither id and still counts as a change, or, before a write, the
            // kernel's request to remove set-id bits and capabilities. Setting the present owner again does
            // both.
            set.uid = Some(volume.getattr(ino)?.uid);
        }
        if set.uid.is_some() || set.gid.is_some() {
            drop_capabilities(volume, ino)?;
        }
        Ok(volume.setattr(&OWNER, ino, &set)?)
    }
}

/// Removes set-id bits and capabilities of a file that an unprivileged user changes.
pub(crate) fn kill_privileges(volume: &Volume, ino: Ino) -> FuseResult<()> {
    let attr = volume.getattr(ino)?;
    // A set-group-id bit without group execution grants nothing.
    let group = if attr.perm & GROUP_EXECUTES != 0 { SETGID } else { 0 };
    let kept = attr.perm & !(SETUID | group);
    if kept != attr.perm && attr.kind != FileKind::Directory {
        volume.setattr(&OWNER, ino, &SetAttr { perm: Some(kept), ..SetAttr::default() })?;
    }
    drop_capabilities(volume, ino)
}

fn drop_capabilities(volume: &Volume, ino: Ino) -> FuseResult<()> {
    // Most files have none, which is cheap to find out.
    match volume.getxattr(&OWNER, ino, CAPABILITIES) {
        Ok(_) => Ok(volume.removexattr(&OWNER, ino, CAPABILITIES)?),
        Err(error) if error.code() == Code::NoAttribute => Ok(()),
        Err(error) => Err(error.into()),
    }
}
