//! A local cache of stored bytes, shared by all processes of a user.
//!
//! Each entry is a file whose name is the hash of its bytes, in one of 256 folders by the first byte of the
//! hash. The reader verifies an entry as it verifies bytes of a store, so a damaged entry is one that is
//! missing. A file appears complete, by a rename. Each folder has a 256th of the cache's bytes at most: the
//! process that fills a folder holds its lock, counts its files, and removes those that were used least
//! recently.

use crate::format::hash::Hash;
use lanefs::host_path::private_dir;
use lanefs_sync::lock::Mutex;
use rustix::fs::{AtFlags, FileType, FlockOperation, Mode, OFlags, Timespec, Timestamps};
use rustix::io::Errno;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

/// Folders of a cache.
const FOLDERS: usize = 256;
/// Fewest bytes of a cache: each folder has room for some pieces.
pub const MIN_CACHE: u64 = 256 << 20;
/// Bytes of a cache by default.
pub const DEFAULT_CACHE: u64 = 10 << 30;
/// Most bytes of an entry.
const MAX_ENTRY_BYTES: u64 = 2 << 20;
/// Part of a folder's bytes that a process adds between two counts.
const UNCOUNTED: u64 = 16;
/// A file takes a multiple of so many bytes of the host: frames are small.
const HOST_BLOCK_BYTES: u64 = 4096;

/// A cache in a directory.
pub struct Cache {
    path: PathBuf,
    directory: OwnedFd,
    /// Most bytes of a folder.
    folder_bytes: u64,
    folders: Vec<Mutex<Folder>>,
}

/// State of a folder in this process.
#[derive(Default)]
struct Folder {
    /// Bytes that may be added before the folder is counted again.
    room: u64,
    /// Number of temporary files so far.
    temporary: u64,
}

impl Cache {
    /// Opens the cache in a directory, which is made where it is missing. `bytes` bounds the cache; the
    /// processes that share a cache use the same bound.
    ///
    /// # Errors
    /// The host's; a directory of another user, or one that others may write to.
    pub fn open(path: &Path, bytes: u64) -> io::Result<Cache> {
        let directory = private_dir(path)?;
        let folders = (0..FOLDERS).map(|_| Mutex::default()).collect();
        let folder_bytes = bytes.max(MIN_CACHE) / FOLDERS as u64;
        Ok(Cache { path: path.to_owned(), directory, folder_bytes, folders })
    }

    /// Returns the directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the bytes that are kept under a name, which the caller verifies.
    pub(crate) fn get(&self, hash: &Hash) -> Option<Vec<u8>> {
        let folder = self.folder(hash, false).ok()?;
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = rustix::fs::openat(&folder, hash.to_string(), flags, Mode::empty()).ok()?;
        let mut file = File::from(file);
        let mut bytes = Vec::new();
        (&mut file).take(MAX_ENTRY_BYTES).read_to_end(&mut bytes).ok()?;
        let now = Timespec { tv_sec: 0, tv_nsec: rustix::fs::UTIME_NOW };
        let times = Timestamps { last_access: now, last_modification: now };
        // The time orders removals only.
        let _ = rustix::fs::futimens(&file, &times);
        Some(bytes)
    }

    /// Returns the number of bytes that are kept under a name.
    pub(crate) fn len(&self, hash: &Hash) -> Option<u64> {
        let name = format!("{:02x}/{hash}", hash.0[0]);
        let stat = rustix::fs::statat(&self.directory, name, AtFlags::SYMLINK_NOFOLLOW).ok()?;
        (FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile).then_some(stat.st_size as u64)
    }

    /// Keeps bytes under their hash, as far as the host lets it: a cache that fails is one that forgets.
    pub(crate) fn put(&self, hash: &Hash, bytes: &[u8]) {
        let _ = self.try_put(hash, bytes);
    }

    /// Forgets an entry that is damaged.
    pub(crate) fn remove(&self, hash: &Hash) {
        if let Ok(folder) = self.folder(hash, false) {
            let _ = rustix::fs::unlinkat(&folder, hash.to_string(), AtFlags::empty());
        }
    }

    fn try_put(&self, hash: &Hash, bytes: &[u8]) -> io::Result<()> {
        let len = (bytes.len() as u64).next_multiple_of(HOST_BLOCK_BYTES);
        // A whole piece in frames has more than 256 KiB, with its proofs.
        if len > self.folder_bytes / 2 {
            return Ok(());
        }
        let folder = self.folder(hash, true)?;
        let mut state = self.folders[usize::from(hash.0[0])].lock();
        if state.room < len {
            state.room = make_room(&folder, self.folder_bytes, len)?;
        }
        state.room = state.room.saturating_sub(len);
        state.temporary += 1;
        let temporary = format!(".{}.{}", std::process::id(), state.temporary);
        drop(state);
        write(&folder, &temporary, &hash.to_string(), bytes).inspect_err(|_| {
            let _ = rustix::fs::unlinkat(&folder, &temporary, AtFlags::empty());
        })
    }

    fn folder(&self, hash: &Hash, make: bool) -> io::Result<OwnedFd> {
        let name = format!("{:02x}", hash.0[0]);
        let flags = OFlags::DIRECTORY | OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        match rustix::fs::openat(&self.directory, &name, flags, Mode::empty()) {
            Err(Errno::NOENT) if make => {
                match rustix::fs::mkdirat(&self.directory, &name, Mode::RWXU) {
                    Ok(()) | Err(Errno::EXIST) => {}
                    Err(errno) => return Err(errno.into()),
                }
                Ok(rustix::fs::openat(&self.directory, &name, flags, Mode::empty())?)
            }
            folder => Ok(folder?),
        }
    }
}

