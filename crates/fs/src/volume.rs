//! A volume, open.

use crate::edit::{Core, Edit, Outcome, Writer, deferred_blocks};
use crate::{Error, Ino, Result, StatFs, mkfs, recount};
use lanefs_format::superblock::{NotASuperblock, Superblock};
use lanefs_format::{BLOCK, CHUNK, Code, InodeSize, MAX_NAME, MAX_VOLUME, SUPERBLOCK_COPY};
use lanefs_store::{Backing, Device, Fault, FileDevice, MemoryDevice, Store};
use parking_lot::{Mutex, RwLock};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

/// How a volume is made.
#[derive(Clone, Debug)]
pub struct CreateOptions {
    /// Size of the volume in bytes; rounded down to a multiple of 4096. At least 8 MiB.
    pub size: u64,
    /// Size of an inode.
    pub inode_size: InodeSize,
    /// Take the place of an existing file, or of a volume on a raw device.
    pub force: bool,
    /// A name for people, 64 bytes of UTF-8 at most.
    pub label: String,
    /// Identity; `None` for a random one.
    pub uuid: Option<[u8; 16]>,
    /// Seed of the directory hash; `None` for a random one.
    pub seed: Option<[u8; 16]>,
}

impl Default for CreateOptions {
    fn default() -> Self {
        CreateOptions {
            size: 1 << 30,
            inode_size: InodeSize::B256,
            force: false,
            label: String::new(),
            uuid: None,
            seed: None,
        }
    }
}

/// What a volume is opened for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Reading only; others may read at the same time.
    Read,
    /// Reading and writing; nobody else may have it open.
    Write,
    /// As `Write`, to mend the volume: a journal that does not verify is replaced by an empty one, and what a crash may
    /// have left in it is lost. Check the volume with repair next.
    Repair,
}

/// An open volume. Every method takes `&self` and may be called from many threads.
///
/// What was changed is durable after [`sync`](Volume::sync) or [`close`](Volume::close); dropping a volume closes it, but
/// cannot report an error.
pub struct Volume {
    pub(crate) core: Core,
    pub(crate) writer: RwLock<Writer>,
    superblock: Mutex<Superblock>,
    access: Access,
    marked: AtomicBool,
}

/// An open volume can grow to this many times its size at once: address space is all that it costs.
const GROWTH: u64 = 16;

impl Volume {
    /// Makes a volume in a file, which is created sparse, or on a raw device.
    ///
    /// # Errors
    /// [`Error::Image`] when there is a file already (without `force`), or a size that cannot be; the host's errors.
    pub fn create(image: impl AsRef<Path>, options: &CreateOptions) -> Result<Volume> {
        let image = image.as_ref();
        let name = image.display().to_string();
        let superblock =
            mkfs::superblock(options, true).map_err(|why| Error::Image { what: name.clone(), why })?;
        if !options.force && Self::looks_used(image) {
            let why = "exists already or holds something; give --force (force: true) to overwrite it".into();
            return Err(Error::Image { what: name, why });
        }
        let device = FileDevice::create(image, superblock.volume_bytes, options.force)
            .map_err(|source| open_error(&name, source))?;
        Self::make(Backing::Device(Box::new(device)), superblock)
    }

    /// True for a file that is there, and for a raw device that holds anything where file systems and partition tables
    /// begin.
    fn looks_used(image: &Path) -> bool {
        use std::os::unix::fs::FileTypeExt;
        let Ok(meta) = std::fs::metadata(image) else { return false };
        if !meta.file_type().is_block_device() {
            return meta.is_file();
        }
        let mut start = vec![0; 68 << 10];
        let read = FileDevice::open(image, false).and_then(|device| device.read_at(0, &mut start));
        read.is_ok() && start.iter().any(|byte| *byte != 0)
    }

    /// Makes a volume in memory. It ends with the returned value.
    ///
    /// # Errors
    /// [`Error::Image`] for a size that cannot be; the host's error when it has no address space left.
    pub fn create_memory(options: &CreateOptions) -> Result<Volume> {
        let superblock = mkfs::superblock(options, false)
            .map_err(|why| Error::Image { what: "memory volume".into(), why })?;
        Self::make(Backing::Memory, superblock)
    }

