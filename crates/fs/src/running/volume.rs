//! A mounted volume: its operations, its durability, and its properties as a whole.

use crate::attempt::Core;
use crate::attempt::edit::Edit;
use crate::files::inode::Inode;
use crate::files::write_plan::WritePlan;
use crate::mounted::shared::Shared;
use crate::vocabulary::error::{Error, ErrorKind, Outcome, Result};
use crate::vocabulary::notice::Changed;
use crate::vocabulary::options::Access;
use crate::vocabulary::types::{Ino, StatFs};
use lanefs_format::superblock::Superblock;
use lanefs_format::{BLOCK, CHUNK, MAX_NAME};
use lanefs_store::{FileId, StoreStats};
use lanefs_sync::lock::RwLock;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// An open volume. Every method takes `&self` and may be called from many threads.
///
/// | task | calls |
/// |---|---|
/// | make, open, close | [`create`](Self::create), [`create_memory`](Self::create_memory), [`open`](Self::open), [`open_or_create`](Self::open_or_create), [`close`](Self::close); devices and bytes: [`create_device`](Self::create_device), [`open_device`](Self::open_device), [`from_bytes`](Self::from_bytes), [`to_bytes`](Self::to_bytes) |
/// | whole files, by path | [`read_file`](Self::read_file), [`write_file`](Self::write_file); [`File`](crate::File) for parts of a file |
/// | names and attributes, by path | [`metadata`](Self::metadata), [`exists`](Self::exists), [`read_dir`](Self::read_dir), [`create_dir`](Self::create_dir), [`mkdir_all`](Self::mkdir_all), [`remove_file`](Self::remove_file), [`remove_dir`](Self::remove_dir), [`remove_all`](Self::remove_all), [`rename`](Self::rename), [`hard_link`](Self::hard_link), [`symlink`](Self::symlink), [`read_link`](Self::read_link), [`set_permissions`](Self::set_permissions), [`set_attributes`](Self::set_attributes), [`xattr`](Self::xattr), [`set_xattr`](Self::set_xattr) |
/// | several changes that happen together | [`transaction`](Self::transaction) |
/// | millions of paths and files | [`resolve_batch`](Self::resolve_batch), [`resolve_into`](Self::resolve_into), [`read_files`](Self::read_files), [`view_files`](Self::view_files), [`write_many`](Self::write_many); [`LookupService`](crate::LookupService), [`EpochReader`](crate::EpochReader) |
/// | POSIX, by inode number and for a caller | [`lookup`](Self::lookup), [`getattr`](Self::getattr), [`setattr`](Self::setattr), [`create_file`](Self::create_file), [`mkdir`](Self::mkdir), [`mknod`](Self::mknod), [`symlink_at`](Self::symlink_at), [`link`](Self::link), [`unlink`](Self::unlink), [`rmdir`](Self::rmdir), [`rename_at`](Self::rename_at), [`readdir`](Self::readdir), [`read`](Self::read), [`write`](Self::write), [`append`](Self::append), [`hold`](Self::hold) and [`release`](Self::release) |
/// | durability | [`sync`](Self::sync), [`fsync`](Self::fsync), [`snapshot`](Self::snapshot), [`set_read_only`](Self::set_read_only) |
/// | the volume as a whole | [`statfs`](Self::statfs), [`stats`](Self::stats), [`label`](Self::label), [`uuid`](Self::uuid), [`grow`](Self::grow), [`check`](Self::check), [`scrub`](Self::scrub), [`on_change`](Self::on_change) |
///
/// Changes are durable after [`sync`](Volume::sync), [`fsync`](Volume::fsync) or [`close`](Volume::close),
/// and after some seconds without a call. Dropping a volume closes it, but cannot report an error.
pub struct Volume {
    pub(crate) shared: Arc<Shared>,
    pub(crate) listeners: Listeners,
}

impl std::fmt::Debug for Volume {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (label, bytes) = (self.label(), self.shared.state.store.bytes());
        let access = self.access();
        f.debug_struct("Volume")
            .field("label", &label)
            .field("bytes", &bytes)
            .field("access", &access)
            .finish_non_exhaustive()
    }
}