fn write(folder: &OwnedFd, temporary: &str, name: &str, bytes: &[u8]) -> io::Result<()> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut file = File::from(rustix::fs::openat(folder, temporary, flags, Mode::RUSR | Mode::WUSR)?);
    file.write_all(bytes)?;
    Ok(rustix::fs::renameat(folder, temporary, folder, name)?)
}

/// A file of a folder.
struct Kept {
    used: (i64, i64),
    bytes: u64,
    name: std::ffi::CString,
}

/// Counts the files of a folder, removes the oldest ones where they have too many bytes, and returns the
/// number of bytes that may be added before the next count: `len` at least.
fn make_room(folder: &OwnedFd, most: u64, len: u64) -> io::Result<u64> {
    rustix::fs::flock(folder, FlockOperation::LockExclusive)?;
    let room = len.max(most / UNCOUNTED);
    let outcome = remove_oldest(folder, most, room);
    rustix::fs::flock(folder, FlockOperation::Unlock)?;
    outcome.map(|()| room)
}

fn remove_oldest(folder: &OwnedFd, most: u64, room: u64) -> io::Result<()> {
    let mut kept = files(folder)?;
    let mut bytes: u64 = kept.iter().map(|file| file.bytes).sum();
    if bytes + room <= most {
        return Ok(());
    }
    kept.sort_unstable_by_key(|file| file.used);
    for file in kept {
        // More than is needed now, so that the next count comes later.
        if bytes <= (most - room).min(most / 4 * 3) {
            break;
        }
        match rustix::fs::unlinkat(folder, &file.name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => bytes -= file.bytes,
            Err(errno) => return Err(errno.into()),
        }
    }
    Ok(())
}

fn files(folder: &OwnedFd) -> io::Result<Vec<Kept>> {
    let mut files = Vec::new();
    for entry in rustix::fs::Dir::read_from(folder)? {
        let entry = entry?;
        match rustix::fs::statat(folder, entry.file_name(), AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) if FileType::from_raw_mode(stat.st_mode) != FileType::Directory => files.push(Kept {
                used: (stat.st_mtime, stat.st_mtime_nsec),
                bytes: (stat.st_size as u64).next_multiple_of(HOST_BLOCK_BYTES),
                name: entry.file_name().to_owned(),
            }),
            Ok(_) | Err(Errno::NOENT) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hash(folder: u8, number: u8) -> Hash {
        let mut bytes = [number; 32];
        bytes[0] = folder;
        Hash(bytes)
    }

    fn private() -> tempfile::TempDir {
        tempfile::tempdir().expect("a directory")
    }

    #[test]
    fn entries_come_back_in_another_process() {
        let home = private();
        let path = home.path().join("cache");
        let cache = Cache::open(&path, 0).expect("a cache");
        assert_eq!(cache.get(&hash(1, 1)), None);
        cache.put(&hash(1, 1), b"one");
        // Another value stands for another process: they share nothing but the directory.
        let other = Cache::open(&path, 0).expect("a cache");
        assert_eq!(other.get(&hash(1, 1)), Some(b"one".to_vec()));
        other.remove(&hash(1, 1));
        assert_eq!(cache.get(&hash(1, 1)), None);
    }

    #[test]
    fn a_folder_keeps_within_its_bytes_and_forgets_the_oldest() {
        let home = private();
        let path = home.path().join("cache");
        let caches = [Cache::open(&path, 0), Cache::open(&path, 0)].map(|cache| cache.expect("a cache"));
        let most = MIN_CACHE / FOLDERS as u64;
        let entry = vec![0; (most / UNCOUNTED) as usize];
        for number in 0..100 {
            caches[usize::from(number % 2)].put(&hash(7, number), &entry);
            let folder = caches[0].folder(&hash(7, 0), false).expect("the folder");
            let bytes: u64 = files(&folder).expect("files").iter().map(|file| file.bytes).sum();
            assert!(bytes <= most, "{bytes} of {most} bytes");
        }
        assert_eq!(caches[0].get(&hash(7, 0)), None);
        assert_eq!(caches[0].get(&hash(7, 99)), Some(entry));
    }

    #[test]
    fn a_directory_that_others_may_use_is_refused() {
        use std::os::unix::fs::PermissionsExt;
        let home = private();
        let path = home.path().join("cache");
        std::fs::create_dir(&path).expect("a directory");
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).expect("a mode");
        let refused = Cache::open(&path, 0).map(|_| ()).expect_err("it is refused");
        assert!(refused.to_string().contains("chmod 700"), "{refused}");
    }

    #[test]
    fn symbolic_links_are_not_followed() {
        let home = private();
        let secret = home.path().join("secret");
        std::fs::write(&secret, "secret").expect("a file");
        let path = home.path().join("cache");
        let cache = Cache::open(&path, 0).expect("a cache");
        cache.put(&hash(3, 1), b"x");
        let name = path.join("03").join(hash(3, 2).to_string());
        std::os::unix::fs::symlink(&secret, &name).expect("a link");
        assert_eq!(cache.get(&hash(3, 2)), None);
        std::os::unix::fs::symlink(home.path(), path.join("04")).expect("a link");
        cache.put(&hash(4, 1), b"x");
        assert!(!home.path().join(hash(4, 1).to_string()).exists());
        let link = home.path().join("link");
        std::os::unix::fs::symlink(&path, &link).expect("a link");
        assert!(Cache::open(&link, 0).is_err());
    }
}
