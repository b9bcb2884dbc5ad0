//! Names and files in words that both sides of a comparison have.

use super::difference::Aspects;
use crate::on_host::host::HostMeta;
use crate::vocabulary::xattrs::{ACCESS_LIST, CAPABILITIES, DEFAULT_LIST};
use lanefs::{FileKind, Time};
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
    /// True for a directory of an archive that has no member of its own: its names are known, and its
    /// attributes are not.
    pub(crate) is_implied: bool,
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

/// Nanoseconds of a second.
const SECOND_NS: i64 = 1_000_000_000;

/// The sides of a comparison that are archives: a time of theirs without a fraction says nothing of it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct InSeconds {
    pub(crate) a: bool,
    pub(crate) b: bool,
}

impl InSeconds {
    /// True where one of the sides is such an archive.
    pub(crate) fn is_any(self) -> bool {
        self.a || self.b
    }
}

/// True where two times are the same.
fn is_time(a: Time, b: Time, in_seconds: InSeconds) -> bool {
    let is_second = |time: Time| time.0.rem_euclid(SECOND_NS) == 0;
    let is_any = in_seconds.a && is_second(a) || in_seconds.b && is_second(b);
    a == b || is_any && in_whole_seconds(a) == in_whole_seconds(b)
}

/// A time without its fraction.
pub(crate) fn in_whole_seconds(time: Time) -> Time {
    Time(time.0.saturating_sub(time.0.rem_euclid(SECOND_NS)))
}

/// The attributes in which two files of the same type differ.
pub(crate) fn attributes(a: &HostMeta, b: &HostMeta, in_seconds: InSeconds) -> Aspects {
    let is_link = a.kind == FileKind::Symlink;
    let is_device = matches!(a.kind, FileKind::CharDevice | FileKind::BlockDevice);
    Aspects::SIZE.when(a.kind == FileKind::File && a.size != b.size)
        | Aspects::CONTENT.when(is_device && a.rdev != b.rdev)
        | Aspects::MTIME.when(!is_time(a.mtime, b.mtime, in_seconds))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_without_a_fraction_is_any_of_its_second_in_an_archive() {
        let time = |seconds: i64, ns: i64| Time(seconds * SECOND_NS + ns);
        let [none, in_a, in_b] =
            [(false, false), (true, false), (false, true)].map(|(a, b)| InSeconds { a, b });
        for second in [-2, 0, 1_700_000_000] {
            assert!(is_time(time(second, 0), time(second, 999_999_999), in_a));
            assert!(is_time(time(second, 999_999_999), time(second, 0), in_b));
            assert!(!is_time(time(second, 0), time(second, 999_999_999), in_b));
            assert!(!is_time(time(second, 0), time(second, 1), none));
            assert!(!is_time(time(second, 0), time(second, -1), in_a));
            assert!(!is_time(time(second, 0), time(second + 1, 0), in_a));
            assert!(!is_time(time(second, 5), time(second, 6), in_a));
            assert!(is_time(time(second, 5), time(second, 5), in_a));
        }
    }
}
