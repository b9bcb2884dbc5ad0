//! Removes a tree of any depth, with two descriptors at a time.

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, openat, unlinkat};
use rustix::io::{Errno, Result};
use std::ffi::{CStr, CString};
use std::os::fd::{AsFd, OwnedFd};

const DIRECTORY: OFlags =
    OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// Removes `name` from `parent`, a directory with its contents. Symbolic links are not followed.
///
/// A recursive removal has a descriptor open for each level and ends at the limit of open files in a chain of
/// 4,000 directories; this one climbs back through `..`.
pub fn remove_tree(parent: impl AsFd, name: &CStr) -> Result<()> {
    match unlinkat(&parent, name, AtFlags::REMOVEDIR) {
        Ok(()) => return Ok(()),
        Err(Errno::NOTDIR) => return unlinkat(&parent, name, AtFlags::empty()),
        Err(Errno::NOTEMPTY | Errno::EXIST) => (),
        Err(other) => return Err(other),
    }
    let mut here = openat(&parent, name, DIRECTORY, Mode::empty())?;
    let mut names: Vec<CString> = Vec::new();
    loop {
        if let Some(deeper) = empty_as_far_as_possible(&here)? {
            here = openat(&here, &deeper, DIRECTORY, Mode::empty())?;
            names.push(deeper);
        } else if let Some(empty) = names.pop() {
            here = openat(&here, c"..", DIRECTORY, Mode::empty())?;
            unlinkat(&here, &empty, AtFlags::REMOVEDIR)?;
        } else {
            return unlinkat(&parent, name, AtFlags::REMOVEDIR);
        }
    }
}

/// Removes every entry that can be removed at once; returns a directory that is not empty.
fn empty_as_far_as_possible(directory: &OwnedFd) -> Result<Option<CString>> {
    let mut full = None;
    for entry in Dir::read_from(directory)? {
        let entry = entry?;
        let name = entry.file_name();
        if name == c"." || name == c".." {
            continue;
        }
        let kind =
            if entry.file_type() == FileType::Directory { AtFlags::REMOVEDIR } else { AtFlags::empty() };
        match unlinkat(directory, name, kind) {
            Ok(()) | Err(Errno::NOENT) => (),
            // A file system whose listing lacks the type.
            Err(Errno::ISDIR) => match unlinkat(directory, name, AtFlags::REMOVEDIR) {
                Err(Errno::NOTEMPTY | Errno::EXIST) => full = Some(name.to_owned()),
                other => other?,
            },
            Err(Errno::NOTEMPTY | Errno::EXIST) => full = Some(name.to_owned()),
            Err(other) => return Err(other),
        }
    }
    Ok(full)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{CWD, mkdirat};

    #[test]
    fn deep_and_wide_trees_go_and_links_are_not_followed() {
        let temp = tempfile::tempdir().unwrap();
        let kept = temp.path().join("kept");
        std::fs::create_dir(&kept).unwrap();
        std::fs::write(kept.join("file"), "x").unwrap();
        let top = temp.path().join("top");
        for branch in ["a/b/c", "a/d", "e"] {
            std::fs::create_dir_all(top.join(branch)).unwrap();
            std::fs::write(top.join(branch).join("file"), "x").unwrap();
        }
        std::os::unix::fs::symlink(&kept, top.join("link")).unwrap();
        // Deeper than the usual limit of open files.
        let mut here = openat(CWD, &top, DIRECTORY, Mode::empty()).unwrap();
        for _ in 0..1_500 {
            mkdirat(&here, c"n", Mode::RWXU).unwrap();
            here = openat(&here, c"n", DIRECTORY, Mode::empty()).unwrap();
        }
        let parent = openat(CWD, temp.path(), DIRECTORY, Mode::empty()).unwrap();
        remove_tree(&parent, c"top").unwrap();
        assert!(!top.exists());
        assert!(kept.join("file").exists());
        assert_eq!(remove_tree(&parent, c"top"), Err(Errno::NOENT));
    }
}
