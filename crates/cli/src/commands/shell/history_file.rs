//! The file of the session's history.

use lanefs_transfer::by_descriptor::make_dirs;
use rustix::fd::{AsRawFd, OwnedFd};
use rustix::fs::{FileType, Mode, OFlags, fstat, openat};
use std::path::{Path, PathBuf};

/// The open file of the history.
pub(super) struct HistoryFile(OwnedFd);

impl HistoryFile {
    /// Opens the file, or makes it. `None` where there is no home directory that can be written, or where any
    /// of this is another user's: root may have the `HOME` of somebody else, who chooses where the names in
    /// it lead. Such a session has no history.
    pub(super) fn open() -> Option<Self> {
        let at = |name| std::env::var_os(name).map(PathBuf::from).filter(|dir| dir.is_absolute());
        let (home, below) = match at("XDG_STATE_HOME") {
            Some(state) => (state, "lanefs"),
            None => (at("HOME")?, ".local/state/lanefs"),
        };
        Self::open_in(&home, below)
    }

    fn open_in(home: &Path, below: &str) -> Option<Self> {
        let own = rustix::process::geteuid().as_raw();
        let is_own = |file: &OwnedFd| fstat(file).is_ok_and(|stat| stat.st_uid == own);
        Some(make_dirs(home).ok()?).filter(is_own)?;
        let dir = Some(make_dirs(&home.join(below)).ok()?).filter(is_own)?;
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = openat(&dir, "history", flags, Mode::RUSR | Mode::WUSR).ok()?;
        let stat = fstat(&file).ok()?;
        let is_regular = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
        (is_regular && stat.st_uid == own && stat.st_nlink == 1).then_some(HistoryFile(file))
    }

    /// A path that leads to this very file, whatever has its name by now.
    pub(super) fn path(&self) -> PathBuf {
        format!("/proc/self/fd/{}", self.0.as_raw_fd()).into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, chown, symlink};

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).expect("there").permissions().mode() & 0o777
    }

    #[test]
    fn a_history_is_private_and_found_again() {
        let home = tempfile::tempdir().expect("a directory");
        let file = home.path().join(".local/state/lanefs/history");
        for content in ["", "one"] {
            let history = HistoryFile::open_in(home.path(), ".local/state/lanefs").expect("a history");
            assert_eq!(fs::read_to_string(history.path()).expect("read"), content);
            fs::write(history.path(), "one").expect("written");
            assert_eq!(mode(&file), 0o600);
        }
        assert_eq!(fs::read_to_string(&file).expect("read"), "one");
    }

    #[test]
    fn root_takes_no_history_from_another_users_home() {
        let (home, target) = (tempfile::tempdir().expect("a directory"), tempfile::tempdir().expect("one"));
        let secret = target.path().join("secret");
        fs::write(&secret, "of root").expect("a file");
        let open = || HistoryFile::open_in(home.path(), "lanefs");
        fs::create_dir(home.path().join("lanefs")).expect("a directory");
        let history = home.path().join("lanefs/history");
        // A link, a second name of a file, and a pipe.
        symlink(&secret, &history).expect("a link");
        assert!(open().is_none());
        fs::remove_file(&history).expect("removed");
        fs::hard_link(&secret, &history).expect("a link");
        assert!(open().is_none());
        fs::remove_file(&history).expect("removed");
        rustix::fs::mknodat(rustix::fs::CWD, &history, FileType::Fifo, Mode::RWXU, 0).expect("a pipe");
        assert!(open().is_none());
        fs::remove_file(&history).expect("removed");
        assert!(open().is_some());
        for other in [&history, &home.path().join("lanefs"), &home.path().to_path_buf()] {
            chown(other, Some(65534), Some(65534)).expect("tests run as root");
            assert!(open().is_none(), "{}", other.display());
            chown(other, Some(0), Some(0)).expect("tests run as root");
        }
        assert_eq!(fs::read(&secret).expect("there"), b"of root");
    }
}
