//! Creation, opening and closing of volumes.

use super::{memory, mkfs};
use crate::mounted::journal;
use crate::mounted::shared::Shared;
use crate::running::volume::{Listeners, Volume};
use crate::space::recount;
use crate::vocabulary::error::{Error, ErrorKind, Result};
use crate::vocabulary::escape::escape_path;
use crate::vocabulary::extent::Extent;
use crate::vocabulary::options::{Access, CreateOptions, OpenOptions};
use lanefs_format::superblock::{NotASuperblock, Superblock, VERSION};
use lanefs_format::{BLOCK, Code, MAX_VOLUME, SUPERBLOCK_COPY};
use lanefs_store::{
    Backing, Device, FileDevice, FileOptions, JournalContent, LARGEST_RANGE, MemoryDevice, NewImage,
    OpeningLock, Overlay, Store, Totals,
};
use lanefs_sync::lock::Mutex;
use std::cmp::Ordering;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

/// Threads that read ahead: while one waits for the device, another prepares memory.
const READERS_AHEAD: usize = 3;

/// Factor by which an open volume can grow where nothing else is asked for. It costs address space only.
const GROWTH: u64 = 16;

/// Part of the memory that the process may use which the cache takes by default.
const CACHE_PART: u64 = 4;

/// Returns whether a caller wants a wait to end.
type InterruptCheck = Box<dyn Fn() -> bool + Send + Sync>;

/// # Making, opening and closing
impl Volume {
    /// Makes a volume in a file, which is created sparse, or on a raw device.
    ///
    /// # Errors
    /// [`Error::Image`] for an existing file (without `force`) or an impossible size; the host's errors.
    pub fn create(image: impl AsRef<Path>, options: &CreateOptions) -> Result<Volume> {
        Self::create_by(image.as_ref(), options, None)
    }

    /// Makes a volume as [`create`](Self::create) does, and asks `interrupted` from time to time: the tables
    /// of a large volume take a while. Where it returns true, a new file is removed, and an older one that
    /// `force` has overwritten holds nothing. The volume asks it later, too, as
    /// [`interrupt_waits_by`](Self::interrupt_waits_by) says.
    ///
    /// # Errors
    /// As [`create`](Self::create); `EINTR` for an interruption.
    pub fn create_unless(
        image: impl AsRef<Path>,
        options: &CreateOptions,
        interrupted: impl Fn() -> bool + Send + Sync + 'static,
    ) -> Result<Volume> {
        Self::create_by(image.as_ref(), options, Some(Box::new(interrupted)))
    }

    fn create_by(
        image: &Path,
        options: &CreateOptions,
        interrupted: Option<InterruptCheck>,
    ) -> Result<Volume> {
        let name = escape_path(image);
        let superblock = mkfs::superblock(&name, options, true)?;
        let in_use = || {
            let why = "exists already or holds something".into();
            Err(Error::Image { kind: ErrorKind::Exists, what: name.clone(), why })
        };
        let file = FileOptions { mode: options.mode, ..FileOptions::default() };
        let made = FileDevice::create_with(image, superblock.volume_bytes, options.force, &file);
        let device = match made {
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => return in_use(),
            made => made.map_err(|source| open_error(&name, source))?,
        };
        // The very device that is open: another one may have got the name meanwhile.
        if !options.force && looks_used(&device) {
            return in_use();
        }
        // Without `force` the file is a new one. Half a volume is of no use.
        let new = if options.force { Ok(None) } else { device.new_image(image) };
        let new = new.map_err(|source| open_error(&name, source))?;
        Self::make(Backing::Device(Box::new(device)), superblock, interrupted)
            .inspect_err(|_| new.into_iter().for_each(NewImage::remove))
    }

