//! Attributes, and what is lost with a change by somebody without privilege.

use crate::errno::FuseResult;
use crate::served::Served;
use fuser::{INodeNo, Request};
use lanefs::{Attr, Caller, Code, FileKind, Ino, SetAttr, Volume};

const OWNER: Caller = Caller::OWNER;
const SETUID: u16 = 0o4000;
const SETGID: u16 = 0o2000;
const GROUP_EXECUTES: u16 = 0o10;
/// Capabilities of a program, which a change of it must take away.
const CAPABILITIES: &[u8] = b"security.capability";

impl Served {
    pub(crate) fn setattr(
        &self,
        volume: &Volume,
        request: &Request,
        ino: INodeNo,
        set: &SetAttr,
    ) -> FuseResult<Attr> {
        let ino = self.numbers.ino(ino);
        // The kernel's flag for this does not come through the library. It would be set for all who lack a privilege that in
        // practice root alone has.
        if set.size.is_some() && request.uid() != 0 {
            kill_privileges(volume, ino)?;
        }
        let mut set = *set;
        if set == SetAttr::default() {
            // A chown that changes neither, which counts as a change still; or, before a write, the kernel's wish that set-id bits and
            // capabilities go. To change the owner to who it is does both.
            set.uid = Some(volume.getattr(ino)?.uid);
        }
        if set.uid.is_some() || set.gid.is_some() {
            drop_capabilities(volume, ino)?;
        }
        Ok(volume.setattr(&OWNER, ino, &set)?)
    }
}

/// Takes set-id bits and capabilities from a file that is changed by somebody without the privilege to keep them.
pub(crate) fn kill_privileges(volume: &Volume, ino: Ino) -> FuseResult<()> {
    let attr = volume.getattr(ino)?;
    // A set-group-id bit without group execution is no privilege.
    let group = if attr.perm & GROUP_EXECUTES != 0 { SETGID } else { 0 };
    let kept = attr.perm & !(SETUID | group);
    if kept != attr.perm && attr.kind != FileKind::Directory {
        volume.setattr(&OWNER, ino, &SetAttr { perm: Some(kept), ..SetAttr::default() })?;
    }
    drop_capabilities(volume, ino)
}

fn drop_capabilities(volume: &Volume, ino: Ino) -> FuseResult<()> {
    // Most files have none, and to see that costs nothing.
    match volume.getxattr(&OWNER, ino, CAPABILITIES) {
        Ok(_) => Ok(volume.removexattr(&OWNER, ino, CAPABILITIES)?),
        Err(error) if error.code() == Code::NoAttribute => Ok(()),
        Err(error) => Err(error.into()),
    }
}
