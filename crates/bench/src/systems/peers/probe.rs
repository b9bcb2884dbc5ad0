//! The file system of a directory.

use crate::error::{Error, Result};
use crate::measure::stop::Stop;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use super::command::run_command;

/// Size of an ext4 inode if `dumpe2fs` does not report it: the default since 2008.
const USUAL_INODE_BYTES: u64 = 256;

/// A mounted file system.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileSystem {
    /// Its type, as the kernel names it.
    pub kind: String,
    /// Whether it is an ext4 with a journal; `None` if unknown.
    pub journal: Option<bool>,
    /// Size of an inode on the medium; 0 if inodes are not on one.
    pub inode_bytes: u64,
}

/// Returns the file system of a directory.
pub fn probe(directory: &Path) -> Result<FileSystem> {
    let metadata = fs::metadata(directory).map_err(Error::host(directory.display().to_string()))?;
    let device = metadata.dev();
    let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
    let table = fs::read_to_string("/proc/self/mountinfo").map_err(Error::host("/proc/self/mountinfo"))?;
    let Some((kind, source)) = find_mount(&table, &format!("{major}:{minor}")) else {
        return Ok(FileSystem { kind: "an unknown file system".into(), journal: None, inode_bytes: 0 });
    };
    if kind != "ext4" {
        return Ok(FileSystem { kind: kind.into(), journal: None, inode_bytes: 0 });
    }
    Ok(match run_command("dumpe2fs", &["-h", source], &Stop::default()) {
        Ok(text) => ext4_features(&text),
        Err(_) => {
            FileSystem { kind: kind.into(), journal: journal_thread(source), inode_bytes: USUAL_INODE_BYTES }
        }
    })
}

/// Reads the output of `dumpe2fs -h`.
pub(super) fn ext4_features(text: &str) -> FileSystem {
    let value = |name: &str| text.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
    FileSystem {
        kind: "ext4".into(),
        journal: value("Filesystem features:").map(|f| f.split_whitespace().any(|f| f == "has_journal")),
        inode_bytes: value("Inode size:").and_then(|v| v.parse().ok()).unwrap_or(USUAL_INODE_BYTES),
    }
}

/// Returns whether the device has a running journal. The kernel lists them for all users: `<device>-<inode of
/// the journal>`.
fn journal_thread(source: &str) -> Option<bool> {
    let device = fs::canonicalize(source).ok()?;
    let prefix = format!("{}-", device.file_name()?.to_str()?);
    let mut running = fs::read_dir("/proc/fs/jbd2").ok()?.flatten();
    Some(running.any(|entry| entry.file_name().to_string_lossy().starts_with(&prefix)))
}

/// Finds type and source of the mount with this device number in the text of `/proc/self/mountinfo`.
fn find_mount<'t>(table: &'t str, device: &str) -> Option<(&'t str, &'t str)> {
    table.lines().find_map(|line| {
        if line.split(' ').nth(2)? != device {
            return None;
        }
        let mut rest = line.split_once(" - ")?.1.split(' ');
        Some((rest.next()?, rest.next()?))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mounts_are_found_by_device() {
        let table = "22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw\n\
                     31 22 0:27 / /dev/shm rw - tmpfs tmpfs rw,size=1k\n";
        assert_eq!(find_mount(table, "254:0"), Some(("ext4", "/dev/vda")));
        assert_eq!(find_mount(table, "0:27"), Some(("tmpfs", "tmpfs")));
        assert_eq!(find_mount(table, "1:1"), None);
    }

    #[test]
    fn a_journal_is_seen_and_missed() {
        let text = "Filesystem features:      has_journal ext_attr\nInode size:\t          128\n";
        let found = ext4_features(text);
        assert_eq!((found.journal, found.inode_bytes), (Some(true), 128));
        assert_eq!(ext4_features("Filesystem features:      ext_attr\n").journal, Some(false));
        assert_eq!(ext4_features("").journal, None);
    }

    #[test]
    fn every_directory_has_a_file_system_and_an_absent_one_an_error() {
        assert!(!probe(Path::new("/")).unwrap().kind.is_empty());
        assert!(probe(Path::new("/no/such/directory")).is_err());
    }
}
