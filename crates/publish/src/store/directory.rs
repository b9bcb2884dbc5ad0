//! A local directory as a store.
//!
//! Each object is a file. A file is written under a temporary name, flushed and renamed, so it is complete or
//! absent after a crash. A replacement with a condition holds a lock on a file of its folder. Symbolic links
//! are not followed below the directory.

use super::{Listed, Stamp, Store};
use crate::error::StoreError;
use crate::format::hash::Hash;
use lanefs::escape::escape_path;
use lanefs::host_path::make_dirs;
use percent_encoding::{AsciiSet, CONTROLS, percent_encode};
use rustix::fs::{Access, AtFlags, CWD, FileType, FlockOperation, Mode, OFlags};
use rustix::io::Errno;
use std::fs::File;
use std::io::{Read, Write};
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// File whose lock excludes other replacements in a folder.
const LOCK: &str = ".lock";

/// Longest wait for that lock, which its holder has for the time of one small write.
const PATIENCE: Duration = Duration::from_secs(if cfg!(test) { 0 } else { 10 });
/// Pause between two attempts.
const PAUSE: Duration = Duration::from_millis(10);

const FOLDER: OFlags = OFlags::DIRECTORY.union(OFlags::RDONLY).union(OFlags::CLOEXEC);

/// Characters that a path in a URL does not have as they are.
pub(crate) const ENCODED: &AsciiSet =
    &CONTROLS.add(b' ').add(b'"').add(b'#').add(b'%').add(b'<').add(b'>').add(b'?');

/// Number of the temporary files of this process so far.
static TEMPORARY: AtomicU64 = AtomicU64::new(0);

/// A directory of the host as a store.
pub struct Directory {
    path: PathBuf,
}

type Outcome<T> = Result<T, StoreError>;

impl From<Errno> for StoreError {
    fn from(errno: Errno) -> Self {
        std::io::Error::from(errno).into()
    }
}

impl From<std::io::Error> for StoreError {
    fn from(error: std::io::Error) -> Self {
        use std::io::ErrorKind;
        let text = lanefs::host_text(&error);
        match error.kind() {
            ErrorKind::NotFound => StoreError::Missing,
            ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => StoreError::Denied(text),
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded => StoreError::Full(text),
            _ => StoreError::Failed(text),
        }
    }
}

impl Directory {
    /// Uses a directory, which the first write makes where it is missing.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Directory { path: path.into() }
    }

    /// Checks that the directory is there, or that it can be written or made.
    ///
    /// # Errors
    /// [`StoreError::NoStore`] without the directory (for writing: the one above it); the host's.
    pub fn check(&self, writes: bool) -> Outcome<()> {
        let no_directory = |path: &Path| StoreError::NoStore(format!("no directory {}", escape_path(path)));
        let parent = self.path.parent().filter(|_| writes && !self.path.exists());
        let path = parent.unwrap_or(&self.path);
        let is_directory = match path.metadata() {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => false,
            metadata => metadata?.is_dir(),
        };
        if !is_directory {
            return Err(no_directory(path));
        }
        let access = if writes { Access::WRITE_OK | Access::EXEC_OK } else { Access::EXEC_OK };
        Ok(rustix::fs::access(path, access)?)
    }

    fn folder(&self, folder: &str) -> Outcome<OwnedFd> {
        let base = rustix::fs::openat(CWD, &self.path, FOLDER, Mode::empty())?;
        Ok(rustix::fs::openat(&base, folder, FOLDER | OFlags::NOFOLLOW, Mode::empty())?)
    }

    /// Opens a folder to write to it, and makes it where it is missing. On the way to the directory no link
    /// of another user is followed in one that all may write.
    fn make_folder(&self, folder: &str) -> Outcome<OwnedFd> {
        let base = make_dirs(&self.path).map_err(|errno| unmade(&self.path, errno.into()))?;
        let made = || match rustix::fs::mkdirat(&base, folder, Mode::from_raw_mode(0o777)) {
            Ok(()) | Err(Errno::EXIST) => {
                rustix::fs::openat(&base, folder, FOLDER | OFlags::NOFOLLOW, Mode::empty())
            }
            Err(errno) => Err(errno),
        };
        made().map_err(|errno| unmade(&self.path.join(folder), errno.into()))
    }

    /// Writes an object, whose folder is open.
    fn write_object(&self, folder: &OwnedFd, object: &str, bytes: &[u8]) -> Outcome<()> {
        write(folder, split(object)?.1, bytes).map_err(|error| unmade(&self.path.join(object), error))
    }

    fn open(&self, object: &str) -> Outcome<File> {
        let (folder, name) = split(object)?;
        open(&self.folder(folder)?, name)
    }
}

