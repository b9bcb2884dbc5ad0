//! Extended attributes.
//!
//! The client has checked permissions by name space. Only hiding `trusted.` in lists is left to the file
//! system.

use crate::errno::{Errno, Reply};
use crate::requester::Requester;
use crate::served::Served;
use crate::statistics::Operation;
use crate::versions::NodeId;
use lanefs::{Caller, Code, Ino, Volume, XattrMode};

const OWNER: Caller = Caller::OWNER;
/// Name spaces that a volume keeps.
const SPACES: [&[u8]; 3] = [b"user.", b"trusted.", b"security."];
/// Attributes that are access control lists. The client has checked who sets them.
const ACCESS_LIST: &[u8] = b"system.posix_acl_access";
const DEFAULT_LIST: &[u8] = b"system.posix_acl_default";

/// Attribute with the SELinux label of a file.
const LABEL: &[u8] = b"security.selinux";

// Of `setxattr(2)`.
const CREATE: i32 = 1;
const REPLACE: i32 = 2;

/// Refuses names outside the name spaces.
fn check_space(name: &[u8]) -> Reply<()> {
    let known = SPACES.iter().any(|space| name.starts_with(space) && name.len() > space.len());
    if known || name == ACCESS_LIST || name == DEFAULT_LIST { Ok(()) } else { Err(Errno::EOPNOTSUPP) }
}

/// Returns the identity under which the requester sets an access list: with it goes the set-group-id bit
/// where the requester is not in the group of the inode. Linux does not say so.
fn list_setter(volume: &Volume, requester: &Requester<'_>, ino: Ino) -> Reply<Caller> {
    if requester.is_root() {
        return Ok(OWNER);
    }
    let attr = volume.getattr(ino)?;
    let group = if requester.is_member(attr.gid) { attr.gid } else { requester.gid };
    Ok(Caller::user(attr.uid, group, &[]))
}

impl Served {
    /// Sets an attribute, with the flags of `setxattr(2)`.
    ///
    /// # Errors
    /// `EOPNOTSUPP`: there is no such name space. `EINVAL`: a flag is unknown. Those of [`Volume::setxattr`].
    pub fn setxattr(
        &self,
        requester: &Requester<'_>,
        node: NodeId,
        name: &[u8],
        value: &[u8],
        flags: i32,
    ) -> Reply<()> {
        self.with(Operation::Setxattr, node, |volume| {
            check_space(name)?;
            let mode = match flags {
                0 => XattrMode::Set,
                CREATE => XattrMode::Create,
                REPLACE => XattrMode::Replace,
                _ => return Err(Errno::EINVAL),
            };
            let ino = volume.numbers.ino(node);
            let caller = if name == ACCESS_LIST { list_setter(volume, requester, ino)? } else { OWNER };
            Ok(volume.setxattr(&caller, ino, name, value, mode)?)
        })
    }

    /// Returns the value of an attribute.
    ///
    /// # Errors
    /// `EOPNOTSUPP`: there is no such name space, or no label on a host without labels. Those of
    /// [`Volume::getxattr`].
    pub fn getxattr(&self, requester: &Requester<'_>, node: NodeId, name: &[u8]) -> Reply<Vec<u8>> {
        if let Some(told) = self.told(requester.uid, node, name) {
            return told;
        }
        self.with(Operation::Getxattr, node, |volume| {
            check_space(name)?;
            match volume.getxattr(&OWNER, volume.numbers.ino(node), name) {
                // Programs request the label of each file that they list, until the error says that labels
                // are not supported.
                Err(error) if error.code() == Code::NoAttribute && name == LABEL && !self.host_has_labels => {
                    Err(Errno::EOPNOTSUPP)
                }
                value => Ok(value?),
            }
        })
    }

    /// Returns the names that the requester may see, each with a NUL after it.
    ///
    /// # Errors
    /// Those of [`Volume::listxattr`].
    pub fn listxattr(&self, requester: &Requester<'_>, node: NodeId) -> Reply<Vec<u8>> {
        self.with(Operation::Listxattr, node, |volume| {
            let sees_trusted = requester.is_root();
            let mut list = Vec::new();
            for name in volume.listxattr(volume.numbers.ino(node))? {
                if sees_trusted || !name.starts_with(b"trusted.") {
                    list.extend_from_slice(&name);
                    list.push(0);
                }
            }
            Ok(list)
        })
    }

    /// Removes an attribute.
    ///
    /// # Errors
    /// `EOPNOTSUPP`: there is no such name space. Those of [`Volume::removexattr`].
    pub fn removexattr(&self, node: NodeId, name: &[u8]) -> Reply<()> {
        self.with(Operation::Removexattr, node, |volume| {
            check_space(name)?;
            Ok(volume.removexattr(&OWNER, volume.numbers.ino(node), name)?)
        })
    }
}
