//! Extended attributes.
//!
//! The client has checked permissions by name space. Only hiding `trusted.` in lists is left to the file
//! system.

use crate::errno::{Errno, Reply};
use crate::requester::Requester;
use crate::served::Served;
use crate::statistics::Operation;
use crate::versions::NodeId;
use lanefs::{Caller, Code, Ino, SetAttr, Volume, XattrMode, is_linux_xattr};

const OWNER: Caller = Caller::OWNER;
/// Attribute that is the access control list of a file. The client has checked who sets it.
const ACCESS_LIST: &[u8] = b"system.posix_acl_access";

/// Attribute with the SELinux label of a file.
const LABEL: &[u8] = b"security.selinux";

const SETGID: u16 = 0o2000;

// Of `setxattr(2)`.
const CREATE: i32 = 1;
const REPLACE: i32 = 2;

/// Refuses names outside the name spaces.
fn check_space(name: &[u8]) -> Reply<()> {
    if is_linux_xattr(name) { Ok(()) } else { Err(Errno::EOPNOTSUPP) }
}

/// Returns the identity under which an access list is set: with it goes the set-group-id bit where the
/// client says so by `kills`, or, if it says nothing, where the requester is not in the group of the inode.
fn list_setter(volume: &Volume, requester: &Requester<'_>, ino: Ino, kills: Option<bool>) -> Reply<Caller> {
    if kills == Some(false) || kills.is_none() && requester.is_root() {
        return Ok(OWNER);
    }
    let attr = volume.getattr(ino)?;
    if kills.is_none() && requester.is_member(attr.gid) {
        return Ok(OWNER);
    }
    // The owner may set it, and is a stranger to the group.
    Ok(Caller::user(attr.uid, !attr.gid, &[]))
}

/// Takes the set-group-id bit of a file of root, to whom the volume leaves it.
fn drop_setgid(volume: &Volume, ino: Ino) -> Reply<()> {
    let attr = volume.getattr(ino)?;
    if attr.uid == 0 && attr.perm & SETGID != 0 {
        volume.setattr(&OWNER, ino, &SetAttr { perm: Some(attr.perm & !SETGID), ..SetAttr::default() })?;
    }
    Ok(())
}

impl Served {
    /// Sets an attribute, with the flags of `setxattr(2)`. `kills` is what the client says of an access
    /// control list: whether the set-group-id bit goes with it. Where it says nothing, that follows from the
    /// groups of the requester.
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
        kills: Option<bool>,
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
            let caller = match name == ACCESS_LIST {
                true => list_setter(volume, requester, ino, kills)?,
                false => OWNER,
            };
            volume.setxattr(&caller, ino, name, value, mode)?;
            match caller.user {
                None => Ok(()),
                Some(_) => drop_setgid(volume, ino),
            }
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
