//! The kernel's table of mounts.

use crate::kernel::FILE_SYSTEM_TYPE;
use crate::{Error, Result};
use lanefs::AccessTimes;
use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

/// A mount in the table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MountEntry {
    /// The mount point.
    pub dir: PathBuf,
    /// Type of the file system.
    pub kind: String,
    /// Source of the mount; for LaneFS the image.
    pub source: PathBuf,
    /// True for a read-only mount.
    pub read_only: bool,
    /// True where all mounts of the file system are read-only.
    pub(crate) all_read_only: bool,
    /// Device number of the file system.
    pub(crate) device: u64,
    /// Options of this mount, as the kernel lists them.
    pub(crate) options: String,
}

impl MountEntry {
    /// True for a mount of LaneFS.
    pub fn is_lanefs(&self) -> bool {
        self.kind == FILE_SYSTEM_TYPE
    }

    fn has(&self, option: &str) -> bool {
        self.options.split(',').any(|one| one == option)
    }

    /// The rule for times of access.
    pub(crate) fn access_times(&self) -> AccessTimes {
        match () {
            () if self.has("noatime") => AccessTimes::Never,
            () if self.has("relatime") => AccessTimes::Relative,
            () => AccessTimes::Always,
        }
    }

    /// True where that rule holds for directories, too.
    pub(crate) fn directory_access_times(&self) -> bool {
        !self.has("nodiratime")
    }
}

/// Returns all mounts that this process sees, the newest last.
///
/// # Errors
/// `/proc` is missing.
pub fn mounts() -> std::io::Result<Vec<MountEntry>> {
    let text = std::fs::read("/proc/self/mountinfo")?;
    Ok(text.split(|byte| *byte == b'\n').filter_map(parse).collect())
}

/// Returns the mount on `dir`, the topmost of several.
///
/// # Errors
/// As [`mounts`].
pub fn find(dir: &Path) -> std::io::Result<Option<MountEntry>> {
    let dir = absolute(dir)?;
    Ok(mounts()?.into_iter().rev().find(|entry| entry.dir == dir))
}

/// Returns the mount of LaneFS on `dir`.
///
/// # Errors
/// [`Error::Directory`]: there is none.
pub(crate) fn lanefs_on(dir: &Path) -> Result<MountEntry> {
    let entry = find(dir).map_err(|error| Error::io(dir.display().to_string(), &error))?;
    let Some(entry) = entry else { return Err(Error::directory(dir, "nothing is mounted there")) };
    if !entry.is_lanefs() {
        return Err(Error::directory(dir, format!("not a mount of LaneFS ({})", entry.kind)));
    }
    Ok(entry)
}

/// True where the file system with this device number is mounted.
pub(crate) fn has_device(device: u64) -> bool {
    mounts().is_ok_and(|mounts| mounts.iter().any(|entry| entry.device == device))
}

/// Returns the absolute path of a directory, also of a mount whose server has ended.
///
/// # Errors
/// The directory does not exist.
pub fn absolute(dir: &Path) -> std::io::Result<PathBuf> {
    match std::fs::canonicalize(dir) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            let (Some(name), whole) = (dir.file_name(), std::path::absolute(dir)?) else { return Err(error) };
            let parent = whole.parent().unwrap_or(Path::new("/"));
            Ok(std::fs::canonicalize(parent)?.join(name))
        }
        found => found,
    }
}

/// True for a mount whose server has ended. The kernel may have attributes in its cache; statfs(2) always
/// reaches the server.
pub(crate) fn is_dead(dir: &Path) -> bool {
    rustix::fs::statfs(dir).is_err_and(|errno| errno == rustix::io::Errno::NOTCONN)
}

/// Parses a line such as `36 35 0:59 / /mnt rw,relatime shared:1 - fuse.lanefs /v.lane rw,user_id=0`.
fn parse(line: &[u8]) -> Option<MountEntry> {
    let text = |word: &[u8]| String::from_utf8_lossy(word).into_owned();
    let read_only = |options: &[u8]| options.split(|byte| *byte == b',').any(|option| option == b"ro");
    let mut words = line.split(|byte| *byte == b' ');
    let device = device(&text(words.nth(2)?))?;
    let dir = path(words.nth(1)?);
    let options = words.next()?;
    let mut source_words = words.skip_while(|word| *word != b"-").skip(1);
    let kind = text(source_words.next()?);
    let source = path(source_words.next()?);
    let all_read_only = read_only(source_words.next().unwrap_or_default());
    let read_only = all_read_only || read_only(options);
    Some(MountEntry { dir, kind, source, read_only, all_read_only, device, options: text(options) })
}

/// Parses a device number such as `0:59`.
fn device(word: &str) -> Option<u64> {
    let (major, minor) = word.split_once(':')?;
    Some(rustix::fs::makedev(major.parse().ok()?, minor.parse().ok()?))
}

/// Decodes a path, in which spaces, tabs, newlines and backslashes are octal numbers.
fn path(word: &[u8]) -> PathBuf {
    let mut bytes = Vec::with_capacity(word.len());
    let mut rest = word;
    while let Some((first, after)) = rest.split_first() {
        let number = after.get(..3).filter(|_| *first == b'\\');
        let number = number.and_then(|n| u8::from_str_radix(std::str::from_utf8(n).ok()?, 8).ok());
        bytes.push(number.unwrap_or(*first));
        rest = if number.is_some() { after.get(3..).unwrap_or_default() } else { after };
    }
    PathBuf::from(OsString::from_vec(bytes))
}

/// True where the path `below` is `dir` or lies in it.
pub(crate) fn lies_in(below: &Path, dir: &Path) -> bool {
    let (below, dir) = (below.as_os_str().as_bytes(), dir.as_os_str().as_bytes());
    below.strip_prefix(dir).is_some_and(|rest| rest.is_empty() || rest.starts_with(b"/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_the_table_are_understood() {
        let line = br"36 35 0:59 / /mnt/a\040b\134c rw,nodev shared:7 master:1 - fuse.lanefs /v\011.lane rw,user_id=0";
        let entry = parse(line).unwrap();
        assert_eq!(entry.dir, Path::new("/mnt/a b\\c"));
        assert_eq!(entry.source, Path::new("/v\t.lane"));
        assert!(entry.is_lanefs() && !entry.read_only);
        assert_eq!(entry.device, rustix::fs::makedev(0, 59));
        assert_eq!((entry.access_times(), entry.directory_access_times()), (AccessTimes::Always, true));
        let entry = parse(b"1 0 8:1 / / ro - ext4 /dev/sda1 rw").unwrap();
        assert!(!entry.is_lanefs() && entry.read_only && !entry.all_read_only);
        let entry = parse(b"1 0 8:1 / / rw,noatime,nodiratime - ext4 /dev/sda1 ro,x").unwrap();
        assert!(entry.read_only && entry.all_read_only && !entry.directory_access_times());
        assert_eq!(entry.access_times(), AccessTimes::Never);
        assert_eq!(parse(b""), None);
        assert_eq!(parse(b"1 2 3 4 5 6 7"), None);
    }

    #[test]
    fn names_lie_in_directories_and_not_beside_them() {
        assert!(lies_in(Path::new("/a/b"), Path::new("/a")));
        assert!(lies_in(Path::new("/a"), Path::new("/a")));
        assert!(!lies_in(Path::new("/ab"), Path::new("/a")));
    }
}