/// Function that is called after each change.
type Listener = dyn Fn(&Volume, Changed<'_>) + Send + Sync;

type NamedListener = (&'static str, Arc<Listener>);

/// The listeners of a volume, by name.
#[derive(Default)]
pub(crate) struct Listeners {
    is_set: AtomicBool,
    /// Shared, so that a change takes it without a copy.
    list: RwLock<Arc<[NamedListener]>>,
}

/// # Durability, and the volume as a whole
impl Volume {
    /// Returns the bytes of the volume, with all changes. Blocks of zeros take address space only.
    ///
    /// # Errors
    /// The device's; `NoMemory` where the host has no room for so many bytes; [`Error::Image`] for a
    /// [join](Self::is_joined).
    pub fn to_bytes(&self) -> Result<Vec<u8>> {
        self.refuse_join("has no bytes of its own")?;
        let shared = &self.shared;
        let _lock = shared.lock_commits();
        let mut closed = shared.state.gate.close_to_change(&shared.state.store);
        shared.commit_exclusive(shared.recall_prealloc(&mut closed)?)?;
        shared.state.store.checkpoint()?;
        Ok(shared.state.store.image()?)
    }

    /// Returns true where the blocks are those of several volumes, which the device joins: they are relocated
    /// when they are read, and lie nowhere as they are seen.
    pub fn is_joined(&self) -> bool {
        self.shared.state.store.is_joined()
    }

    /// Refuses a use of the bytes as they lie on the device, which are not those of this volume in a join.
    ///
    /// # Errors
    /// [`Error::Image`] for a join.
    pub(crate) fn refuse_join(&self, why: &str) -> Result<()> {
        if !self.is_joined() {
            return Ok(());
        }
        let why = format!("joins other volumes and {why}; do that with each of them");
        Err(Error::Image { kind: ErrorKind::Unsupported, what: "volume".into(), why })
    }

    /// Runs a read-only operation. Missing blocks are fetched, and the operation is attempted again.
    #[inline(always)]
    pub(crate) fn view<T>(&self, operation: impl FnMut(&Core<'_>) -> Outcome<T>) -> Result<T> {
        self.shared.view(operation)
    }

    /// Runs a change as one transaction: all of it happens, or, when it fails, nothing.
    pub(crate) fn change<T>(&self, operation: impl FnMut(&mut Edit<'_>) -> Outcome<T>) -> Result<T> {
        self.shared.change(operation)
    }

    /// Runs a change that also writes file data, as [`change`](Self::change).
    pub(crate) fn change_data<'d, T>(
        &self,
        operation: impl FnMut(&mut Edit<'_>, &mut WritePlan<'d>) -> Outcome<T>,
    ) -> Result<T> {
        self.shared.change_data(operation)
    }

    /// Makes all changes so far durable. Operations of other threads go on meanwhile, and threads that call
    /// it at the same time share one commit.
    ///
    /// # Errors
    /// The device's; the volume is then open for reading only.
    pub fn sync(&self) -> Result<()> {
        self.shared.commit()
    }

    /// Makes the changes so far of a file or directory durable, and the path to it. With `data_only` the
    /// times need not be (`fdatasync`).
    ///
    /// All earlier changes elsewhere become durable too, because commits are in order.
    ///
    /// # Errors
    /// [`Code::StaleInode`](lanefs_format::Code::StaleInode) when the inode is not in use; the device's,
    /// after which the volume is open for reading only.
    pub fn fsync(&self, ino: Ino, data_only: bool) -> Result<()> {
        // The times are not worth a distinction: a commit with one more block costs the same.
        let _ = data_only;
        self.view(|core| Inode::load(core, ino.0).map(drop))?;
        self.shared.commit()
    }

    /// Makes another inode the root directory.
    pub(crate) fn set_root(&self, root: u64) {
        self.shared.superblock.lock().root = root;
        self.shared.state.set_root(root);
    }

    /// Makes another inode the orphan directory.
    pub(crate) fn set_orphans(&self, orphans: u64) {
        self.shared.superblock.lock().orphans = orphans;
        self.shared.state.set_orphans(orphans);
    }

    pub(crate) fn write_superblock(&self, clean: bool) -> Result<()> {
        let totals = self.shared.state.counts.sum().totals();
        let mut superblock = self.shared.superblock.lock();
        (superblock.free_blocks, superblock.inodes) = (totals.free_blocks, totals.inodes);
        self.shared.write_superblock(&mut superblock, clean)
    }

    /// Changes the superblock and writes it.
    pub(crate) fn update_superblock(&self, change: impl FnOnce(&mut Superblock)) -> Result<()> {
        change(&mut self.shared.superblock.lock());
        self.write_superblock(false)
    }

    /// Returns the properties of the volume as a whole.
    pub fn superblock(&self) -> Superblock {
        let totals = self.shared.state.counts.sum().totals();
        let mut superblock = self.shared.superblock.lock().clone();
        (superblock.free_blocks, superblock.inodes) = (totals.free_blocks, totals.inodes);
        superblock
    }

    /// Returns the name for people; empty where it has none. [`set_identity`](Self::set_identity) changes it.
    pub fn label(&self) -> String {
        let label = self.shared.superblock.lock().label;
        let len = label.iter().position(|byte| *byte == 0).unwrap_or(label.len());
        String::from_utf8_lossy(&label[..len]).into_owned()
    }

    /// Returns the identity, a UUID.
    pub fn uuid(&self) -> [u8; 16] {
        self.shared.superblock.lock().uuid
    }

    /// Returns the purpose for which the volume was opened.
    pub fn access(&self) -> Access {
        self.shared.access
    }

    /// Asks `interrupted` from time to time in each thread that waits while another thread reads a block from
    /// the device. Where it returns true, the wait ends, and the operation fails with `EINTR`. Only the first
    /// call counts.
    pub fn interrupt_waits_by(&self, interrupted: impl Fn() -> bool + Send + Sync + 'static) {
        self.shared.state.store.interrupt_waits_by(interrupted);
    }

    /// Bounds the data of files that [`read`](Self::read), [`read_files`](Self::read_files) and
    /// [`read_files_in_parts`](Self::read_files_in_parts) return from now on: to `factor` times the
    /// [bytes that were given](crate::Device::given) for the volume, or 1 GiB. Reads beyond the bound fail
    /// with [`Error::Expansion`](crate::Error::Expansion). 0: no bound, as at first. A block of zeros counts as
    /// 16 bytes.
    ///
    /// The bound is for a program that reads all it finds, and is one for all threads. The server of a mount
    /// reads what it is asked for, again and again, and needs none.
    pub fn bound_expansion(&self, factor: u64) {
        self.shared.expansion.begin(factor);
    }

    /// Counts data that a read is about to return.
    ///
    /// # Errors
    /// [`Error::Expansion`](crate::Error::Expansion).
    pub(crate) fn check_expansion(&self, data: &[u8]) -> Result<()> {
        self.shared.expansion.add(data, || self.shared.state.store.given())
    }

    /// Returns the damage of the journal for people, where the volume is open without one: for reading or for
    /// repair. Changes that only the journal has are missing then.
    pub fn journal_damage(&self) -> Option<String> {
        self.shared.journal_damage.lock().as_ref().map(|damage| damage.text.clone())
    }

    /// True where every change fails with [`Code::ReadOnly`](lanefs_format::Code::ReadOnly).
    pub fn is_read_only(&self) -> bool {
        self.shared.access == Access::Read || self.shared.frozen.load(Ordering::Acquire)
    }

    /// Returns the error of each change since a write to the device failed, with the reason of that failure;
    /// `None` while none has.
    pub fn write_failure(&self) -> Option<Error> {
        self.shared.state.store.failure().map(Error::write_failed)
    }

    /// Has `listener` learn of the first write to the device that fails, with the error that each later
    /// change gets. It is called at once, in the thread that meets the failure, which may be one of the
    /// volume's own. Only the first call counts.
    pub fn on_write_failure(&self, listener: impl Fn(&Error) + Send + Sync + 'static) {
        self.shared.state.store.listen_to_failure(move |fault| listener(&Error::write_failed(fault)));
    }

    /// Describes the access to the device for people, such as "io_uring, direct I/O".
    pub fn engine(&self) -> String {
        self.shared.state.store.engine()
    }

    /// Returns the file or raw device that this process has open as the volume; `None` for any other volume.
    pub fn file_id(&self) -> Option<FileId> {
        self.shared.state.store.file_id()
    }

    /// Shows a number of up to 56 bits to processes that find the file of the volume in use
    /// ([`ImageUse`](crate::ImageUse)), instead of the one before; `None` shows none. It ends with the volume.
    pub fn show_mark(&self, mark: Option<u64>) {
        self.shared.state.store.show_mark(mark);
    }

    /// Returns the root directory.
    pub fn root(&self) -> Ino {
        Ino(self.shared.state.root())
    }

    /// Returns free and used space and inodes.
    ///
    /// # Errors
    /// None today; a volume that is not wholly in memory may have to read.
    pub fn statfs(&self) -> Result<StatFs> {
        let counts = self.shared.state.counts.sum();
        let store = &self.shared.state.store;
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

    /// Returns the counters of the cache and the journal since the volume was opened.
    pub fn stats(&self) -> StoreStats {
        self.shared.state.store.stats()
    }

    /// Sets the program's listener: it is called after each change that succeeds, in the thread of the
    /// change, which waits meanwhile. False where there is one already.
    ///
    /// Without a listener a change costs one read of a word.
    pub fn on_change(&self, tell: impl Fn(&Volume, Changed<'_>) + Send + Sync + 'static) -> bool {
        self.on_change_as("", tell)
    }

    /// Sets a listener beside those of other names, as a mount does. False where there is one of this name.
    pub fn on_change_as(
        &self,
        name: &'static str,
        tell: impl Fn(&Volume, Changed<'_>) + Send + Sync + 'static,
    ) -> bool {
        let mut list = self.listeners.list.write();
        if list.iter().any(|(taken, _)| *taken == name) {
            return false;
        }
        let added: NamedListener = (name, Arc::new(tell));
        *list = list.iter().cloned().chain([added]).collect();
        self.listeners.is_set.store(true, Ordering::Release);
        true
    }

    /// Removes the listener of a name; that of [`on_change`](Self::on_change) has an empty one. Threads that
    /// call it at that moment end their call later.
    pub fn forget_listener(&self, name: &str) {
        let mut list = self.listeners.list.write();
        *list = list.iter().filter(|(other, _)| *other != name).cloned().collect();
        self.listeners.is_set.store(!list.is_empty(), Ordering::Release);
    }

    pub(crate) fn has_listener(&self) -> bool {
        self.listeners.is_set.load(Ordering::Acquire)
    }

    pub(crate) fn notify(&self, changes: &[Changed<'_>]) {
        if !self.has_listener() {
            return;
        }
        // A listener may call the volume, so it is not called under the lock.
        let list = self.listeners.list.read().clone();
        for (_, tell) in list.iter() {
            changes.iter().for_each(|change| tell(self, *change));
        }
    }
}