    /// Makes a volume on any device that is large enough.
    ///
    /// # Errors
    /// [`Error::Image`] for an impossible size; the device's errors.
    pub fn create_device(device: Box<dyn Device>, options: &CreateOptions) -> Result<Volume> {
        let superblock = mkfs::superblock("volume", options, true)?;
        if device.len() < superblock.volume_bytes {
            let why = format!("the device has only {} bytes", device.len());
            return Err(Error::Image { kind: ErrorKind::Size, what: "volume".into(), why });
        }
        Self::make(Backing::Device(device), superblock, None)
    }

    /// Makes a volume in memory. It ends with the returned value.
    ///
    /// # Errors
    /// [`Error::Image`] for an impossible size; the host's error when it has no address space left.
    pub fn create_memory(options: &CreateOptions) -> Result<Volume> {
        let superblock = mkfs::superblock("memory volume", options, false)?;
        Self::make(Backing::Memory, superblock, None)
    }

    fn make(backing: Backing, superblock: Superblock, interrupted: Option<InterruptCheck>) -> Result<Volume> {
        let journal = (superblock.journal, superblock.journal_blocks);
        let volume = Self::with(backing, superblock, &OpenOptions::default())?;
        if let Some(interrupted) = interrupted {
            volume.interrupt_waits_by(interrupted);
        }
        volume.shared.marked.store(true, Relaxed);
        if let Err(error) = volume.make_content(journal) {
            // The end of half a volume writes no superblock, which would make it look like a whole one.
            volume.shared.marked.store(false, Relaxed);
            return Err(error);
        }
        Ok(volume)
    }

    /// Makes the first content of a new volume, durable.
    fn make_content(&self, journal: (u64, u64)) -> Result<()> {
        let shared = &self.shared;
        if journal.1 > 0 {
            shared.state.store.use_journal(journal.0, journal.1, JournalContent::New)?;
        }
        let made = shared.superblock.lock().clone();
        let table = Extent::new(made.groups / BLOCK, made.group_count);
        let mut closed = shared.state.gate.close_to_change(&shared.state.store);
        let free = shared.write_table(&mut closed, table, 0, &mkfs::reserved(&made))?;
        drop(closed);
        shared.state.counts.set(Totals { free_blocks: free, inodes: 0 });
        let (root, orphans) = self.change(mkfs::make_directories)?;
        self.set_root(root);
        self.set_orphans(orphans);
        self.finish()
    }

    fn with(backing: Backing, superblock: Superblock, options: &OpenOptions) -> Result<Volume> {
        let bytes = superblock.volume_bytes;
        let room = match options.growth {
            Some(growth) => bytes.saturating_add(growth),
            None => bytes.saturating_mul(GROWTH).min(LARGEST_RANGE.max(bytes)),
        };
        let room = room.min(MAX_VOLUME);
        let cache = options.cache.unwrap_or_else(|| memory::usable_bytes() / CACHE_PART);
        let made = Store::new(backing, bytes, room, cache, superblock.sums(), superblock.inode_size);
        let made = if options.access == Access::Read { made.and_then(Store::for_reading) } else { made };
        let store = made.map_err(|source| Error::Io { what: "opening the volume".into(), source })?;
        if superblock.has_data_checksums() {
            store.use_data_checksums();
        }
        let volume =
            Volume { shared: Shared::new(store, superblock, options), listeners: Listeners::default() };
        volume.read_ahead();
        volume.write_behind();
        Ok(volume)
    }

    /// Opens a volume in a file or on a raw device.
    ///
    /// # Errors
    /// [`Error::Image`] with the reason: not a LaneFS volume, a newer version, truncated, in use (the process
    /// is named where the host tells it); the host's errors.
    pub fn open(image: impl AsRef<Path>, options: impl Into<OpenOptions>) -> Result<Volume> {
        let (options, image) = (options.into(), image.as_ref());
        let name = escape_path(image);
        let shared = || OpeningLock::shared(image).map_err(|e| open_error(&name, e));
        let _lock = if options.access == Access::Read { Some(shared()?) } else { None };
        let file = FileOptions { write: options.access != Access::Read, ..options.file.clone() };
        let device = FileDevice::open_with(image, &file).map_err(|e| open_error(&name, e))?;
        if options.access != Access::Read || !was_left_open(&device)? {
            return Self::open_on(Box::new(device), &options, &name);
        }
        // A reader recovers and closes the volume in memory. An error prevents changes only, or is met again.
        let device = Overlay::new(Box::new(device));
        let writing = OpenOptions { access: Access::Write, ..options.clone() };
        let _ = Self::open_on(Box::new(device.clone()), &writing, &name).and_then(Volume::close);
        Self::open_on(Box::new(device), &options, &name)
    }