    fn make(backing: Backing, superblock: Superblock) -> Result<Volume> {
        let journal = (superblock.journal, superblock.journal_blocks);
        let volume = Self::with(backing, superblock, Access::Write)?;
        volume.marked.store(true, Ordering::Relaxed);
        if journal.1 > 0 {
            volume.core.store.use_journal(journal.0, journal.1, true)?;
        }
        let root = volume.change(|edit| mkfs::fill(edit, &volume.superblock.lock().clone()))?;
        volume.superblock.lock().root = root;
        volume.sync()?;
        volume.write_superblock(true)?;
        volume.marked.store(false, Ordering::Relaxed);
        Ok(volume)
    }

    fn with(backing: Backing, superblock: Superblock, access: Access) -> Result<Volume> {
        let bytes = superblock.volume_bytes;
        let room = bytes.saturating_mul(GROWTH).min(MAX_VOLUME).min(1 << 45).max(bytes);
        let store =
            Store::new(backing, bytes, room, &superblock.uuid, superblock.inode_size).map_err(|source| {
                Error::Io { what: format!("reserving {bytes} bytes of address space"), source }
            })?;
        let core = Core::new(store, superblock.seed, superblock.groups, superblock.group_count);
        let mut writer = Writer::default();
        writer.hints.free_blocks = superblock.free_blocks;
        writer.hints.inodes = superblock.inodes;
        Ok(Volume {
            core,
            writer: RwLock::new(writer),
            superblock: Mutex::new(superblock),
            access,
            marked: AtomicBool::new(false),
        })
    }

    /// Opens a volume in a file or on a raw device.
    ///
    /// # Errors
    /// [`Error::Image`] saying what is wrong: not a LaneFS volume, a newer version, cut off, in use; the host's errors.
    pub fn open(image: impl AsRef<Path>, access: Access) -> Result<Volume> {
        let name = image.as_ref().display().to_string();
        let open = |access: Access| {
            let device = FileDevice::open(image.as_ref(), access != Access::Read);
            Self::open_device_named(Box::new(device.map_err(|e| open_error(&name, e))?), access, &name)
        };
        let volume = open(access);
        if access != Access::Read || volume.as_ref().is_ok_and(|volume| volume.superblock.lock().clean) {
            return volume;
        }
        // After a crash the journal must be applied once, which only a writer can; where it has nothing, that is well.
        drop(volume);
        let _ = open(Access::Write);
        open(access)
    }

