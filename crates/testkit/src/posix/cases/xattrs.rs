//! Extended attributes.

use super::refused;
use crate::posix::{PosixFs, User};
use rustix::fs::XattrFlags;
use rustix::io::Errno;

const ROOT: User = User::ROOT;
const SET: XattrFlags = XattrFlags::empty();

/// The flags of setxattr(2), and name spaces.
pub fn attributes_are_made_replaced_and_refused(fs: &impl PosixFs) {
    fs.make("f", 0o644, b"");
    let set = |name: &str, value: &[u8], flags| fs.setxattr(&ROOT, "f", name, value, flags);
    let get = |name: &str| fs.getxattr(&ROOT, "f", name);
    set("user.a", b"one", SET).expect("setxattr");
    assert_eq!(refused(set("user.a", b"two", XattrFlags::CREATE)), Errno::EXIST);
    assert_eq!(refused(set("user.b", b"two", XattrFlags::REPLACE)), Errno::NODATA);
    set("user.a", b"longer", XattrFlags::REPLACE).expect("setxattr");
    assert_eq!(get("user.a").expect("getxattr"), b"longer");
    assert_eq!(fs.listxattr(&ROOT, "f").expect("listxattr"), ["user.a"]);
    assert_eq!(refused(get("user.none")), Errno::NODATA);
    assert_eq!(refused(fs.removexattr("f", "user.none")), Errno::NODATA);
    assert_eq!(refused(get("system.posix_acl_access")), Errno::NODATA);
    assert_eq!(refused(get("system.nfs4_acl")), Errno::OPNOTSUPP);
    assert_eq!(refused(set("nonsense.a", b"x", SET)), Errno::OPNOTSUPP);
    fs.removexattr("f", "user.a").expect("removexattr");
    assert_eq!(refused(get("user.a")), Errno::NODATA);
    assert!(fs.listxattr(&ROOT, "f").expect("listxattr").is_empty());
}

/// The largest value is 64 KiB, and the longest name 255 bytes.
pub fn large_values_and_long_names_have_limits(fs: &impl PosixFs) {
    fs.make("f", 0o644, b"");
    let large = vec![b'v'; 65536];
    fs.setxattr(&ROOT, "f", "user.large", &large, SET).expect("setxattr");
    assert_eq!(fs.getxattr(&ROOT, "f", "user.large").expect("getxattr"), large);
    assert!(fs.setxattr(&ROOT, "f", "user.large", &[large, vec![b'v']].concat(), SET).is_err());
    fs.removexattr("f", "user.large").expect("removexattr");
    let longest = format!("user.{}", "n".repeat(250));
    fs.setxattr(&ROOT, "f", &longest, b"v", SET).expect("setxattr");
    assert_eq!(fs.getxattr(&ROOT, "f", &longest).expect("getxattr"), b"v");
    assert!(fs.setxattr(&ROOT, "f", &format!("{longest}n"), b"v", SET).is_err());
}

/// Users do not see that there are `trusted.` attributes.
pub fn trusted_attributes_are_hidden_from_users(fs: &impl PosixFs) {
    fs.make("f", 0o644, b"");
    for name in ["user.a", "trusted.b"] {
        fs.setxattr(&ROOT, "f", name, b"v", SET).expect("setxattr");
    }
    let seen = |by: &User| {
        let mut names = fs.listxattr(by, "f").expect("listxattr");
        names.sort();
        names
    };
    assert_eq!(seen(&ROOT), ["trusted.b", "user.a"]);
    assert_eq!(seen(&User { uid: 1001, gid: 1001, groups: &[] }), ["user.a"]);
}