    /// Opens the volume in a file for reading and writing, or makes it where the file is missing.
    ///
    /// # Errors
    /// As [`open`](Self::open) and [`create`](Self::create), but not for an existing file.
    pub fn open_or_create(
        image: impl AsRef<Path>,
        create: &CreateOptions,
        open: impl Into<OpenOptions>,
    ) -> Result<Volume> {
        let image = image.as_ref();
        match Self::create(image, &CreateOptions { force: false, ..create.clone() }) {
            Ok(volume) => volume.close()?,
            Err(error) if error.kind() == ErrorKind::Exists => {}
            Err(error) => return Err(error),
        }
        Self::open(image, open)
    }

    /// Opens a volume on any device.
    ///
    /// # Errors
    /// [`Code::ReadOnly`] for more than reading from a device that cannot be written, such as a publication;
    /// as [`open`](Self::open).
    pub fn open_device(device: Box<dyn Device>, options: impl Into<OpenOptions>) -> Result<Volume> {
        Self::open_device_named(device, &options.into(), "volume")
    }

    /// Opens a volume whose bytes are given. Changes stay in memory; see [`to_bytes`](Self::to_bytes).
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn from_bytes(bytes: Vec<u8>) -> Result<Volume> {
        Self::open_device(Box::new(MemoryDevice::new(bytes)), Access::Write)
    }

    fn open_device_named(device: Box<dyn Device>, options: &OpenOptions, name: &str) -> Result<Volume> {
        // Recovery writes, and a reader changes nothing.
        let recovers = options.access == Access::Read && !device.is_for_closed_volumes();
        let device = match recovers && was_left_open(device.as_ref())? {
            true => Box::new(Overlay::new(device)),
            false => device,
        };
        Self::open_on(device, options, name)
    }

    /// Opens the volume on a device that takes what recovery writes.
    fn open_on(device: Box<dyn Device>, options: &OpenOptions, name: &str) -> Result<Volume> {
        let image = |kind, why: String| Error::Image { kind, what: name.into(), why };
        let unreadable = |not: NotASuperblock| image(kind_of(&not), explain(not));
        let access = options.access;
        if access != Access::Read && device.is_read_only() {
            return Err(Error::from(Code::ReadOnly).at(name));
        }
        let (superblock, torn) = read_superblock(device.as_ref())?.map_err(unreadable)?;
        if device.len() < superblock.volume_bytes {
            return Err(image(
                ErrorKind::Size,
                format!(
                    "the volume has {} bytes but the image only {}; it was cut off",
                    superblock.volume_bytes,
                    device.len()
                ),
            ));
        }
        if superblock.groups <= SUPERBLOCK_COPY
            && superblock.groups + superblock.group_count * BLOCK > SUPERBLOCK_COPY
        {
            return Err(unreadable(NotASuperblock::Field("position of the group table")));
        }
        let clean = superblock.clean;
        if !clean && device.is_for_closed_volumes() {
            let why = "not closed cleanly, as every published volume is; publish it again".into();
            return Err(image(ErrorKind::NotClosed, why));
        }
        // The replay of a journal writes, too.
        let writes = access != Access::Read || superblock.journal_blocks > 0 && !clean;
        if writes && superblock.unknown_ro_compat() != 0 {
            return Err(image(ErrorKind::NewerFormat, unwritable(superblock.unknown_ro_compat(), clean)));
        }
        let volume = Self::with(Backing::Device(device), superblock.clone(), options)?;
        match journal::open(&volume.shared.state.store, &superblock, access, clean) {
            Ok(damage) => *volume.shared.journal_damage.lock() = damage,
            Err(fault) => return Err(fault.into()),
        }
        if torn && access != Access::Read {
            volume.write_superblock(clean)?;
        }
        if !clean {
            match volume.recovered_totals() {
                Ok(totals) => volume.shared.state.counts.set(totals),
                // The rest can be read, and repaired.
                Err(Error::Damaged { .. }) if access != Access::Write => {}
                Err(error) => return Err(error),
            }
        }
        if access == Access::Write {
            if !clean {
                // Its log is replayed, so the end of this use closes it.
                volume.shared.mark_in_use()?;
            }
            volume.free_orphans();
        }
        Ok(volume)
    }

