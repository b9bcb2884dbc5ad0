//! POSIX access control lists: the form that Linux gives them in extended attributes, and the rules of
//! acl(5).

use super::types::User;
use lanefs_format::{Code, FileKind, INODE_ACCESS_ACL, INODE_DEFAULT_ACL};
use std::result::Result;

/// Bytes of the largest list: Linux reads no larger one from a FUSE file system.
const MAX_BYTES: usize = 4096;
/// Version of the form.
const VERSION: u32 = 2;
/// Id of entries that name nobody.
const NOBODY: u32 = u32::MAX;

/// The permissions that an entry gives.
const ALL: u16 = 7;

/// One of the two lists of an inode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AclKind {
    /// The list that is checked.
    Access,
    /// The list of a directory that inodes made in it get.
    Default,
}

impl AclKind {
    /// The list that an attribute holds; `None` for all other attributes.
    pub(crate) fn of(name: &[u8]) -> Option<Self> {
        [AclKind::Access, AclKind::Default].into_iter().find(|kind| kind.name() == name)
    }

    /// Name of the attribute.
    pub(crate) fn name(self) -> &'static [u8] {
        match self {
            AclKind::Access => b"system.posix_acl_access",
            AclKind::Default => b"system.posix_acl_default",
        }
    }

    /// True for the types of inodes that may have the list.
    pub(crate) fn fits(self, kind: FileKind) -> bool {
        match self {
            AclKind::Access => kind != FileKind::Symlink,
            AclKind::Default => kind == FileKind::Directory,
        }
    }

    /// Flag of inodes that have the attribute.
    pub(crate) fn flag(self) -> u16 {
        match self {
            AclKind::Access => INODE_ACCESS_ACL,
            AclKind::Default => INODE_DEFAULT_ACL,
        }
    }
}

/// Tags of entries, in the order that entries have in a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u16)]
enum Tag {
    Owner = 1,
    User = 2,
    OwningGroup = 4,
    Group = 8,
    Mask = 16,
    Others = 32,
}

impl Tag {
    fn from_number(number: u16) -> Option<Self> {
        use Tag::{Group, Mask, Others, Owner, OwningGroup, User};
        [Owner, User, OwningGroup, Group, Mask, Others].into_iter().find(|tag| *tag as u16 == number)
    }

    fn names_somebody(self) -> bool {
        matches!(self, Tag::User | Tag::Group)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct AclEntry {
    tag: Tag,
    perm: u16,
    id: u32,
}

impl AclEntry {
    fn parse(bytes: &[u8; 8]) -> Option<Self> {
        let [t0, t1, p0, p1, id @ ..] = *bytes;
        let (tag, perm) = (u16::from_le_bytes([t0, t1]), u16::from_le_bytes([p0, p1]));
        let (tag, id) = (Tag::from_number(tag)?, u32::from_le_bytes(id));
        let names_nobody = tag.names_somebody() && id == NOBODY;
        (perm <= ALL && !names_nobody).then_some(AclEntry { tag, perm, id })
    }

    fn encode(&self) -> [u8; 8] {
        let [t0, t1] = (self.tag as u16).to_le_bytes();
        let [p0, p1] = self.perm.to_le_bytes();
        let [i0, i1, i2, i3] = if self.tag.names_somebody() { self.id } else { NOBODY }.to_le_bytes();
        [t0, t1, p0, p1, i0, i1, i2, i3]
    }
}

/// A valid list: its entries in the order of their tags, one for each of owner, owning group and others, at
/// most one mask, and one where an entry names a user or a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Acl {
    entries: Vec<AclEntry>,
}

impl Acl {
    /// Parses the value of an attribute; `None` for one without entries, which stands for no list.
    ///
    /// # Errors
    /// [`Code::AttributeTooLarge`] above 4096 bytes; [`Code::Unsupported`] for another version, as in Linux;
    /// [`Code::Invalid`] for a list that is not valid.
    pub(crate) fn parse(value: &[u8]) -> Result<Option<Acl>, Code> {
        if value.len() > MAX_BYTES {
            return Err(Code::AttributeTooLarge);
        }
        let Some((version, entries)) = value.split_first_chunk() else {
            return if value.is_empty() { Ok(None) } else { Err(Code::Invalid) };
        };
        if u32::from_le_bytes(*version) != VERSION {
            return Err(Code::Unsupported);
        }
        let (entries, rest) = entries.as_chunks();
        let entries: Option<Vec<AclEntry>> = entries.iter().map(AclEntry::parse).collect();
        let acl = Acl { entries: entries.ok_or(Code::Invalid)? };
        match acl.entries.is_empty() && rest.is_empty() {
            true => Ok(None),
            false if acl.is_valid() && rest.is_empty() => Ok(Some(acl)),
            false => Err(Code::Invalid),
        }
    }

