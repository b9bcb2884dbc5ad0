//! A volume, open.

use crate::edit::{Core, Edit, Outcome};
use crate::shared::Shared;
use crate::{Error, Ino, Result, StatFs, Stats, mkfs, recount};
use lanefs_format::superblock::{NotASuperblock, Superblock};
use lanefs_format::{BLOCK, CHUNK, InodeSize, MAX_NAME, MAX_VOLUME, SUPERBLOCK_COPY};
use lanefs_store::{Backing, Device, Fault, FileDevice, FileOptions, MemoryDevice, Store, Want};
use parking_lot::Mutex;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

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

/// How a volume is opened.
#[derive(Clone, Debug)]
pub struct OpenOptions {
    /// What for.
    pub access: Access,
    /// Memory for blocks of the device, in bytes; `None` for a quarter of the machine's. What was changed and not
    /// committed comes on top, up to half as much again.
    pub cache: Option<u64>,
    /// Changes become durable after this time by themselves.
    pub commit_every: Duration,
    /// How the host's file is reached (its `write` is set from `access`).
    pub file: FileOptions,
}

impl Default for OpenOptions {
    fn default() -> Self {
        OpenOptions {
            access: Access::Write,
            cache: None,
            // As ext4 has it.
            commit_every: Duration::from_secs(5),
            file: FileOptions::default(),
        }
    }
}

impl From<Access> for OpenOptions {
    fn from(access: Access) -> Self {
        OpenOptions { access, ..OpenOptions::default() }
    }
}

/// A quarter of the machine's memory, in bytes.
fn default_cache() -> u64 {
    let info = rustix::system::sysinfo();
    (info.totalram as u64).saturating_mul(u64::from(info.mem_unit.max(1))) / 4
}

/// An open volume. Every method takes `&self` and may be called from many threads.
///
/// What was changed is durable after [`sync`](Volume::sync), [`fsync`](Volume::fsync) or [`close`](Volume::close), and some
/// seconds later by itself; dropping a volume closes it, but cannot report an error.
pub struct Volume {
    pub(crate) shared: Arc<Shared>,
}

