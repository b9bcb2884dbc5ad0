//! Access control lists as text: the records `SCHILY.acl.access` and `SCHILY.acl.default` of star, GNU tar
//! and bsdtar, in the long or short form of acl(5).

use crate::import::IdNames;

/// Returns the attribute whose value a record has as text.
pub(crate) fn attribute(record: &[u8]) -> Option<&'static [u8]> {
    match record {
        b"SCHILY.acl.access" => Some(b"system.posix_acl_access"),
        b"SCHILY.acl.default" => Some(b"system.posix_acl_default"),
        _ => None,
    }
}

/// Version of the form of the attributes.
const VERSION: u32 = 2;
/// Id of entries that name nobody.
const NOBODY: u32 = u32::MAX;

/// Returns the value of the attribute that has the list; `None` for text that is not a list, and for a list
/// with a user or group without a number whose name is not known.
pub(crate) fn parse(text: &[u8], names: Option<&dyn IdNames>) -> Option<Vec<u8>> {
    let text = std::str::from_utf8(text).ok()?;
    let lines = text.lines().map(|line| line.split('#').next().unwrap_or_default());
    let texts = lines.flat_map(|line| line.split(',')).map(str::trim).filter(|entry| !entry.is_empty());
    let mut entries = texts.map(|text| entry(text, names)).collect::<Option<Vec<_>>>()?;
    entries.sort_unstable();
    let mut value = VERSION.to_le_bytes().to_vec();
    for (tag, id, perm) in entries {
        value.extend(tag.to_le_bytes());
        value.extend(perm.to_le_bytes());
        value.extend(id.to_le_bytes());
    }
    Some(value)
}

/// Parses `tag:qualifier:permissions`, with the number of the user or group after it in the form of star:
/// tag, id and permissions of the entry.
fn entry(line: &str, names: Option<&dyn IdNames>) -> Option<(u16, u32, u16)> {
    let mut fields = line.split(':').map(str::trim);
    let (tag, who) = (fields.next()?, fields.next()?);
    // `mask` and `other` may come with one colon.
    let perm = match (tag, fields.next()) {
        ("mask" | "m" | "other" | "o", None) => return Some((special(tag)?, NOBODY, permissions(who)?)),
        (_, perm) => permissions(perm?)?,
    };
    let id = fields.next();
    if fields.next().is_some() {
        return None;
    }
    let known = |find: fn(&dyn IdNames, &str) -> Option<u32>| {
        let number = id.unwrap_or(who).parse().ok().filter(|number| *number != NOBODY);
        number.or_else(|| find(names.filter(|_| id.is_none())?, who))
    };
    match tag {
        "user" | "u" if who.is_empty() => Some((1, NOBODY, perm)),
        "user" | "u" => Some((2, known(|names, who| names.user(who))?, perm)),
        "group" | "g" if who.is_empty() => Some((4, NOBODY, perm)),
        "group" | "g" => Some((8, known(|names, who| names.group(who))?, perm)),
        _ if who.is_empty() => Some((special(tag)?, NOBODY, perm)),
        _ => None,
    }
}

/// Number of a tag that names nobody in any list.
fn special(tag: &str) -> Option<u16> {
    match tag {
        "mask" | "m" => Some(16),
        "other" | "o" => Some(32),
        _ => None,
    }
}

fn permissions(text: &str) -> Option<u16> {
    text.bytes().try_fold(0, |bits, letter| match letter {
        b'r' => Some(bits | 4),
        b'w' => Some(bits | 2),
        b'x' => Some(bits | 1),
        b'-' => Some(bits),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Known;

    impl IdNames for Known {
        fn user(&self, name: &str) -> Option<u32> {
            [("anna", 1001), ("ben", 1002)].into_iter().find(|(known, _)| *known == name).map(|(_, id)| id)
        }

        fn group(&self, name: &str) -> Option<u32> {
            (name == "staff").then_some(77)
        }
    }

    #[test]
    fn lists_parse_in_every_form() {
        let expected = [
            &2u32.to_le_bytes()[..],
            &[1, 0, 6, 0, 0xff, 0xff, 0xff, 0xff],
            &[2, 0, 7, 0, 0xe9, 3, 0, 0],
            &[2, 0, 4, 0, 0xea, 3, 0, 0],
            &[4, 0, 4, 0, 0xff, 0xff, 0xff, 0xff],
            &[8, 0, 5, 0, 77, 0, 0, 0],
            &[16, 0, 7, 0, 0xff, 0xff, 0xff, 0xff],
            &[32, 0, 0, 0, 0xff, 0xff, 0xff, 0xff],
        ]
        .concat();
        for text in [
            "user::rw-\nuser:1001:rwx\nuser:1002:r--\ngroup::r--\ngroup:77:r-x\nmask::rwx\nother::---\n",
            "user::rw-,user:anna:rwx:1001,user:ben:r--:1002,group::r--,group:staff:r-x:77,mask::rwx,other::---",
            "u::rw,g::r,o:-,m:rwx,u:1002:r,u:1001:rwx,g:77:rx # short, in another order",
        ] {
            assert_eq!(parse(text.as_bytes(), None).as_ref(), Some(&expected), "{text}");
        }
        let names = "user::rw,user:anna:rwx,user:ben:r--,group::r,group:staff:r-x,mask::rwx,other::-";
        assert_eq!(parse(names.as_bytes(), Some(&Known)), Some(expected));
        assert_eq!(parse(b"user:staff:rwx", Some(&Known)), None);
    }

    #[test]
    fn what_is_no_list_or_has_names_only_is_refused() {
        for text in [
            "user:anna:rwx",
            "user:1001:rwx:anna",
            "user:4294967295:r",
            "user:1001:rwz",
            "user:1001",
            "other:1001:r",
            "mask:1:r--",
            "nobody::r",
            "user:1001:r:1001:1",
            "user:-1:r",
            "rwx",
        ] {
            assert_eq!(parse(text.as_bytes(), None), None, "{text}");
        }
        assert_eq!(parse(b"user::\xff", Some(&Known)), None);
        assert_eq!(parse(b"user:anna:rwx:ben", Some(&Known)), None);
    }
}
