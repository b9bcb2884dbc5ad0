//! Names and files in words that both sides of a comparison have.

use super::difference::Aspects;
use crate::on_host::host::HostMeta;
use crate::vocabulary::xattrs::{ACCESS_LIST, CAPABILITIES, DEFAULT_LIST};
use lanefs::FileKind;
use std::collections::BTreeMap;
use std::ffi::CString;

/// The set-user-id and set-group-id bits of a file's permissions.
const SET_ID: u16 = 0o6000;

/// A file: its attributes, but not its content and its extended attributes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Node {
    pub(crate) meta: HostMeta,
    /// False where it is known that the file has no extended attributes.
    pub(crate) may_have_xattrs: bool,
}

/// A name of a directory.
#[derive(Clone, Debug)]
pub(crate) struct Name {
    pub(crate) name: CString,
    pub(crate) kind: FileKind,
    /// Inode number, which is about the order on the disk.
    pub(crate) ino: u64,
}

impl Name {
    pub(crate) fn is_dir(&self) -> bool {
        self.kind == FileKind::Directory
    }
}

/// Extended attributes by name, those that transfers keep.
pub(crate) type Xattrs = BTreeMap<Vec<u8>, Vec<u8>>;

/// The attributes in which two files of the same type differ.
pub(crate) fn attributes(a: &HostMeta, b: &HostMeta) -> Aspects {
    let is_link = a.kind == FileKind::Symlink;
    let is_device = matches!(a.kind, FileKind::CharDevice | FileKind::BlockDevice);
    Aspects::SIZE.when(a.kind == FileKind::File && a.size != b.size)
        | Aspects::CONTENT.when(is_device && a.rdev != b.rdev)
        | Aspects::MTIME.when(a.mtime != b.mtime)
        // Links have no permissions of their own on Linux.
        | Aspects::MODE.when(!is_link && a.perm != b.perm)
        | Aspects::OWNER.when(a.uid != b.uid)
        | Aspects::GROUP.when(a.gid != b.gid)
}

/// True where the attributes of `a` would give the content of `b` rights that it has not: another owner or
/// group, a set-id bit, capabilities. Then size and time do not tell that the content is the same: who made
/// it may have put a link to somebody else's file of that size and time in its place.
pub(crate) fn gains_rights((a, xattrs_a): (&HostMeta, &Xattrs), (b, xattrs_b): (&HostMeta, &Xattrs)) -> bool {
    let has_other_owner = (a.uid, a.gid) != (b.uid, b.gid);
    let gains_set_id = a.perm & !b.perm & SET_ID != 0;
    let gains_capabilities =
        xattrs_a.contains_key(CAPABILITIES) && xattrs_a.get(CAPABILITIES) != xattrs_b.get(CAPABILITIES);
    has_other_owner || gains_set_id || gains_capabilities
}

/// The extended attributes in which two files differ.
pub(crate) fn extended(a: &Xattrs, b: &Xattrs) -> Aspects {
    let differs = |name: &&Vec<u8>| a.get(*name) != b.get(*name);
    let aspect = |name: &Vec<u8>| match &name[..] {
        ACCESS_LIST | DEFAULT_LIST => Aspects::ACL,
        _ => Aspects::XATTR,
    };
    a.keys().chain(b.keys()).filter(differs).map(aspect).fold(Aspects::default(), |all, one| all | one)
}
