//! The floor: a walk of the tree by several threads that asks for attributes and does nothing else.

use crate::error::{Error, Result};
use crate::measure::stop::Stop;
use crate::measure::threads::together;
use parking_lot::{Condvar, Mutex};
use rustix::fs::{self as sys, AtFlags, CWD, FileType, Mode, OFlags, RawDir, StatxFlags};
use std::ffi::{CStr, CString};
use std::mem::MaybeUninit;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::Duration;

const DIRECTORY: OFlags =
    OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);
/// Bytes of the buffer of one `getdents64`, as in the C library's `readdir`.
const LISTING_BYTES: usize = 32 << 10;

/// Directories that wait for a thread, and those that threads are in.
struct Waiting {
    directories: Vec<CString>,
    busy: usize,
}

/// Asks for the attributes of each name below a directory, by `statx` relative to its directory. Returns the
/// time and the number of names.
pub(super) fn walk(dir: &Path, threads: usize, stop: &Stop) -> Result<(Duration, u64)> {
    let top =
        CString::new(dir.as_os_str().as_bytes()).map_err(|_| Error::Arguments("NUL in a path".into()))?;
    let waiting = Mutex::new(Waiting { directories: vec![top], busy: 0 });
    let change = Condvar::new();
    let outcome = together(threads, |_| {
        let mut names = 0;
        loop {
            let mut state = waiting.lock();
            let directory = loop {
                if let Some(directory) = state.directories.pop() {
                    break directory;
                }
                if state.busy == 0 || stop.is_set() {
                    return Ok(names);
                }
                change.wait(&mut state);
            };
            state.busy += 1;
            drop(state);
            let found = visit(&directory);
            let mut state = waiting.lock();
            state.busy -= 1;
            // A thread that fails leaves nothing for others to wait for.
            if let Ok((more, count)) = &found {
                names += count;
                state.directories.extend(more.iter().cloned());
            }
            drop(state);
            change.notify_all();
            found?;
        }
    })?;
    stop.check()?;
    Ok((outcome.elapsed, outcome.sum))
}

/// Asks for the attributes of the names of a directory; returns its directories and the number of names.
fn visit(directory: &CStr) -> Result<(Vec<CString>, u64)> {
    let failed = || Error::host(directory.to_string_lossy());
    let opened = sys::openat(CWD, directory, DIRECTORY, Mode::empty()).map_err(failed())?;
    let mut buffer = [MaybeUninit::uninit(); LISTING_BYTES];
    let (mut directories, mut names) = (Vec::new(), 0);
    let mut list = RawDir::new(&opened, &mut buffer);
    while let Some(entry) = list.next() {
        let entry = entry.map_err(failed())?;
        let name = entry.file_name();
        if [c".", c".."].contains(&name) {
            continue;
        }
        let flags = AtFlags::SYMLINK_NOFOLLOW;
        let found = sys::statx(&opened, name, flags, StatxFlags::BASIC_STATS).map_err(failed())?;
        names += 1;
        if FileType::from_raw_mode(found.stx_mode.into()) == FileType::Directory {
            let path = [directory.to_bytes(), name.to_bytes()].join(&b'/');
            directories.extend(CString::new(path));
        }
    }
    Ok((directories, names))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_names_are_visited_and_a_failure_ends_all_threads() {
        let temp = tempfile::tempdir().unwrap();
        for directory in 0..20 {
            let path = temp.path().join(format!("a{}/b{directory}", directory % 3));
            std::fs::create_dir_all(&path).unwrap();
            std::fs::write(path.join("f"), "").unwrap();
        }
        let stop = Stop::default();
        assert_eq!(walk(temp.path(), 3, &stop).unwrap().1, 3 + 20 + 20);
        assert!(walk(&temp.path().join("none"), 3, &stop).is_err());
        stop.set();
        assert!(matches!(walk(temp.path(), 3, &stop), Err(Error::Stopped)));
    }
}
