//! Extended attributes.
//!
//! The kernel has checked permissions by name space. Only hiding `trusted.` in lists is left to the file
//! system.

use crate::errno::{Errno, FuseResult};
use crate::served::Served;
use fuser::{INodeNo, Request};
use lanefs::{Caller, Code, Volume, XattrMode};

const OWNER: Caller = Caller::OWNER;
/// Name spaces that a volume keeps. `system.` would have access control lists, which are not supported.
const SPACES: [&[u8]; 3] = [b"user.", b"trusted.", b"security."];

/// Attribute with the SELinux label of a file.
const LABEL: &[u8] = b"security.selinux";

// Of `setxattr(2)`.
const CREATE: i32 = 1;
const REPLACE: i32 = 2;

/// Refuses names outside the name spaces.
fn check_space(name: &[u8]) -> FuseResult<()> {
    let known = SPACES.iter().any(|space| name.starts_with(space) && name.len() > space.len());
    if known { Ok(()) } else { Err(Errno::EOPNOTSUPP) }
}

impl Served {
    pub(crate) fn setxattr(
        &self,
        volume: &Volume,
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
        Ok(volume.setxattr(&OWNER, self.numbers.ino(ino), name, value, mode)?)
    }

    pub(crate) fn getxattr(&self, volume: &Volume, ino: INodeNo, name: &[u8]) -> FuseResult<Vec<u8>> {
        check_space(name)?;
        match volume.getxattr(&OWNER, self.numbers.ino(ino), name) {
            // Programs request the label of each file that they list, until the error says that labels are
            // not supported.
            Err(error) if error.code() == Code::NoAttribute && name == LABEL && !self.host_has_labels => {
                Err(Errno::EOPNOTSUPP)
            }
            value => Ok(value?),
        }
    }

    /// Returns the names, each with a NUL after it.
    pub(crate) fn listxattr(&self, volume: &Volume, request: &Request, ino: INodeNo) -> FuseResult<Vec<u8>> {
        let sees_trusted = request.uid() == 0;
        let mut list = Vec::new();
        for name in volume.listxattr(self.numbers.ino(ino))? {
            if sees_trusted || !name.starts_with(b"trusted.") {
                list.extend_from_slice(&name);
                list.push(0);
            }
        }
        Ok(list)
    }

    pub(crate) fn removexattr(&self, volume: &Volume, ino: INodeNo, name: &[u8]) -> FuseResult<()> {
        check_space(name)?;
        Ok(volume.removexattr(&OWNER, self.numbers.ino(ino), name)?)
    }
}