    fn is_valid(&self) -> bool {
        let count = |tag| self.entries.iter().filter(|entry| entry.tag == tag).count();
        let mut named: Vec<_> = self.entries.iter().filter(|entry| entry.tag.names_somebody()).collect();
        let names = named.len();
        named.sort_by_key(|entry| (entry.tag, entry.id));
        named.dedup_by_key(|entry| (entry.tag, entry.id));
        self.entries.is_sorted_by_key(|entry| entry.tag)
            && [Tag::Owner, Tag::OwningGroup, Tag::Others].into_iter().all(|tag| count(tag) == 1)
            && (count(Tag::Mask) == 1 || count(Tag::Mask) == 0 && names == 0)
            && named.len() == names
    }

    /// Returns the value of the attribute.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let entries = self.entries.iter().flat_map(AclEntry::encode);
        VERSION.to_le_bytes().into_iter().chain(entries).collect()
    }

    /// True where the list says no more than the permission bits of a mode.
    pub(crate) fn is_minimal(&self) -> bool {
        !self.entries.iter().any(|entry| entry.tag == Tag::Mask)
    }

    /// The entries that a mode has, with the shift of their bits in it: owner, others, and the mask or, where
    /// there is none, the owning group.
    fn in_mode(&mut self) -> impl Iterator<Item = (&mut u16, u32)> {
        let is_minimal = self.is_minimal();
        self.entries.iter_mut().filter_map(move |entry| match entry.tag {
            Tag::Owner => Some((&mut entry.perm, 6)),
            Tag::Mask => Some((&mut entry.perm, 3)),
            Tag::OwningGroup if is_minimal => Some((&mut entry.perm, 3)),
            Tag::Others => Some((&mut entry.perm, 0)),
            _ => None,
        })
    }

    /// Returns the nine permission bits of a mode that has the list.
    pub(crate) fn mode(&self) -> u16 {
        self.clone().in_mode().fold(0, |mode, (perm, shift)| mode | *perm << shift)
    }

    /// Gives the list the permissions of a mode, as chmod(2) does.
    pub(crate) fn set_mode(&mut self, mode: u16) {
        self.in_mode().for_each(|(perm, shift)| *perm = mode >> shift & ALL);
    }

    /// Reduces a default list to the access list of an inode that is made with this mode.
    pub(crate) fn inherit(&mut self, mode: u16) {
        self.in_mode().for_each(|(perm, shift)| *perm &= mode >> shift);
    }