    /// Returns the counts of a volume that was not closed: those of the last commit, where they are possible.
    fn recovered_totals(&self) -> Result<Totals> {
        let store = &self.shared.state.store;
        let is_possible = |totals: &Totals| totals.free_blocks <= store.bytes() / BLOCK;
        store.logged_totals().filter(is_possible).map_or_else(|| self.recount(), Ok)
    }

    /// Counts free blocks and inodes in use, group by group: where one is missed, no other is counted again.
    pub(crate) fn recount(&self) -> Result<Totals> {
        let none = Totals { free_blocks: 0, inodes: 0 };
        (0..self.group_count()).try_fold(none, |sum, number| {
            let more = self.view(|core| recount(core, number))?;
            Ok(Totals {
                free_blocks: sum.free_blocks.saturating_add(more.free_blocks),
                inodes: sum.inodes.saturating_add(more.inodes),
            })
        })
    }

    /// Starts the threads that read ahead of sequential readers.
    fn read_ahead(&self) {
        let me = Arc::downgrade(&self.shared);
        self.shared.state.store.read_ahead_by(move || {
            let (helper, ranges) = std::sync::mpsc::channel();
            let ranges = Arc::new(Mutex::new(ranges));
            for _ in 0..READERS_AHEAD {
                let ranges = Arc::clone(&ranges);
                if let Some(shared) = me.upgrade() {
                    shared.spawn_helper("lanefs-readahead", move |shared| {
                        loop {
                            let range = ranges.lock().recv();
                            let Ok(range) = range else { break };
                            shared.state.store.read_ahead(range);
                        }
                    });
                }
            }
            helper
        });
    }

    /// Has the thread that writes large new data begin with the first of them: most volumes get none.
    fn write_behind(&self) {
        let me = Arc::downgrade(&self.shared);
        self.shared.state.store.write_behind_by(move || {
            let write = |shared: &Shared| shared.state.store.write_behind();
            me.upgrade().is_some_and(|shared| shared.spawn_helper("lanefs-write", write))
        });
    }

    /// Makes all changes durable and marks the volume as closed.
    ///
    /// # Errors
    /// The device's.
    pub fn close(self) -> Result<()> {
        self.finish()
    }

    fn finish(&self) -> Result<()> {
        let shared = &self.shared;
        if let Some(fault) = shared.state.store.failure() {
            // The device holds the last commit, which the next mount finds.
            return Err(Error::lost_by(fault));
        }
        shared.frozen.store(false, Release);
        if shared.marked.load(Acquire) {
            // All holders end with the mount.
            shared.state.holds.clear();
            debug_assert!(shared.state.holds.is_empty(), "an inode is held while the volume closes");
            self.free_orphans();
            shared.commit()?;
            let _lock = shared.lock_commits();
            shared.state.store.checkpoint()?;
            self.write_superblock(true)?;
            shared.marked.store(false, Release);
        }
        Ok(())
    }
}

