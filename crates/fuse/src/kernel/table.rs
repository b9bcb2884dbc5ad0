//! The kernel's table of mounts.

use super::calls::FILE_SYSTEM_TYPE;
use crate::error::{Error, Result};
use lanefs::AccessTimes;
use lanefs::escape::escape_path;
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
    /// Number of the mount, which no other one has as long as it exists.
    pub(crate) number: u64,
    /// User who mounted a FUSE file system. The kernel says so; all other names of a mount are chosen by that
    /// user.
    pub(crate) owner: Option<u32>,
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

    /// True for a mount of LaneFS that this process's user made. No other mount is believed, or asked for
    /// anything.
    pub(crate) fn is_own(&self) -> bool {
        self.is_lanefs() && self.owner == Some(rustix::process::geteuid().as_raw())
    }

    /// The owner, for messages.
    pub(crate) fn owner_text(&self) -> String {
        self.owner.map_or_else(|| "unknown".to_owned(), |owner| format!("user {owner}"))
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
    read("/proc/self/mountinfo")
}

/// Returns all mounts that a process sees, the newest last.
///
/// # Errors
/// The process does not exist, or `/proc` is missing.
pub(crate) fn mounts_of(process: u32) -> std::io::Result<Vec<MountEntry>> {
    read(&format!("/proc/{process}/mountinfo"))
}

fn read(table: &str) -> std::io::Result<Vec<MountEntry>> {
    let text = std::fs::read(table)?;
    Ok(text.split(|byte| *byte == b'\n').filter_map(parse).collect())
}

/// Returns the mount on `dir`, the topmost of several.
///
/// # Errors
/// As [`mounts`].
pub fn find(dir: &Path) -> std::io::Result<Option<MountEntry>> {
    let dir = absolute(dir)?;
    Ok(topmost(mounts()?, &dir))
}

/// The topmost mount on a directory, whose absolute path is given.
pub(crate) fn topmost(mounts: Vec<MountEntry>, dir: &Path) -> Option<MountEntry> {
    let on_it = |mounts: &[MountEntry]| mounts.iter().rposition(|entry| entry.dir == dir);
    on_it(&mounts).and_then(|index| mounts.into_iter().nth(index))
}

/// Returns the mount of LaneFS on `dir`.
///
/// # Errors
/// [`Error::Directory`]: there is none.
pub(crate) fn lanefs_on(dir: &Path) -> Result<MountEntry> {
    let entry = find(dir).map_err(|error| Error::io(escape_path(dir), &error))?;
    let Some(entry) = entry else { return Err(Error::directory(dir, "nothing is mounted there")) };
    if !entry.is_lanefs() {
        return Err(Error::directory(dir, format!("not a mount of LaneFS ({})", entry.kind)));
    }
    Ok(entry)
}

/// Returns the absolute path of a file or directory, also of a mount whose server has ended or does not
/// reply: a mount is found in the table by its parent, without a request to it.
///
/// # Errors
/// It does not exist.
pub fn absolute(path: &Path) -> std::io::Result<PathBuf> {
    let by_parent = || {
        let (name, whole) = (path.file_name()?, std::path::absolute(path).ok()?);
        let parent = whole.parent().unwrap_or(Path::new("/"));
        Some(std::fs::canonicalize(parent).ok()?.join(name))
    };
    let is_mount = |path: &PathBuf| mounts().is_ok_and(|all| all.iter().any(|entry| entry.dir == *path));
    by_parent().filter(is_mount).map_or_else(|| std::fs::canonicalize(path), Ok)
}

/// Parses a line such as `36 35 0:59 / /mnt rw,relatime shared:1 - fuse.lanefs /v.lane rw,user_id=0`. The
/// kernel escapes the blanks of all names, so that no name is taken for another word.
fn parse(line: &[u8]) -> Option<MountEntry> {
    let text = |word: &[u8]| String::from_utf8_lossy(word).into_owned();
    let read_only = |options: &[u8]| options.split(|byte| *byte == b',').any(|option| option == b"ro");
    let mut words = line.split(|byte| *byte == b' ');
    let number = text(words.next()?).parse().ok()?;
    let device = device(&text(words.nth(1)?))?;
    let dir = path(words.nth(1)?);
    let options = words.next()?;
    let mut source_words = words.skip_while(|word| *word != b"-").skip(1);
    let kind = text(source_words.next()?);
    let source = path(source_words.next()?);
    let of_all = source_words.next().unwrap_or_default();
    let all_read_only = read_only(of_all);
    // The kernel's own words come first; a name in a later one counts for nothing.
    let owner = of_all.split(|byte| *byte == b',').find_map(|option| option.strip_prefix(b"user_id="));
    let owner = owner.and_then(|owner| text(owner).parse().ok());
    let read_only = all_read_only || read_only(options);
    let options = text(options);
    Some(MountEntry { dir, kind, source, read_only, all_read_only, number, owner, device, options })
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
        assert_eq!((entry.number, entry.owner), (36, Some(0)));
        assert_eq!((entry.access_times(), entry.directory_access_times()), (AccessTimes::Always, true));
        let entry = parse(b"1 0 8:1 / / ro - ext4 /dev/sda1 rw").unwrap();
        assert!(!entry.is_lanefs() && entry.read_only && !entry.all_read_only);
        assert_eq!(entry.owner, None);
        let entry = parse(b"1 0 8:1 / / rw,noatime,nodiratime - ext4 /dev/sda1 ro,x").unwrap();
        assert!(entry.read_only && entry.all_read_only && !entry.directory_access_times());
        assert_eq!(entry.access_times(), AccessTimes::Never);
        assert_eq!(parse(b""), None);
        assert_eq!(parse(b"1 2 3 4 5 6 7"), None);
    }

    #[test]
    fn no_name_is_taken_for_the_owner() {
        for (line, owner) in [
            (&br"36 35 0:59 / /mnt rw - fuse.lanefs rw,user_id=0 rw,user_id=7,group_id=7"[..], Some(7)),
            (
                br"36 35 0:59 / /mnt\040-\040fuse.lanefs\040/v\040rw,user_id=0 rw - fuse.x y rw,user_id=7",
                Some(7),
            ),
            (br"36 35 0:59 / /mnt rw -  rw,user_id=0", None),
        ] {
            let entry = parse(line);
            assert_eq!(entry.and_then(|entry| entry.owner), owner, "{}", String::from_utf8_lossy(line));
        }
    }

    #[test]
    fn names_lie_in_directories_and_not_beside_them() {
        assert!(lies_in(Path::new("/a/b"), Path::new("/a")));
        assert!(lies_in(Path::new("/a"), Path::new("/a")));
        assert!(!lies_in(Path::new("/ab"), Path::new("/a")));
    }
}