/// Threads that read ahead: while one waits for the device, another makes memory ready.
const READERS_AHEAD: usize = 3;

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
        let read = FileDevice::open(image, false).and_then(|device| device.read_slice(0, &mut start));
        read.is_ok() && start.iter().any(|byte| *byte != 0)
    }

    /// Makes a volume on any device, which is at least as large.
    ///
    /// # Errors
    /// [`Error::Image`] for a size that cannot be; the device's errors.
    pub fn create_device(device: Box<dyn Device>, options: &CreateOptions) -> Result<Volume> {
        let refuse = |why| Error::Image { what: "volume".into(), why };
        let superblock = mkfs::superblock(options, true).map_err(refuse)?;
        if device.len() < superblock.volume_bytes {
            return Err(refuse(format!("the device has only {} bytes", device.len())));
        }
        Self::make(Backing::Device(device), superblock)
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
        let volume = Self::with(backing, superblock, &OpenOptions::default())?;
        let shared = &volume.shared;
        shared.marked.store(true, Ordering::Relaxed);
        if journal.1 > 0 {
            shared.store.use_journal(journal.0, journal.1, true)?;
        }
        let made = shared.superblock.lock().clone();
        let (root, orphans) = volume.change(|edit| mkfs::fill(edit, &made))?;
        volume.set_root(root);
        volume.set_orphans(orphans);
        volume.finish()?;
        Ok(volume)
    }

    fn with(backing: Backing, superblock: Superblock, options: &OpenOptions) -> Result<Volume> {
        let bytes = superblock.volume_bytes;
        let room = bytes.saturating_mul(GROWTH).min(MAX_VOLUME).min(1 << 45).max(bytes);
        let cache = options.cache.unwrap_or_else(default_cache);
        let store =
            Store::new(backing, bytes, room, cache, &superblock.uuid, superblock.inode_size).map_err(
                |source| Error::Io { what: format!("reserving {bytes} bytes of address space"), source },
            )?;
        let volume = Volume { shared: Shared::new(store, superblock, options) };
        volume.read_ahead();
        Ok(volume)
    }

    /// Opens a volume in a file or on a raw device.
    ///
    /// # Errors
    /// [`Error::Image`] saying what is wrong: not a LaneFS volume, a newer version, cut off, in use; the host's errors.
    pub fn open(image: impl AsRef<Path>, options: impl Into<OpenOptions>) -> Result<Volume> {
        let options = options.into();
        let name = image.as_ref().display().to_string();
        let open = |access: Access| {
            let file = FileOptions { write: access != Access::Read, ..options.file.clone() };
            let device = FileDevice::open_with(image.as_ref(), &file).map_err(|e| open_error(&name, e))?;
            Self::open_device_named(Box::new(device), &OpenOptions { access, ..options.clone() }, &name)
        };
        let volume = open(options.access);
        if options.access != Access::Read || volume.as_ref().is_ok_and(|volume| volume.superblock().clean) {
            return volume;
        }
        // After a crash the journal must be applied once, which only a writer can; where it has nothing, that is well.
        drop(volume);
        let _ = open(Access::Write);
        open(Access::Read)
    }

    /// Opens a volume on any device.
    ///
    /// # Errors
    /// As [`open`](Self::open).
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
        let image = |why: String| Error::Image { what: name.into(), why };
        let access = options.access;
        let (superblock, torn) = read_superblock(device.as_ref())?.map_err(|e| image(explain(e)))?;
        if device.len() < superblock.volume_bytes {
            return Err(image(format!(
                "the volume has {} bytes but the image only {}; it was cut off",
                superblock.volume_bytes,
                device.len()
            )));
        }
        let (clean, journal) = (superblock.clean, (superblock.journal, superblock.journal_blocks));
        let volume = Self::with(Backing::Device(device), superblock, options)?;
        let store = &volume.shared.store;
        // A closed volume has nothing in its journal; one that was not may, and recovery writes.
        if journal.1 > 0 && (access != Access::Read || !clean) {
            let mut used = store.use_journal(journal.0, journal.1, false);
            let unreadable = matches!(used, Err(Fault::Damaged { .. } | Fault::Io { doing: "reading", .. }));
            if access == Access::Repair && unreadable {
                used = store.use_journal(journal.0, journal.1, true);
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
            volume.shared.set_counts(free_blocks, inodes);
        }
        if access == Access::Write {
            volume.free_orphans();
        }
        Ok(volume)
    }

    /// Has threads read ahead of those who read in order.
    fn read_ahead(&self) {
        let me = Arc::downgrade(&self.shared);
        self.shared.store.read_ahead_by(move || {
            let (helper, runs) = std::sync::mpsc::channel();
            let runs = Arc::new(Mutex::new(runs));
            for _ in 0..READERS_AHEAD {
                let runs = Arc::clone(&runs);
                if let Some(shared) = me.upgrade() {
                    shared.help("lanefs-readahead", move |shared| {
                        loop {
                            let run = runs.lock().recv();
                            let Ok(run) = run else { break };
                            shared.store.read_ahead(run);
                        }
                    });
                }
            }
            helper
        });
    }

    /// The volume's bytes, with everything that was changed.
    ///
    /// # Errors
    /// The device's.
    pub fn to_bytes(&self) -> Result<Vec<u8>> {
        let shared = &self.shared;
        let _turn = shared.turn();
        let mut closed = shared.gate.close_to_change(&shared.store);
        shared.commit_alone(shared.recall(&mut closed)?)?;
        shared.store.checkpoint()?;
        Ok(shared.store.image()?)
    }

    /// Runs a read-only operation; blocks that it misses are fetched and it runs again.
    #[inline(always)]
    pub(crate) fn view<T>(&self, operation: impl FnMut(&Core<'_>) -> Outcome<T>) -> Result<T> {
        self.shared.view(operation)
    }

    /// Runs a change as one transaction: all of it happens, or, when it fails, nothing.
    pub(crate) fn change<T>(&self, operation: impl FnMut(&mut Edit<'_>) -> Outcome<T>) -> Result<T> {
        self.shared.change(operation)
    }

    /// Everything changed so far is durable on return. Operations of other threads go on meanwhile, and threads that ask at the
    /// same time share one commit.
    ///
    /// # Errors
    /// The device's; the volume is then open for reading only.
    pub fn sync(&self) -> Result<()> {
        self.shared.commit()
    }

    /// What was written to a file, or changed in a directory, so far is durable on return, and the way to it. `data_only`:
    /// times need not be (`fdatasync`).
    ///
    /// What was changed elsewhere before becomes durable too, for commits are one after the other.
    ///
    /// # Errors
    /// [`Code::StaleInode`](crate::Code::StaleInode) when the inode is not in use; the device's, whereupon the volume is open
    /// for reading only.
    pub fn fsync(&self, ino: Ino, data_only: bool) -> Result<()> {
        // Times alone are not worth telling apart: a commit with one block more costs the same.
        let _ = data_only;
        self.getattr(ino)?;
        self.shared.commit()
    }

    /// Makes everything durable and marks the volume as closed.
    ///
    /// # Errors
    /// The device's.
    pub fn close(self) -> Result<()> {
        self.finish()
    }

    fn finish(&self) -> Result<()> {
        let shared = &self.shared;
        if shared.store.has_failed() {
            // The device keeps the last commit, which the next open finds.
            return Err(Error::Io {
                what: "a write failed, and what was changed since the last sync is lost".into(),
                source: std::io::Error::other("the volume is as it was then"),
            });
        }
        if shared.marked.load(Ordering::Acquire) {
            // The volume goes, and all who held something with it.
            shared.holds.clear();
            self.free_orphans();
            shared.commit()?;
            let _turn = shared.turn();
            shared.store.checkpoint()?;
            self.write_superblock(true)?;
            shared.marked.store(false, Ordering::Release);
        }
        Ok(())
    }

    /// The root directory lies there from now on.
    pub(crate) fn set_root(&self, root: u64) {
        self.shared.superblock.lock().root = root;
        self.shared.set_root(root);
    }

    /// The orphan directory lies there from now on.
    pub(crate) fn set_orphans(&self, orphans: u64) {
        self.shared.superblock.lock().orphans = orphans;
        self.shared.set_orphans(orphans);
    }

    fn write_superblock(&self, clean: bool) -> Result<()> {
        let counts = self.shared.counts();
        let mut superblock = self.shared.superblock.lock();
        superblock.free_blocks = counts.free_blocks.max(0) as u64;
        superblock.inodes = counts.inodes.max(0) as u64;
        self.shared.write_superblock(&mut superblock, clean)
    }

    /// Changes the superblock and writes it.
    pub(crate) fn update_superblock(&self, change: impl FnOnce(&mut Superblock)) -> Result<()> {
        change(&mut self.shared.superblock.lock());
        self.write_superblock(false)
    }

    /// What is known of the volume as a whole.
    pub fn superblock(&self) -> Superblock {
        let counts = self.shared.counts();
        let mut superblock = self.shared.superblock.lock().clone();
        superblock.free_blocks = counts.free_blocks.max(0) as u64;
        superblock.inodes = counts.inodes.max(0) as u64;
        superblock
    }

    /// What the volume was opened for.
    pub fn access(&self) -> Access {
        self.shared.access
    }

    /// How the device is reached, in words for people, such as "io_uring, direct I/O".
    pub fn engine(&self) -> String {
        self.shared.store.engine()
    }

    /// The root directory.
    pub fn root(&self) -> Ino {
        Ino(self.shared.root())
    }

    /// Space and inodes.
    ///
    /// # Errors
    /// None today; a volume that is not wholly in memory may have to read.
    pub fn statfs(&self) -> Result<StatFs> {
        let counts = self.shared.counts();
        let store = &self.shared.store;
        let free = counts.free_blocks.saturating_add(counts.deferred).max(0) as u64;
        let inodes_per_chunk = (CHUNK / BLOCK - 2) * (BLOCK / store.inode_size().bytes());
        Ok(StatFs {
            block_size: BLOCK,
            blocks: store.bytes() / BLOCK,
            free_blocks: free,
            inodes: counts.inodes.max(0) as u64,
            free_inodes: free / (CHUNK / BLOCK) * inodes_per_chunk,
            max_name: MAX_NAME as u32,
        })
    }

    /// What the cache and the journal did since the volume was opened.
    pub fn stats(&self) -> Stats {
        self.shared.store.stats()
    }

    /// Lets go of all blocks in memory that are as they are on the device, for measurements that begin with a cold cache. Returns
    /// how many went.
    ///
    /// # Errors
    /// The device's, for what was changed is made durable first.
    pub fn drop_caches(&self) -> Result<u64> {
        self.shared.commit()?;
        Ok(self.shared.store.drop_clean())
    }
}

impl Drop for Volume {
    fn drop(&mut self) {
        // A failed close leaves the volume marked as open, which the next opener sees.
        let _ = self.finish();
        self.shared.dismiss();
    }
}

/// The better of the two copies, and whether both are good but a crash came between their writing.
fn read_superblock(device: &dyn Device) -> Result<std::result::Result<(Superblock, bool), NotASuperblock>> {
    // A file that ends before a copy has none; any other error is the device's.
    let read = |at: u64| {
        let mut block = vec![0; BLOCK as usize];
        match device.read_slice(at, &mut block) {
            Ok(()) => Ok(Superblock::decode(&block)),
            Err(e) if e.kind() == std::io::ErrorKind::UnexpectedEof => Ok(Err(NotASuperblock::Magic)),
            Err(source) => Err(Error::Io { what: format!("reading the volume at byte {at}"), source }),
        }
    };
    let both = match (read(0), read(SUPERBLOCK_COPY)) {
        (Ok(a), Ok(b)) => (a, b),
        // One good copy is enough.
        (Ok(Ok(one)), Err(_)) | (Err(_), Ok(Ok(one))) => return Ok(Ok((one, false))),
        (Err(e), _) | (_, Err(e)) => return Err(e),
    };
    Ok(match both {
        (Ok(a), Ok(b)) => {
            let newer = b.sequence > a.sequence && a.uuid == b.uuid;
            // The first copy is written first, so only it may be ahead.
            let torn = a.sequence > b.sequence && a.uuid == b.uuid;
            Ok((if newer { b } else { a }, torn))
        }
        (Ok(one), Err(_)) | (Err(_), Ok(one)) => Ok((one, false)),
        (Err(NotASuperblock::Magic), Err(why)) | (Err(why), Err(_)) => Err(why),
    })
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
            Fault::Miss { at, want: Want::Block(kind) } => Error::wrong_kind(at, kind),
            Fault::Miss { at, .. } => Error::Damaged { at, why: "no file data there".into() },
            // A run that was alone met a writer: its own notes were wrong.
            Fault::Conflict { .. } | Fault::Crowd => Error::Code(lanefs_format::Code::InvariantViolated),
            Fault::Io { at, doing, errno } => Error::Io {
                what: format!("{doing} the volume at byte {at}"),
                source: std::io::Error::from_raw_os_error(errno),
            },
        }
    }
}