impl Drop for Volume {
    fn drop(&mut self) {
        // A failed close leaves the volume marked as open, and the next mount recovers it.
        let _ = self.finish();
        self.shared.stop_helpers();
    }
}

/// Returns whether the volume was not closed. A superblock that cannot be used says nothing.
fn was_left_open(device: &dyn Device) -> Result<bool> {
    Ok(read_superblock(device)?.is_ok_and(|(superblock, _)| !superblock.clean))
}

/// Reads both copies of the superblock. Returns the better one, and whether a crash came between the writes
/// of two good copies.
fn read_superblock(device: &dyn Device) -> Result<std::result::Result<(Superblock, bool), NotASuperblock>> {
    // A file that ends before a copy has no copy; any other error is the device's.
    let read = |at: u64| {
        let mut block = vec![0; BLOCK as usize];
        match device.read_slice(at, &mut block) {
            Ok(()) => Ok(Superblock::decode(&block)),
            Err(e) if e.kind() == std::io::ErrorKind::UnexpectedEof => Ok(Err(NotASuperblock::Magic)),
            // A device that verifies its own bytes, as that of a publication.
            Err(e) if e.kind() == std::io::ErrorKind::InvalidData => {
                Err(Error::Damaged { at, why: "bytes that the device calls damaged".into() })
            }
            Err(source) => Err(Error::Io { what: format!("reading the volume at byte {at}"), source }),
        }
    };
    let both = match (read(0), read(SUPERBLOCK_COPY)) {
        (Ok(a), Ok(b)) => (a, b),
        // One good copy is sufficient.
        (Ok(Ok(one)), Err(_)) | (Err(_), Ok(Ok(one))) => return Ok(Ok((one, false))),
        (Err(e), _) | (_, Err(e)) => return Err(e),
    };
    Ok(match both {
        (Ok(a), Ok(b)) => {
            let torn = a.is_of_another_moment(&b);
            Ok((if torn && b.sequence > a.sequence { b } else { a }, torn))
        }
        (Ok(one), Err(_)) | (Err(_), Ok(one)) => Ok((one, false)),
        (Err(NotASuperblock::Magic), Err(why)) | (Err(why), Err(_)) => Err(why),
    })
}

fn kind_of(why: &NotASuperblock) -> ErrorKind {
    match why {
        NotASuperblock::Magic => ErrorKind::NotAVolume,
        NotASuperblock::Version(version) if *version < VERSION => ErrorKind::OlderFormat,
        NotASuperblock::Checksum | NotASuperblock::Field(_) => ErrorKind::Damaged,
        _ => ErrorKind::NewerFormat,
    }
}

fn explain(why: NotASuperblock) -> String {
    match why {
        NotASuperblock::Magic => "not a LaneFS volume".into(),
        NotASuperblock::Version(v) => {
            let advice = match v.cmp(&VERSION) {
                Ordering::Less => {
                    "export it with the version that made it, and import that into a new volume"
                }
                _ => "use newer software",
            };
            format!("format version {v}, this software reads version {VERSION}; {advice}")
        }
        NotASuperblock::ChecksumType(t) => {
            format!("has checksums of type {t}, which this software does not know; use newer software")
        }
        NotASuperblock::HashType(t) => {
            format!("has directory hashes of type {t}, which this software does not know; use newer software")
        }
        NotASuperblock::Features(f) => format!(
            "uses incompatible features that this software does not know ({}); use newer software",
            bits(f)
        ),
        NotASuperblock::Checksum => "both copies of the superblock are damaged".into(),
        NotASuperblock::Field(name) => format!("the superblock has an impossible {name}"),
    }
}

/// Explains that a volume with features that only newer software keeps true is not written.
fn unwritable(features: u64, clean: bool) -> String {
    let advice = match clean {
        true => "open it read-only",
        false => "it was not closed cleanly, so open and close it once with newer software",
    };
    format!(
        "uses read-only compatible features that this software does not know ({}); {advice}",
        bits(features)
    )
}