/// The URL of a directory.
pub(crate) fn url_of(directory: &Path) -> String {
    format!("file://{}", percent_encode(directory.as_os_str().as_bytes(), ENCODED))
}

fn open(folder: &OwnedFd, name: &str) -> Outcome<File> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let opened = rustix::fs::openat(folder, name, flags, Mode::empty());
    if opened.as_ref().is_err_and(|errno| *errno == Errno::LOOP) {
        return Err(StoreError::Failed("is a symbolic link, which is not followed".into()));
    }
    let file = File::from(opened?);
    if file.metadata()?.is_file() { Ok(file) } else { Err(StoreError::Failed("is not a file".into())) }
}

/// Takes the lock of a folder. Everybody who can open the file can hold the lock, so only those who may write
/// to the folder can open it.
fn lock(folder: &OwnedFd) -> Outcome<OwnedFd> {
    let writers = rustix::fs::fstat(folder)?.st_mode & 0o022;
    let mode = Mode::from_raw_mode(0o600 | writers | writers << 1);
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let lock = rustix::fs::openat(folder, LOCK, flags, mode)?;
    let stat = rustix::fs::fstat(&lock)?;
    let is_own = stat.st_uid == rustix::process::geteuid().as_raw();
    if is_own && stat.st_mode & 0o777 & !mode.bits() != 0 {
        // An older version made it for all to read.
        rustix::fs::fchmod(&lock, mode)?;
    }
    let begun = Instant::now();
    loop {
        match rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(lock),
            Err(Errno::WOULDBLOCK) if begun.elapsed() < PATIENCE => std::thread::sleep(PAUSE),
            Err(Errno::WOULDBLOCK) => {
                let why = "another process keeps its folder locked (see `fuser` on the file .lock there)";
                return Err(StoreError::Failed(why.into()));
            }
            Err(errno) => return Err(errno.into()),
        }
    }
}

/// Splits the name of an object, which this crate has made: it leads nowhere else.
fn split(object: &str) -> Outcome<(&str, &str)> {
    object.split_once('/').ok_or_else(|| StoreError::Failed("is not a name of an object".into()))
}

/// Names the file or directory that could not be made. A missing directory is not a missing object.
fn unmade(path: &Path, error: StoreError) -> StoreError {
    let text = |why: &str| format!("cannot make {}: {why}", escape_path(path));
    match error {
        StoreError::Missing => StoreError::Failed(text("nothing can be made there")),
        StoreError::Denied(why) => StoreError::Denied(text(&why)),
        StoreError::Full(why) => StoreError::Full(text(&why)),
        StoreError::Failed(why) => StoreError::Failed(text(&why)),
        error => error,
    }
}

