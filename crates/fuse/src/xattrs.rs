//! Extended attributes.
//!
//! The kernel has checked permissions by name space. Only hiding `trusted.` in lists is left to the file
//! system.

use crate::attributes::is_member;
use crate::errno::{Errno, FuseResult};
use crate::served::Served;
use crate::versions::OpenVersion;
use fuser::{INodeNo, Request};
use lanefs::{Caller, Code, Ino, Volume, XattrMode};

const OWNER: Caller = Caller::OWNER;
/// Name spaces that a volume keeps.
const SPACES: [&[u8]; 3] = [b"user.", b"trusted.", b"security."];
/// Attributes that are access control lists. The kernel has checked who sets them.
const ACCESS_LIST: &[u8] = b"system.posix_acl_access";
const DEFAULT_LIST: &[u8] = b"system.posix_acl_default";

/// Attribute with the SELinux label of a file.
const LABEL: &[u8] = b"security.selinux";

// Of `setxattr(2)`.
const CREATE: i32 = 1;
const REPLACE: i32 = 2;

/// Refuses names outside the name spaces.
fn check_space(name: &[u8]) -> FuseResult<()> {
    let known = SPACES.iter().any(|space| name.starts_with(space) && name.len() > space.len());
    if known || name == ACCESS_LIST || name == DEFAULT_LIST { Ok(()) } else { Err(Errno::EOPNOTSUPP) }
}

/// Returns the identity under which the caller sets an access list: with it goes the set-group-id bit where
/// the caller is not in the group of the inode. The kernel does not say so.
fn list_setter(volume: &Volume, request: &Request, ino: Ino) -> FuseResult<Caller> {
    if request.uid() == 0 {
        return Ok(OWNER);
    }
    let attr = volume.getattr(ino)?;
    let group = if is_member(request, attr.gid) { attr.gid } else { request.gid() };
    Ok(Caller::user(attr.uid, group, &[]))
}

impl Served {
    pub(crate) fn setxattr(
        &self,
        volume: &OpenVersion<'_>,
        request: &Request,
        ino: INodeNo,
        name: &[u8],
        value: &[u8],
        flags: i32,
    ) -> FuseResult<()> {
        check_space(name)?;
        let mode = match flags {
            0 => XattrMode::Set,
            CREATE => XattrMode::Create,
            REPLACE => XattrMode::Replace,
            _ => return Err(Errno::EINVAL),
        };
        let ino = volume.numbers.ino(ino);
        let caller = if name == ACCESS_LIST { list_setter(volume, request, ino)? } else { OWNER };
        Ok(volume.setxattr(&caller, ino, name, value, mode)?)
    }

    pub(crate) fn getxattr(
        &self,
        volume: &OpenVersion<'_>,
        ino: INodeNo,
        name: &[u8],
    ) -> FuseResult<Vec<u8>> {
        check_space(name)?;
        match volume.getxattr(&OWNER, volume.numbers.ino(ino), name) {
            // Programs request the label of each file that they list, until the error says that labels are
            // not supported.
            Err(error) if error.code() == Code::NoAttribute && name == LABEL && !self.host_has_labels => {
                Err(Errno::EOPNOTSUPP)
            }
            value => Ok(value?),
        }
    }

    /// Returns the names, each with a NUL after it.
    pub(crate) fn listxattr(
        &self,
        volume: &OpenVersion<'_>,
        request: &Request,
        ino: INodeNo,
    ) -> FuseResult<Vec<u8>> {
        let sees_trusted = request.uid() == 0;
        let mut list = Vec::new();
        for name in volume.listxattr(volume.numbers.ino(ino))? {
            if sees_trusted || !name.starts_with(b"trusted.") {
                list.extend_from_slice(&name);
                list.push(0);
            }
        }
        Ok(list)
    }

    pub(crate) fn removexattr(&self, volume: &OpenVersion<'_>, ino: INodeNo, name: &[u8]) -> FuseResult<()> {
        check_space(name)?;
        Ok(volume.removexattr(&OWNER, volume.numbers.ino(ino), name)?)
    }
}