/// Lists the bits of a word for people.
fn bits(word: u64) -> String {
    let set: Vec<String> = (0..64).filter(|bit| word >> bit & 1 != 0).map(|bit| bit.to_string()).collect();
    format!("{} {}", if set.len() == 1 { "bit" } else { "bits" }, set.join(", "))
}

/// True for a device with any data in the range of file systems and partition tables.
fn looks_used(device: &FileDevice) -> bool {
    let mut start = vec![0; 68 << 10];
    device.read_slice(0, &mut start).is_err() || start.iter().any(|byte| *byte != 0)
}

fn open_error(name: &str, source: std::io::Error) -> Error {
    let image = |kind, why| Error::Image { kind, what: name.into(), why };
    match source.kind() {
        std::io::ErrorKind::WouldBlock => {
            let advice = "go through it, such as by its mount, or close it there";
            image(ErrorKind::InUse, format!("{source}: {advice}"))
        }
        std::io::ErrorKind::ResourceBusy => {
            image(ErrorKind::InUse, "in use: mounted, or open elsewhere".into())
        }
        std::io::ErrorKind::AlreadyExists => image(ErrorKind::Exists, "exists already".into()),
        std::io::ErrorKind::FileTooLarge => {
            let why = "the host's file system has no files that large; ext4 ends below 16 TiB, XFS does not";
            image(ErrorKind::Size, why.into())
        }
        // The image is neither a file nor a block device, or a device that is too small.
        std::io::ErrorKind::InvalidInput => image(ErrorKind::NotAVolume, source.to_string()),
        _ => Error::Io { what: format!("cannot open {name}"), source },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicU32;

    #[test]
    fn an_interrupted_creation_leaves_nothing_that_looks_like_a_volume() {
        let dir = tempfile::tempdir().expect("a directory");
        let image = dir.path().join("volume.lane");
        // The group table has 8192 blocks, of which 256 are written at a time.
        let options = CreateOptions { size: 1 << 40, ..CreateOptions::default() };
        let create = |options: &CreateOptions| {
            let asked = AtomicU32::new(0);
            let made = Volume::create_unless(&image, options, move || asked.fetch_add(1, Relaxed) > 3);
            made.map(drop).expect_err("interrupted")
        };
        let error = create(&options);
        assert!(
            matches!(&error, Error::Io { source, .. } if source.kind() == std::io::ErrorKind::Interrupted)
        );
        assert!(!image.exists(), "a new file stays");
        let small = CreateOptions { size: 8 << 20, ..CreateOptions::default() };
        Volume::create(&image, &small).expect("create").close().expect("close");
        create(&CreateOptions { force: true, ..options });
        let error = Volume::open(&image, Access::Read).map(drop).expect_err("not a volume");
        assert_eq!(error.kind(), ErrorKind::NotAVolume);
    }

    #[test]
    fn a_recovered_volume_has_a_committer_from_its_first_change_on() -> Result<()> {
        let size = 8 << 20;
        let device = Overlay::new(Box::new(MemoryDevice::new(vec![0; size])));
        let options = CreateOptions { size: size as u64, ..CreateOptions::default() };
        let has_committer = |volume: &Volume| volume.shared.commits_in_background.load(Relaxed);
        let volume = Volume::create_device(Box::new(device.clone()), &options)?;
        volume.write_file("/f", b"content")?;
        volume.sync()?;
        let mut left = vec![0; size];
        device.read_slice(0, &mut left).expect("the device holds the volume");
        drop(volume);
        let open = |access| {
            Volume::open_device(Box::new(MemoryDevice::new(left.clone())), OpenOptions::from(access))
        };
        let recovered = open(Access::Write)?;
        assert!(recovered.shared.marked.load(Relaxed) && !has_committer(&recovered));
        assert_eq!(recovered.read_file("/f")?, b"content");
        recovered.write_file("/g", b"more")?;
        assert!(has_committer(&recovered));
        Ok(())
    }
}