/// Writes a file under a temporary name, and renames it.
fn write(folder: &OwnedFd, name: &str, bytes: &[u8]) -> Outcome<()> {
    let number = TEMPORARY.fetch_add(1, Ordering::Relaxed);
    let temporary = format!(".{name}.{}.{number}", std::process::id());
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mode = Mode::from_raw_mode(0o666);
    let made = || -> Outcome<()> {
        // A crashed process with the same number may have left the name.
        match rustix::fs::unlinkat(folder, &temporary, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(errno) => return Err(errno.into()),
        }
        let mut file = File::from(rustix::fs::openat(folder, &temporary, flags, mode)?);
        file.write_all(bytes)?;
        file.sync_all()?;
        rustix::fs::renameat(folder, &temporary, folder, name)?;
        Ok(rustix::fs::fsync(folder)?)
    };
    made().inspect_err(|_| {
        let _ = rustix::fs::unlinkat(folder, &temporary, AtFlags::empty());
    })
}

fn read_all(mut file: File, most: u64) -> Outcome<(Vec<u8>, Stamp)> {
    let mut bytes = Vec::new();
    (&mut file).take(most + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most {
        return Err(StoreError::Failed(format!("has more than {most} bytes")));
    }
    let stamp = Stamp { e_tag: Some(Hash::of(&bytes).to_string()), version: None };
    Ok((bytes, stamp))
}

impl Store for Directory {
    fn name(&self) -> String {
        url_of(&self.path)
    }

    fn read(&self, object: &str, range: Range<u64>) -> Outcome<Vec<u8>> {
        let file = self.open(object)?;
        let end = range.end.min(file.metadata()?.len());
        let mut bytes = vec![0; end.saturating_sub(range.start) as usize];
        file.read_exact_at(&mut bytes, range.start)?;
        Ok(bytes)
    }

    fn read_all(&self, object: &str, most: u64) -> Outcome<(Vec<u8>, Stamp)> {
        read_all(self.open(object)?, most)
    }

    fn write(&self, object: &str, bytes: Vec<u8>) -> Outcome<()> {
        self.write_object(&self.make_folder(split(object)?.0)?, object, &bytes)
    }

    fn replace(&self, object: &str, expected: Option<&Stamp>, bytes: Vec<u8>) -> Outcome<()> {
        let (folder, name) = split(object)?;
        let folder = self.make_folder(folder)?;
        let _lock = lock(&folder)?;
        let present = match open(&folder, name) {
            Ok(file) => Some(read_all(file, u64::from(u32::MAX))?.1),
            Err(StoreError::Missing) => None,
            Err(error) => return Err(error),
        };
        if present.as_ref() != expected {
            return Err(StoreError::Changed);
        }
        self.write_object(&folder, object, &bytes)
    }

    fn delete(&self, object: &str) -> Outcome<()> {
        let (folder, name) = split(object)?;
        let folder = match self.folder(folder) {
            Err(StoreError::Missing) => return Ok(()),
            folder => folder?,
        };
        match rustix::fs::unlinkat(&folder, name, AtFlags::empty()) {
            Ok(()) => Ok(rustix::fs::fsync(&folder)?),
            Err(Errno::NOENT) => Ok(()),
            Err(errno) => Err(errno.into()),
        }
    }

    fn list(&self, folder: &str) -> Outcome<Vec<Listed>> {
        let folder = match self.folder(folder) {
            Err(StoreError::Missing) => return Ok(Vec::new()),
            folder => folder?,
        };
        let mut found = Vec::new();
        for entry in rustix::fs::Dir::read_from(&folder)? {
            let entry = entry?;
            let Ok(name) = entry.file_name().to_str() else { continue };
            if name.starts_with('.') {
                continue;
            }
            match rustix::fs::statat(&folder, name, AtFlags::SYMLINK_NOFOLLOW) {
                Ok(stat) => {
                    let (bytes, modified) = (stat.st_size as u64, stat.st_mtime);
                    let is_object = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
                    found.push(Listed { name: name.to_owned(), bytes, modified, is_object });
                }
                Err(Errno::NOENT) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::Permissions;

    #[test]
    fn errors_of_the_host_keep_their_meaning() {
        let error = |errno: Errno| StoreError::from(errno);
        assert!(matches!(error(Errno::NOENT), StoreError::Missing));
        assert!(matches!(error(Errno::NOSPC), StoreError::Full(why) if why == "No space left on device"));
        assert!(matches!(error(Errno::DQUOT), StoreError::Full(_)));
        assert!(matches!(error(Errno::ACCESS), StoreError::Denied(_)));
        assert!(matches!(error(Errno::ROFS), StoreError::Denied(_)));
        assert!(matches!(error(Errno::IO), StoreError::Failed(_)));
    }

    #[test]
    fn a_directory_is_there_or_can_be_made() {
        let home = tempfile::tempdir().expect("a directory");
        let at = |name: &str| Directory::new(home.path().join(name));
        assert!(at("").check(false).is_ok() && at("new").check(true).is_ok());
        std::fs::write(home.path().join("file"), "").expect("a file");
        for (name, writes) in [("new", false), ("new/deeper", true), ("file", true), ("file/a", false)] {
            let refused = at(name).check(writes);
            assert!(matches!(refused, Err(StoreError::NoStore(_) | StoreError::Failed(_))), "{name}");
        }
    }

    #[test]
    fn an_object_that_cannot_be_made_is_named_with_the_reason() {
        // No process makes files in `/proc`, whoever it is.
        let store = Directory::new("/proc/x");
        for refused in
            [store.write("packs/one", b"bytes".to_vec()), store.replace("tags/one", None, b"bytes".to_vec())]
        {
            let text = refused.expect_err("nothing was written").to_string();
            assert!(text.starts_with("cannot make /proc/x: "), "{text}");
        }
        // A folder that goes away under the writer.
        let home = tempfile::tempdir().expect("a directory");
        let store = Directory::new(home.path());
        let folder = store.make_folder("packs").expect("a folder");
        std::fs::remove_dir(home.path().join("packs")).expect("an empty folder");
        let text = store.write_object(&folder, "packs/one", b"bytes").expect_err("no folder").to_string();
        assert!(text.contains("packs/one: nothing can be made there"), "{text}");
    }

    fn mode_of_lock(home: &Path) -> u32 {
        let lock = home.join("tags").join(LOCK);
        std::os::unix::fs::MetadataExt::mode(&lock.metadata().expect("a lock")) & 0o777
    }

    #[test]
    fn only_the_writers_of_a_folder_can_take_its_lock() {
        use std::os::unix::fs::PermissionsExt;
        for (folder, lock) in [(0o755, 0o600), (0o775, 0o660), (0o777, 0o666)] {
            let home = tempfile::tempdir().expect("a directory");
            let store = Directory::new(home.path());
            let (tags, old) = (home.path().join("tags"), Permissions::from_mode(0o666));
            std::fs::create_dir(&tags).expect("a folder");
            std::fs::set_permissions(&tags, Permissions::from_mode(folder)).expect("a mode");
            // One of an older version, which all could read.
            std::fs::write(tags.join(LOCK), "").expect("a file");
            std::fs::set_permissions(tags.join(LOCK), old).expect("a mode");
            store.replace("tags/one", None, b"first".to_vec()).expect("written");
            assert_eq!(mode_of_lock(home.path()), lock, "{folder:o}");
        }
    }

    #[test]
    fn a_lock_that_is_not_given_back_is_waited_for_so_long() {
        let home = tempfile::tempdir().expect("a directory");
        let store = Directory::new(home.path());
        store.replace("tags/one", None, b"first".to_vec()).expect("written");
        let held = File::open(home.path().join("tags").join(LOCK)).expect("a lock");
        rustix::fs::flock(&held, FlockOperation::LockExclusive).expect("nobody has it");
        let refused = store.replace("tags/two", None, b"second".to_vec());
        assert!(matches!(refused, Err(StoreError::Failed(why)) if why.contains("locked")));
        drop(held);
        store.replace("tags/two", None, b"second".to_vec()).expect("written");
    }
}
