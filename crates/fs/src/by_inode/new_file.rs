//! New files that come with their content and attributes.

use crate::files::{attr, data};
use crate::names::namespace;
use crate::running::volume::Volume;
use crate::vocabulary::error::Result;
use crate::vocabulary::types::{Attr, Caller, Ino, SetAttr};
use lanefs_format::{Code, FileKind};

/// Mode of the file before it has its attributes: nobody sees it.
const UNSEEN: u16 = 0o600;

impl Volume {
    /// Creates a regular file in one step, with its content and the attributes `set`: no reader and no crash
    /// sees it without them. Returns `None` where that is more than one transaction can change; nothing has
    /// happened then.
    ///
    /// # Errors
    /// As [`create_file`](Self::create_file), [`write`](Self::write) and [`setattr`](Self::setattr).
    pub fn create_whole(
        &self,
        caller: &Caller,
        dir: Ino,
        name: &[u8],
        content: &[u8],
        set: &SetAttr,
    ) -> Result<Option<Attr>> {
        for _ in 0..2 {
            let mut is_too_large = false;
            let made = self.change_data(|edit, plan| {
                // An attempt that is repeated may end before the question.
                is_too_large = false;
                let node = namespace::create(edit, caller, dir.0, name, FileKind::File, UNSEEN, 0)?;
                data::write(edit, node, 0, content, plan)?;
                attr::set(edit, caller, node, set, plan)?;
                is_too_large = edit.store().room_for_changes() == 0;
                if is_too_large { Err(Code::NotResident.into()) } else { node.attr() }
            });
            if !is_too_large {
                return self.notify_name(dir, name, made).map(Some);
            }
            // Changes of other writers count, too, until they are committed.
            self.shared.commit()?;
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vocabulary::options::{Access, CreateOptions};
    use crate::vocabulary::types::Time;

    #[test]
    fn a_file_comes_whole_or_not_at_all() {
        let dir = tempfile::tempdir().expect("a directory");
        let image = dir.path().join("v.lane");
        let options = CreateOptions { size: 16 << 20, ..CreateOptions::default() };
        let volume = Volume::create(&image, &options).expect("create");
        let (owner, root) = (&Caller::OWNER, volume.root());
        let set = SetAttr {
            perm: Some(0o4751),
            uid: Some(7),
            gid: Some(8),
            atime: Some(Time(5)),
            mtime: Some(Time(6)),
            size: None,
        };
        for (name, len) in [("empty", 0), ("small", 100), ("block", 4096), ("more", 300_000)] {
            let content = vec![len as u8 | 1; len];
            let made = volume.create_whole(owner, root, name.as_bytes(), &content, &set);
            let attr = made.expect("made").expect("one transaction");
            assert_eq!((attr.perm, attr.uid, attr.gid, attr.size), (0o4751, 7, 8, len as u64));
            assert_eq!((attr.atime, attr.mtime), (Time(5), Time(6)));
            assert_eq!(volume.getattr(attr.ino).expect("there"), attr);
            assert_eq!(volume.read_file(name).expect("there"), content);
        }
        let inodes = volume.statfs().expect("counts").inodes;
        let taken = volume.create_whole(owner, root, b"small", b"other", &set);
        assert_eq!(taken.expect_err("taken").code(), Code::Exists);
        let full = volume.create_whole(owner, root, b"large", &vec![1; 20 << 20], &set);
        assert!(full.is_err() || full.is_ok_and(|made| made.is_none()));
        assert_eq!(volume.statfs().expect("counts").inodes, inodes);
        assert_eq!(volume.read_file("small").expect("there"), vec![101; 100]);
        volume.close().expect("close");
        let volume = Volume::open(&image, Access::Write).expect("open");
        assert_eq!(volume.resolve("more").expect("there").mtime, Time(6));
        assert!(volume.check(false, &|_, _| ()).expect("a check").findings.is_empty());
    }
}