    /// Opens a volume on any device.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn open_device(device: Box<dyn Device>, access: Access) -> Result<Volume> {
        Self::open_device_named(device, access, "volume")
    }

    /// Opens a volume whose bytes are given. Changes stay in memory; see [`to_bytes`](Self::to_bytes).
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn from_bytes(bytes: Vec<u8>) -> Result<Volume> {
        Self::open_device(Box::new(MemoryDevice::new(bytes)), Access::Write)
    }

    fn open_device_named(device: Box<dyn Device>, access: Access, name: &str) -> Result<Volume> {
        let image = |why: String| Error::Image { what: name.into(), why };
        let (superblock, torn) = read_superblock(device.as_ref()).map_err(|e| image(explain(e)))?;
        if device.len() < superblock.volume_bytes {
            return Err(image(format!(
                "the volume has {} bytes but the image only {}; it was cut off",
                superblock.volume_bytes,
                device.len()
            )));
        }
        let (clean, journal) = (superblock.clean, (superblock.journal, superblock.journal_blocks));
        let volume = Self::with(Backing::Device(device), superblock, access)?;
        // A closed volume has nothing in its journal; one that was not may, and recovery writes.
        if journal.1 > 0 && (access != Access::Read || !clean) {
            let mut used = volume.core.store.use_journal(journal.0, journal.1, false);
            if access == Access::Repair && matches!(used, Err(Fault::Damaged { .. })) {
                used = volume.core.store.use_journal(journal.0, journal.1, true);
            }
            if access == Access::Read && matches!(used, Err(Fault::Io { doing: "writing", .. })) {
                return Err(image(
                    "not closed cleanly; it must be opened for writing once (lanefs fsck)".into(),
                ));
            }
            used?;
        }
        if torn && access != Access::Read {
            volume.write_superblock(clean)?;
        }
        if !clean {
            let (free_blocks, inodes) = volume.view(recount)?;
            let mut writer = volume.writer.write();
            (writer.hints.free_blocks, writer.hints.inodes) = (free_blocks, inodes);
        }
        Ok(volume)
    }

    /// The volume's bytes, with everything that was changed.
    ///
    /// # Errors
    /// The device's.
    pub fn to_bytes(&self) -> Result<Vec<u8>> {
        self.sync()?;
        let _quiet = self.writer.write();
        Ok(self.core.store.snapshot()?)
    }

    /// Runs a read-only operation; blocks that it misses are fetched and it runs again.
    pub(crate) fn view<T>(&self, operation: impl Fn(&Core) -> Outcome<T>) -> Result<T> {
        let _readers = self.writer.read();
        loop {
            match operation(&self.core) {
                Err(Fault::Miss { at, kind }) => self.core.store.fetch(at, kind)?,
                done => return Ok(done?),
            }
        }
    }

    /// Runs a change as one transaction: all of it happens, or, when it fails, nothing.
    pub(crate) fn change<T>(&self, operation: impl FnMut(&mut Edit<'_>) -> Outcome<T>) -> Result<T> {
        if self.access == Access::Read || self.core.store.has_failed() {
            return Err(Code::ReadOnly.into());
        }
        let mut operation = operation;
        let mut writer = self.writer.write();
        if !self.marked.load(Ordering::Relaxed) {
            self.write_superblock(false)?;
            self.marked.store(true, Ordering::Relaxed);
        }
        loop {
            let mut edit = Edit::new(&self.core, &mut writer);
            let done = operation(&mut edit);
            match done.and_then(|value| edit.commit().map(|()| value)) {
                Ok(value) => {
                    if !self.core.store.is_memory() && self.core.store.should_commit() {
                        self.write_out(&mut writer)?;
                    }
                    return Ok(value);
                }
                Err(Fault::Miss { at, kind }) => self.core.store.fetch(at, kind)?,
                // What was freed may be used again once the device knows that it was.
                Err(Fault::Code(Code::NoSpace)) if !writer.deferred.is_empty() => {
                    self.write_out(&mut writer)?;
                }
                Err(fault) => return Err(fault.into()),
            }
        }
    }

    /// Everything changed so far is durable on return.
    ///
    /// # Errors
    /// The device's; the volume is then open for reading only.
    pub fn sync(&self) -> Result<()> {
        let mut writer = self.writer.write();
        self.write_out(&mut writer)?;
        let mut superblock = self.superblock.lock();
        (superblock.free_blocks, superblock.inodes) = (writer.hints.free_blocks, writer.hints.inodes);
        Ok(())
    }

    /// Commits everything to the device.
    pub(crate) fn write_out(&self, writer: &mut Writer) -> Result<()> {
        while !writer.deferred.is_empty() {
            match Edit::new(&self.core, writer).commit_deferred() {
                Ok(()) => {}
                // What is resident now that all was taken back had been freed and was met a second time: damage, which
                // fetching would only bring about again.
                Err(Fault::Miss { at, kind }) if self.core.store.block(at, kind).is_err() => {
                    self.core.store.fetch(at, kind)?;
                }
                Err(fault) => {
                    // A damaged volume. What cannot be freed stays used, for fsck to find.
                    writer.deferred.clear();
                    return Err(fault.into());
                }
            }
        }
        Ok(self.core.store.flush()?)
    }

    /// Makes everything durable and marks the volume as closed.
    ///
    /// # Errors
    /// The device's.
    pub fn close(self) -> Result<()> {
        self.finish()
    }

    fn finish(&self) -> Result<()> {
        if self.core.store.has_failed() {
            // The device keeps the last commit, which the next open finds.
            return Err(Error::Io {
                what: "a write failed, and what was changed since the last sync is lost".into(),
                source: std::io::Error::other("the volume is as it was then"),
            });
        }
        if self.marked.load(Ordering::Relaxed) {
            self.sync()?;
            self.write_superblock(true)?;
            self.marked.store(false, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Writes both copies, one after the other, so that one is good whatever happens.
    fn write_superblock(&self, clean: bool) -> Result<()> {
        let mut superblock = self.superblock.lock();
        superblock.clean = clean;
        superblock.sequence = superblock.sequence.saturating_add(1);
        let block = superblock.encode();
        for at in [0, SUPERBLOCK_COPY] {
            self.core.store.write_raw(at, &block)?;
        }
        Ok(())
    }

    /// Changes the superblock and writes it.
    pub(crate) fn update_superblock(&self, change: impl FnOnce(&mut Superblock)) -> Result<()> {
        change(&mut self.superblock.lock());
        self.write_superblock(false)
    }

    /// What is known of the volume as a whole.
    pub fn superblock(&self) -> Superblock {
        self.superblock.lock().clone()
    }

    /// What the volume was opened for.
    pub fn access(&self) -> Access {
        self.access
    }

    /// The root directory.
    pub fn root(&self) -> Ino {
        Ino(self.superblock.lock().root)
    }

    /// Space and inodes.
    ///
    /// # Errors
    /// None today; a volume that is not wholly in memory may have to read.
    pub fn statfs(&self) -> Result<StatFs> {
        let writer = self.writer.read();
        let (hints, deferred) = (writer.hints, deferred_blocks(&writer));
        drop(writer);
        let blocks = self.core.store.bytes() / BLOCK;
        let inodes_per_chunk = (CHUNK / BLOCK - 2) * (BLOCK / self.core.store.inode_size().bytes());
        Ok(StatFs {
            block_size: BLOCK,
            blocks,
            free_blocks: hints.free_blocks + deferred,
            inodes: hints.inodes,
            free_inodes: (hints.free_blocks + deferred) / (CHUNK / BLOCK) * inodes_per_chunk,
            max_name: MAX_NAME as u32,
        })
    }
}

impl Drop for Volume {
    fn drop(&mut self) {
        // A failed close leaves the volume marked as open, which the next opener sees.
        let _ = self.finish();
    }
}

/// The better of the two copies, and whether both are good but a crash came between their writing.
fn read_superblock(device: &dyn Device) -> std::result::Result<(Superblock, bool), NotASuperblock> {
    let read = |at: u64| {
        let mut block = vec![0; BLOCK as usize];
        device.read_at(at, &mut block).map_err(|_| NotASuperblock::Magic)?;
        Superblock::decode(&block)
    };
    match (read(0), read(SUPERBLOCK_COPY)) {
        (Ok(a), Ok(b)) => {
            let newer = b.sequence > a.sequence && a.uuid == b.uuid;
            // The first copy is written first, so only it may be ahead.
            let torn = a.sequence > b.sequence && a.uuid == b.uuid;
            Ok((if newer { b } else { a }, torn))
        }
        (Ok(one), Err(_)) | (Err(_), Ok(one)) => Ok((one, false)),
        (Err(NotASuperblock::Magic), Err(why)) | (Err(why), Err(_)) => Err(why),
    }
}

fn explain(why: NotASuperblock) -> String {
    match why {
        NotASuperblock::Magic => "not a LaneFS volume (make one with `lanefs mkfs`)".into(),
        NotASuperblock::Version(v) => {
            format!("format version {v}, this software reads version {}", lanefs_format::superblock::VERSION)
        }
        NotASuperblock::Features(f) => format!("uses features {f:#x} that this software does not know"),
        NotASuperblock::Checksum => "both copies of the superblock are damaged".into(),
        NotASuperblock::Field(name) => format!("the superblock has an impossible {name}"),
    }
}

fn open_error(name: &str, source: std::io::Error) -> Error {
    match source.kind() {
        std::io::ErrorKind::WouldBlock => {
            Error::Image { what: name.into(), why: "in use by another process".into() }
        }
        std::io::ErrorKind::ResourceBusy => {
            Error::Image { what: name.into(), why: "in use: mounted, or open elsewhere".into() }
        }
        std::io::ErrorKind::AlreadyExists => {
            Error::Image { what: name.into(), why: "exists already; give --force to overwrite it".into() }
        }
        // Neither a file nor a block device, or a device that is too small.
        std::io::ErrorKind::InvalidInput => Error::Image { what: name.into(), why: source.to_string() },
        _ => Error::Io { what: format!("cannot open {name}"), source },
    }
}

impl From<Fault> for Error {
    fn from(fault: Fault) -> Self {
        match fault {
            Fault::Code(code) => Error::Code(code),
            Fault::Damaged { at, why } => Error::Damaged { at, why: why.into() },
            Fault::Miss { at, kind } => Error::wrong_kind(at, kind),
            Fault::Io { at, doing, errno } => Error::Io {
                what: format!("{doing} the volume at byte {at}"),
                source: std::io::Error::from_raw_os_error(errno),
            },
        }
    }
}
