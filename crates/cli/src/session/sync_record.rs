//! Records of syncs in the user's cache: a sync passes over the directories that are as the last one has
//! found them.
//!
//! A record is of one image, one source and one destination, and counts for the state in which that sync has
//! closed the volume. No failure of it is one of the command: without a record all names are compared.

use super::image::Image;
use super::publication;
use lanefs::host_path::private_dir;
use lanefs::{Volume, VolumeStamp};
use lanefs_transfer::{FileId, HostTop, ImageState, LastSync};
use parking_lot::Mutex;
use rustix::fs::{AtFlags, Dir, Mode, OFlags, openat, renameat, statat, unlinkat};
use std::fs::File;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;

/// Folder of the records in the directory of the local cache.
const FOLDER: &str = "syncs";
/// Most records in the folder. The oldest ones are removed.
const MOST_RECORDS: usize = 32;

/// The record that a command uses, and makes.
#[derive(Clone, Debug, Default)]
pub struct SyncRecord(Arc<Mutex<Option<OpenRecord>>>);

#[derive(Debug)]
struct OpenRecord {
    image: PathBuf,
    name: String,
    last: Arc<LastSync>,
    /// The record as it was read; empty where there is none.
    bytes: Vec<u8>,
    /// The image before the sync.
    begin: ImageState,
    /// The stamp of the volume after the sync, before it is closed.
    end: Option<VolumeStamp>,
}

impl SyncRecord {
    /// Reads the record of a sync from `source` into `dest` of a volume that is open and was not changed yet.
    /// Returns `None` for a sync that is not recorded.
    pub fn open(
        &self,
        image: &Image,
        volume: &Volume,
        source: &HostTop,
        dest: &[u8],
    ) -> Option<Arc<LastSync>> {
        let opened = open(image, volume, source, dest);
        let last = opened.as_ref().map(|record| Arc::clone(&record.last));
        *self.0.lock() = opened;
        last
    }

    /// Notes the stamp of the volume after the sync.
    pub fn ended(&self, volume: &Volume) {
        if let Some(record) = &mut *self.0.lock() {
            record.end = Some(volume.stamp());
        }
    }

    /// Keeps the record for the next sync. The volume is closed by now.
    pub fn keep(&self) {
        if let Some(record) = self.0.lock().take()
            && let Some(bytes) = record.next()
        {
            // The next sync compares all names where that fails.
            let _ = write(&record.name, &bytes);
        }
    }
}

impl OpenRecord {
    /// The next record; `None` where there is none, or it is the same.
    fn next(&self) -> Option<Vec<u8>> {
        let (end, now) = (self.end?, ImageState::of(&self.image)?);
        let stamp = now.stamp();
        // Nobody else may have changed the volume since it was closed.
        let is_own = match end.is_closed {
            true => now == self.begin,
            false => stamp.uuid == end.uuid && stamp.sequence == end.sequence.saturating_add(1),
        };
        self.last.next_record(&now).filter(|next| is_own && *next != self.bytes)
    }
}

fn open(image: &Image, volume: &Volume, source: &HostTop, dest: &[u8]) -> Option<OpenRecord> {
    let Image::Path(path) = image else { return None };
    let begin = ImageState::of(path).filter(|state| state.stamp() == volume.stamp())?;
    let folder = folder().ok()?;
    // Each record would be a change of the source, and its key would come into the volume.
    if source.holds(&folder) != Ok(false) {
        return None;
    }
    let name = name(&begin, source.id(), dest);
    let bytes = read(&folder, &name).unwrap_or_default();
    let last = match bytes.is_empty() {
        true => LastSync::none(),
        false => LastSync::from_record(&bytes, &begin),
    };
    Some(OpenRecord { image: path.clone(), name, last: Arc::new(last), bytes, begin, end: None })
}

/// The name of a record. Two syncs of one name do no harm: the record says of which one it is.
fn name(image: &ImageState, source: FileId, dest: &[u8]) -> String {
    let mut hasher = DefaultHasher::new();
    (image.id(), source, dest).hash(&mut hasher);
    format!("{:016x}", hasher.finish())
}

fn folder() -> io::Result<OwnedFd> {
    let cache = publication::cache_directory().ok_or(io::ErrorKind::NotFound)?;
    private_dir(&cache)?;
    private_dir(&cache.join(FOLDER))
}

fn read(folder: &OwnedFd, name: &str) -> io::Result<Vec<u8>> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = File::from(openat(folder, name, flags, Mode::empty())?);
    let mut bytes = Vec::new();
    file.take(LastSync::MOST_BYTES as u64 + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Writes a record, which is there as a whole or as it was.
fn write(name: &str, bytes: &[u8]) -> io::Result<()> {
    let folder = folder()?;
    let part = format!("{name}.{}", uuid::Uuid::new_v4().simple());
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
    let mut file = File::from(openat(&folder, &part, flags, Mode::RUSR | Mode::WUSR)?);
    let written = file.write_all(bytes).and_then(|()| Ok(renameat(&folder, &part, &folder, name)?));
    if written.is_err() {
        let _ = unlinkat(&folder, &part, AtFlags::empty());
    }
    written.and_then(|()| remove_oldest(&folder))
}

/// True for the name of a record, and of a part of one.
fn is_own(name: &[u8]) -> bool {
    let is_hex = |part: &[u8], len| part.len() == len && part.iter().all(u8::is_ascii_hexdigit);
    match name.split_at_checked(16) {
        Some((record, [])) => is_hex(record, 16),
        Some((record, [b'.', part @ ..])) => is_hex(record, 16) && is_hex(part, 32),
        _ => false,
    }
}

/// Removes the records beyond the number that is kept, and what a program that was killed has left.
fn remove_oldest(folder: &OwnedFd) -> io::Result<()> {
    let mut found = Vec::new();
    for entry in Dir::read_from(folder)? {
        let name = entry?.file_name().to_owned();
        if is_own(name.to_bytes()) {
            let stat = statat(folder, &name, AtFlags::SYMLINK_NOFOLLOW)?;
            found.push(((stat.st_mtime, stat.st_mtime_nsec), name));
        }
    }
    found.sort_unstable();
    for (_, name) in found.iter().rev().skip(MOST_RECORDS) {
        unlinkat(folder, name, AtFlags::empty())?;
    }
    Ok(())
}
