//! Changes of attributes.

use super::inode::Inode;
use super::perm::{self, WRITE, access};
use super::write_plan::WritePlan;
use super::{data, lists};
use crate::attempt::Core;
use crate::attempt::edit::Edit;
use crate::vocabulary::error::Outcome;
use crate::vocabulary::types::{Attr, Caller, SetAttr, Time};
use lanefs_format::{Code, FileKind, inode as f};

/// `chmod`, `chown`, `truncate` and `utimensat` in one.
pub(crate) fn set(
    edit: &mut Edit<'_>,
    caller: &Caller,
    node: Inode<'_>,
    set: &SetAttr,
    plan: &mut WritePlan<'_>,
) -> Outcome<()> {
    let kind = node.kind()?;
    match kind {
        FileKind::File => {}
        FileKind::Directory if set.size.is_some() => return Err(Code::IsDirectory.into()),
        _ if set.size.is_some() => return Err(Code::Invalid.into()),
        _ => {}
    }
    check(edit.core, caller, &node, set)?;
    if let Some(size) = set.size {
        data::truncate(edit, node, size, plan)?;
        perm::drop_set_id(edit, caller, &node);
    }
    if set.uid.is_some() || set.gid.is_some() {
        if kind != FileKind::Directory {
            edit.tx.put(node.view, f::MODE, perm::without_set_id(caller, &node));
        }
        edit.tx.put(node.view, f::UID, set.uid.unwrap_or(node.view.get(f::UID)));
        edit.tx.put(node.view, f::GID, set.gid.unwrap_or(node.view.get(f::GID)));
    }
    if let Some(perm) = set.perm {
        let mut perm = perm & 0o7777;
        if perm::checked(caller).is_some_and(|user| !user.in_group(node.view.get(f::GID))) {
            perm &= !0o2000;
        }
        edit.tx.put(node.view, f::MODE, kind.mode() | perm);
        lists::set_mode(edit, node, perm)?;
    }
    if let Some(time) = set.atime {
        edit.tx.put(node.view, f::ATIME, time.0);
    }
    if let Some(time) = set.mtime {
        edit.tx.put(node.view, f::MTIME, time.0);
    }
    if *set != SetAttr::default() {
        edit.tx.put(node.view, f::CTIME, edit.now.0);
    }
    Ok(())
}

/// True where a new access time adds information: the inode has not been read since its last change, or not
/// for a day.
pub(crate) fn is_access_news(attr: &Attr, now: Time) -> bool {
    const DAY: i64 = 24 * 60 * 60 * 1_000_000_000;
    let atime = attr.atime;
    atime != now && (atime <= attr.mtime || atime <= attr.ctime || now.0.saturating_sub(atime.0) >= DAY)
}

fn check(core: &Core<'_>, caller: &Caller, node: &Inode<'_>, set: &SetAttr) -> Outcome<()> {
    let Some(user) = perm::checked(caller) else { return Ok(()) };
    if set.size.is_some() {
        access(core, caller, node, WRITE)?;
    }
    let owns = perm::owns(caller, node);
    let gives_away = set.uid.is_some_and(|uid| !owns || uid != node.view.get(f::UID));
    let other_group =
        set.gid.is_some_and(|gid| !owns || !(gid == node.view.get(f::GID) || user.in_group(gid)));
    let not_his = !owns && (set.perm.is_some() || set.atime.is_some() || set.mtime.is_some());
    if gives_away || other_group || not_his { Err(Code::NotPermitted.into()) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vocabulary::types::Ino;
    use lanefs_format::FileKind;

    #[test]
    fn a_time_of_access_is_news_after_a_change_and_after_a_day() {
        let hour = 60 * 60 * 1_000_000_000;
        let is_news = |atime: i64, mtime: i64, ctime: i64, now: i64| {
            let [atime, mtime, ctime, btime] = [atime, mtime, ctime, 0].map(|hours| Time(hours * hour));
            let attr = Attr {
                ino: Ino(1),
                kind: FileKind::File,
                perm: 0,
                links: 1,
                uid: 0,
                gid: 0,
                size: 0,
                blocks: 0,
                rdev: 0,
                mtime,
                ctime,
                atime,
                btime,
                generation: 1,
            };
            is_access_news(&attr, Time(now * hour))
        };
        assert!(is_news(5, 6, 4, 9) && is_news(5, 4, 6, 9), "changed since");
        assert!(is_news(5, 5, 4, 9) && is_news(5, 4, 5, 9), "perhaps changed since");
        assert!(!is_news(5, 4, 4, 9) && !is_news(5, 4, 4, 28), "read since, and today");
        assert!(is_news(5, 4, 4, 29) && is_news(5, 4, 4, 1000), "a day ago");
        assert!(!is_news(9, 9, 9, 9), "it is that already");
        assert!(!is_news(50, 4, 4, 9), "a time to come");
    }
}