    /// Decides whether a user who does not own the inode has permissions. `group`: the inode's.
    pub(crate) fn allows(&self, user: &User, group: u32, wanted: u16) -> bool {
        let mask = self.entries.iter().find(|entry| entry.tag == Tag::Mask).map_or(ALL, |entry| entry.perm);
        let mut is_member = false;
        for entry in &self.entries {
            let grants = entry.perm & wanted == wanted;
            match entry.tag {
                Tag::User if entry.id == user.uid => return grants && mask & wanted == wanted,
                Tag::OwningGroup | Tag::Group => {
                    let gid = if entry.tag == Tag::Group { entry.id } else { group };
                    let matches = user.in_group(gid);
                    // One group that has all permissions is enough.
                    if matches && grants {
                        return mask & wanted == wanted;
                    }
                    is_member |= matches;
                }
                Tag::Others => return !is_member && grants,
                Tag::Owner | Tag::User | Tag::Mask => {}
            }
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINIMAL: [(u16, u16, u32); 3] = [(1, 6, NOBODY), (4, 4, NOBODY), (32, 0, NOBODY)];
    /// Users 1000 and 1001, groups 50 and 60, within the mask r-x.
    const FULL: [(u16, u16, u32); 8] = [
        (1, 6, NOBODY),
        (2, 7, 1000),
        (2, 0, 1001),
        (4, 4, NOBODY),
        (8, 2, 50),
        (8, 1, 60),
        (16, 5, NOBODY),
        (32, 4, NOBODY),
    ];

    fn value(entries: &[(u16, u16, u32)]) -> Vec<u8> {
        let mut value = vec![2, 0, 0, 0];
        for (tag, perm, id) in entries {
            value.extend(tag.to_le_bytes());
            value.extend(perm.to_le_bytes());
            value.extend(id.to_le_bytes());
        }
        value
    }

    fn parsed(entries: &[(u16, u16, u32)]) -> Acl {
        Acl::parse(&value(entries)).expect("a valid list").expect("a list with entries")
    }

    #[test]
    fn lists_keep_their_bytes() {
        for entries in [&MINIMAL[..], &FULL] {
            assert_eq!(parsed(entries).encode(), value(entries));
        }
        // The ids of entries that name nobody mean nothing.
        assert_eq!(parsed(&[(1, 6, 5), (4, 4, 0), (32, 0, 9)]).encode(), value(&MINIMAL));
        assert_eq!(Acl::parse(b""), Ok(None));
        assert_eq!(Acl::parse(&value(&[])), Ok(None));
    }

    #[test]
    fn values_that_are_no_lists_are_refused() {
        let with = |at: usize, entry| {
            let mut entries = FULL.to_vec();
            entries.insert(at, entry);
            entries
        };
        let without = |tag| FULL.into_iter().filter(|entry| entry.0 != tag).collect::<Vec<_>>();
        for entries in [
            without(1),
            without(4),
            without(16),
            without(32),
            with(0, (1, 6, NOBODY)),
            with(4, (4, 6, NOBODY)),
            with(7, (16, 6, NOBODY)),
            with(8, (32, 6, NOBODY)),
            with(2, (2, 6, 1000)),
            with(5, (8, 6, 50)),
            with(4, (2, 6, 7)),
            with(7, (8, 6, 7)),
            with(1, (2, 8, 7)),
            with(1, (2, 6, NOBODY)),
            with(1, (0, 6, 7)),
            with(1, (3, 6, 7)),
            with(8, (64, 6, 7)),
            FULL.into_iter().rev().collect(),
        ] {
            assert_eq!(Acl::parse(&value(&entries)), Err(Code::Invalid), "{entries:?}");
        }
        for len in 1..value(&FULL).len() {
            assert_eq!(Acl::parse(&value(&FULL)[..len]).ok().flatten(), None, "{len} bytes");
        }
        assert_eq!(Acl::parse(&[3, 0, 0, 0]), Err(Code::Unsupported));
        let users = |count: u32| (0..count).map(|user| (2, 4, user));
        let of = |count| {
            let rest = [(4, 4, NOBODY), (16, 5, NOBODY), (32, 0, NOBODY)];
            value(&[(1, 6, NOBODY)].into_iter().chain(users(count)).chain(rest).collect::<Vec<_>>())
        };
        assert!(matches!(Acl::parse(&of(507)), Ok(Some(_))));
        assert_eq!(Acl::parse(&of(508)), Err(Code::AttributeTooLarge));
    }

    #[test]
    fn modes_and_lists_follow_each_other() {
        let mut list = parsed(&FULL);
        assert_eq!((list.mode(), list.is_minimal()), (0o654, false));
        list.set_mode(0o1321);
        assert_eq!(list.mode(), 0o321);
        let changed: Vec<_> = list.entries.iter().map(|entry| entry.perm).collect();
        assert_eq!(changed, [3, 7, 0, 4, 2, 1, 2, 1], "owner, mask and others");
        let mut list = parsed(&MINIMAL);
        assert_eq!((list.mode(), list.is_minimal()), (0o640, true));
        list.set_mode(0o321);
        assert_eq!(list.mode(), 0o321);
        for (entries, mode, inherited) in
            [(&FULL[..], 0o777, 0o654), (&FULL, 0o640, 0o640), (&FULL, 0, 0), (&MINIMAL, 0o770, 0o640)]
        {
            let mut list = parsed(entries);
            list.inherit(mode);
            assert_eq!(list.mode(), inherited, "{mode:o}");
        }
    }

    #[test]
    fn the_first_entry_that_matches_decides_and_any_group_may() {
        let list = parsed(&FULL);
        for (uid, groups, granted) in [
            // Masked: write goes.
            (1000, &[][..], 5),
            // The user's own entry comes before those of groups.
            (1000, &[50, 60], 5),
            (1001, &[7], 0),
            // The owning group is 7.
            (1002, &[7], 4),
            (1002, &[50], 0),
            (1002, &[60], 1),
            // Each of them, but no two together.
            (1002, &[50, 60, 7], 4 | 1),
            (1002, &[], 4),
        ] {
            let user = User { uid, gid: 999, groups: groups.to_vec() };
            for wanted in 0..=ALL {
                let by_one = wanted.count_ones() < 2 || groups.len() < 2 || uid == 1000;
                let expected = granted & wanted == wanted && by_one;
                assert_eq!(list.allows(&user, 7, wanted), expected, "{uid} {groups:?} wants {wanted}");
            }
        }
    }
}
