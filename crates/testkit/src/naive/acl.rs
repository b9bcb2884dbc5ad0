//! Access control lists.

use super::attributes::Attributes;
use super::bytes::Words;
use super::inode::{DIRECTORY, Inode, LINK};
use super::{Read, ensure};
use std::collections::BTreeSet;

/// Checks the lists among an inode's attributes, and the flags that say which it has.
pub(super) fn check(inode: &Inode, attributes: &Attributes) -> Read<()> {
    let lists = [(&b"system.posix_acl_access"[..], 0x10), (b"system.posix_acl_default", 0x20)];
    for (name, flag) in lists {
        let value = attributes.get(name);
        ensure(value.is_some() == (inode.flags() & flag != 0), || {
            format!("an attribute of an access control list without its flag {flag:#x}, or the reverse")
        })?;
        let Some(value) = value else { continue };
        let (mode, has_mask) = mode_of(value)?;
        if flag == 0x20 {
            ensure(inode.kind() == DIRECTORY, || "a default list of something else".to_owned())?;
            continue;
        }
        ensure(inode.kind() != LINK, || "an access control list of a link".to_owned())?;
        ensure(has_mask, || "an access control list that says no more than the mode".to_owned())?;
        ensure(mode == inode.mode() & 0o777, || format!("an access control list of mode {mode:o}"))?;
    }
    Ok(())
}

/// Checks a list. Returns the permissions that the mode of its inode has, and whether the list has a mask.
fn mode_of(value: &[u8]) -> Read<(u16, bool)> {
    let sound = value.len() <= 4096 && value.len() % 8 == 4 && value.u32(0) == 2;
    ensure(sound, || "a list of another form".to_owned())?;
    let (mut mode, mut last, mut seen, mut named) = (0, 0, 0_u16, BTreeSet::new());
    for entry in value[4..].chunks(8) {
        let (tag, perm, id) = (entry.u16(0), entry.u16(2), entry.u32(4));
        let is_named = tag == 2 || tag == 8;
        let is_first = if is_named { id != u32::MAX && named.insert((tag, id)) } else { tag > last };
        let sound = [1, 2, 4, 8, 16, 32].contains(&tag) && perm < 8 && tag >= last && is_first;
        ensure(sound, || format!("an entry of a list: tag {tag}, permissions {perm}, id {id}"))?;
        (seen, last) = (seen | tag, tag);
        mode = match tag {
            1 => perm << 6,
            // The mask, which comes later, takes the place of the owning group.
            4 | 16 => mode & 0o700 | perm << 3,
            32 => mode | perm,
            _ => mode,
        };
    }
    ensure(seen & 37 == 37 && (named.is_empty() || seen & 16 != 0), || {
        "a list with too few tags".to_owned()
    })?;
    Ok((mode, seen & 16 != 0))
}
