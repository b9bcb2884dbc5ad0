//! Names of extended attributes.

use super::acl::AclKind;

/// Name spaces of attributes that Linux keeps for any file system.
const SPACES: [&[u8]; 3] = [b"user.", b"trusted.", b"security."];

/// Returns whether Linux has attributes of this name: one of a name space, or an access control list. A
/// volume keeps any name, but programs reach no other one through a mount.
pub fn is_linux_xattr(name: &[u8]) -> bool {
    let is_in_space = SPACES.iter().any(|space| name.starts_with(space) && name.len() > space.len());
    is_in_space || AclKind::of(name).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_has_a_name_space_and_more() {
        for name in ["user.a", "trusted.a", "security.selinux", "system.posix_acl_access", "user.."] {
            assert!(is_linux_xattr(name.as_bytes()), "{name}");
        }
        for name in
            ["", "foo", "user", "user.", "trusted.", "security.", "system.nfs4_acl", "system.", "Xuser.a"]
        {
            assert!(!is_linux_xattr(name.as_bytes()), "{name}");
        }
    }
}
