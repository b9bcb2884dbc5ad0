//! A volume whose metadata a device has: the mirror and the cache, their lock, and the failure of the device.

use super::batch::PathBatch;
use super::batch_pool::BatchPool;
use super::packing::Packers;
use crate::error::{Error, Result};
use crate::kernels::Kernels;
use crate::kernels::context::DeviceContext;
use crate::resident::cache::DirectoryCache;
use crate::resident::dir_table::DirectoryTable;
use crate::resident::mirror::Mirror;
use crate::resident::tables::MirrorTables;
use crate::shared::limits::{MAX_DISPATCHES, MAX_GROUPS};
use crate::shared::query::LookupQuery;
use crate::vulkan::{Device, DeviceKind};
use lanefs::format::{FileKind, HashSeed, InodeSize};
use lanefs::{ResolveOptions, Volume, Watch};
use lanefs_sync::lock::{Mutex, MutexGuard};
use std::sync::Arc;
#[cfg(any(test, feature = "_testing"))]
use std::sync::atomic::{AtomicBool, Ordering};

/// The most bytes of all batches, and their part of a device's memory.
const BATCH_BYTES: u64 = 1 << 30;
const BATCH_PART: u64 = 16;

/// How much of a device's memory a volume gets.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MirrorOptions {
    /// Bytes of the mirror at most; `None`: three quarters of the device's memory, or a quarter where that
    /// is the host's, and in both cases no more than three quarters of what other programs leave.
    pub room: Option<u64>,
    /// The directory cache's part of the device's memory, 0 for none; at most an eighth of what other
    /// programs leave. The directory-path table has as much at most, and no more than the volume's own
    /// ([`OpenOptions::directory_table`](lanefs::OpenOptions::directory_table)).
    pub cache: f64,
    /// Bytes of the buffers of all batches of all callers at most, which stay for the next ones; one batch
    /// may have more. Where the host does not share the device's memory, input and output have as many bytes
    /// of pinned memory beside them. `None`: a sixteenth of the device's memory, and 1 GiB at most.
    pub batches: Option<u64>,
}

impl Default for MirrorOptions {
    fn default() -> Self {
        MirrorOptions { room: None, cache: 0.0625, batches: None }
    }
}

/// A volume whose metadata a device has. Any number of threads may use it.
pub struct Mirrored<'v> {
    context: DeviceContext,
    volume: &'v Volume,
    /// Of the volume, which never change. A copy of the superblock adds up counters.
    seed: HashSeed,
    inode_size: InodeSize,
    cache: DirectoryCache,
    state: Mutex<EngineState<'v>>,
    /// Buffers of batches.
    pool: Arc<BatchPool>,
    packers: Packers,
    /// Names go to the device as such also where whole paths would be faster.
    #[cfg(any(test, feature = "_testing"))]
    names_always: AtomicBool,
}

/// The part of a [`Mirrored`] that one thread uses at a time.
pub(crate) struct EngineState<'v> {
    watch: Watch<'v>,
    mirror: Mirror,
    pool: Arc<BatchPool>,
    /// Why the device is not used any more.
    failure: Option<Error>,
}

impl<'v> Mirrored<'v> {
    /// Makes an empty mirror, and an empty cache.
    ///
    /// # Errors
    /// The device's, the volume's; [`Error::Busy`] where another engine mirrors the volume already.
    pub(crate) fn new(
        context: &DeviceContext,
        volume: &'v Volume,
        options: &MirrorOptions,
    ) -> Result<Mirrored<'v>> {
        let info = &context.device.info;
        let quarters = if info.kind == DeviceKind::Discrete { 3 } else { 1 };
        // The driver gives an estimate, and other programs take memory as well.
        let free = context.device.free_memory();
        let room = options.room.unwrap_or((info.memory / 4 * quarters).min(free / 4 * 3));
        let watch = volume.watch()?.ok_or(Error::Busy)?;
        let for_cache = ((info.memory as f64 * options.cache.clamp(0.0, 1.0)) as u64).min(free / 8);
        let for_table = for_cache.min(volume.directory_table().limit);
        let inodes = volume.statfs()?.inodes;
        let directories = DirectoryTable::new(&context.device, inodes, for_table)?;
        let superblock = volume.superblock();
        let mirror = Mirror::new(&context.device, superblock.volume_bytes, room, directories)?;
        let cache = DirectoryCache::new(&context.device, inodes, for_cache)?;
        let batches = options.batches.unwrap_or((info.memory / BATCH_PART).min(BATCH_BYTES));
        let pool = Arc::new(BatchPool::new(batches));
        let state = Mutex::new(EngineState { watch, mirror, pool: pool.clone(), failure: None });
        let packers = Packers::new();
        Ok(Mirrored {
            context: context.clone(),
            volume,
            seed: superblock.seed,
            inode_size: superblock.inode_size,
            cache,
            state,
            pool,
            packers,
            #[cfg(any(test, feature = "_testing"))]
            names_always: AtomicBool::new(false),
        })
    }

    /// Returns the bytes of the directory cache.
    pub fn cache_bytes(&self) -> u64 {
        self.cache.bytes()
    }

    /// Returns the bytes of the directory-path table in the device's memory.
    pub fn directory_table_bytes(&self) -> u64 {
        self.state().mirror.directories.bytes()
    }

    /// Tells whether the device is not used any more.
    pub(crate) fn has_failed(&self) -> bool {
        self.state().failure.is_some()
    }

    /// Returns in words why the device is not used any more; `None` while it is.
    pub fn failure(&self) -> Option<String> {
        self.state().failure.as_ref().map(ToString::to_string)
    }

    /// Returns the volume.
    pub fn volume(&self) -> &'v Volume {
        self.volume
    }

    pub(crate) fn context(&self) -> &DeviceContext {
        &self.context
    }

    pub(crate) fn pool(&self) -> &BatchPool {
        &self.pool
    }

    pub(crate) fn packers(&self) -> &Packers {
        &self.packers
    }

    pub(crate) fn device(&self) -> &Arc<Device> {
        &self.context.device
    }

    pub(crate) fn kernels(&self) -> &Kernels {
        &self.context.kernels
    }

    pub(crate) fn cache(&self) -> &DirectoryCache {
        &self.cache
    }

    /// Locks the state.
    pub(crate) fn state(&self) -> MutexGuard<'_, EngineState<'v>> {
        self.state.lock()
    }

    /// Refreshes the mirror and works with it while no other thread can change it. Returns the outcome and
    /// the blocks copied; `None` where the device failed, now or before.
    pub(crate) fn on_device<T>(&self, work: impl FnOnce(&Mirror) -> Result<T>) -> Option<(T, u64)> {
        self.state().attempt(|mirror, watch| {
            let before = mirror.generation();
            refresh(mirror, watch)?;
            let done = work(mirror)?;
            Ok((done, mirror.generation() - before))
        })
    }

    /// Refreshes the mirror and works with it, also on a device that has failed.
    ///
    /// # Errors
    /// An error of the device.
    pub(crate) fn with_mirror<T>(&self, work: impl FnOnce(&Mirror) -> Result<T>) -> Result<T> {
        let mut state = self.state();
        let EngineState { mirror, watch, .. } = &mut *state;
        refresh(mirror, watch)?;
        work(mirror)
    }

    /// Returns the moves of directories by the last refresh of the mirror.
    pub(crate) fn moves(&self) -> u64 {
        self.state().mirror.directories.moves()
    }

    /// From now on names under directories go to the device as such, also where whole paths would be faster.
    #[cfg(any(test, feature = "_testing"))]
    pub fn prefer_names(&self) {
        self.names_always.store(true, Ordering::Relaxed);
    }

    #[cfg(any(test, feature = "_testing"))]
    pub(crate) fn prefers_names(&self) -> bool {
        self.names_always.load(Ordering::Relaxed)
    }

    #[cfg(not(any(test, feature = "_testing")))]
    pub(crate) const fn prefers_names(&self) -> bool {
        false
    }

    /// Plants a bug: the directory-path table forgets nothing when directories move.
    #[cfg(any(test, feature = "_testing"))]
    pub fn ignore_moves(&self) {
        self.state().mirror.directories.ignore_moves();
    }

    /// Records that the device failed: the host answers from now on. A want of memory costs one batch only,
    /// and the batches that nobody has.
    pub(crate) fn fail(&self, error: Error) {
        if error.is_short_of_memory() {
            self.pool.free_spares();
        } else {
            self.state().failure.get_or_insert(error);
        }
    }

    /// Waits for submission `number` of a batch, and resumes the lookups that one dispatch did not finish
    /// while the mirror has the generation at which they began: none must see half of an older volume and
    /// half of a newer one. On return no submission of the batch is on the device.
    pub(crate) fn finish(
        &self,
        batch: &mut PathBatch,
        mut number: u64,
        query: &LookupQuery,
        mirror_generation: u64,
    ) -> Result<()> {
        for _ in 1..MAX_DISPATCHES {
            self.device().wait(number)?;
            if !batch.is_unfinished() {
                break;
            }
            let Some(next) = self.resume(batch, query, mirror_generation)? else { break };
            debug_assert!(next > number, "submissions are numbered in order");
            number = next;
        }
        self.device().wait(number)
    }

    /// Resumes the unfinished lookups of a batch; returns the submission's number, or `None` where the
    /// mirror has been refreshed since the generation at which they began.
    fn resume(
        &self,
        batch: &mut PathBatch,
        query: &LookupQuery,
        mirror_generation: u64,
    ) -> Result<Option<u64>> {
        let state = self.state();
        debug_assert!(mirror_generation <= state.mirror.generation(), "generations only rise");
        if state.mirror.generation() != mirror_generation {
            return Ok(None);
        }
        batch.submit(&MirrorTables::of(&state.mirror), &self.cache, query, true).map(Some)
    }

    /// Tells whether the device can check the caller's permissions, and knows where relative paths begin.
    pub(crate) fn can_answer(&self, options: &ResolveOptions) -> bool {
        let is_checkable = options.caller.user.as_ref().is_none_or(|user| user.groups.len() <= MAX_GROUPS);
        let is_directory =
            |base| self.volume.getattr(base).is_ok_and(|attr| attr.kind == FileKind::Directory);
        is_checkable && is_directory(self.volume.root()) && options.base.is_none_or(is_directory)
    }

    /// Returns the settings of the kernels for these options.
    pub(crate) fn query(&self, options: &ResolveOptions) -> LookupQuery {
        let root = self.volume.root().0;
        LookupQuery {
            root,
            base: options.base.map_or(root, |ino| ino.0),
            seed: self.seed,
            inode_size: self.inode_size,
            follow: options.follow,
            user: options.caller.user.clone().filter(|user| user.uid != 0),
            fuel: self.context.fuel(),
        }
    }
}

/// Refreshes the mirror. One that missed blocks, for want of memory, is loaded again.
///
/// # Errors
/// An error of the device.
pub(crate) fn refresh(mirror: &mut Mirror, watch: &mut Watch<'_>) -> Result<()> {
    if mirror.needs_reload() {
        mirror.empty()?;
        watch.again();
    }
    mirror.refresh(|take| watch.changes(take))
}

impl<'v> EngineState<'v> {
    /// Works with the device; `None` where it failed, now or before. A shortage of memory costs the batches
    /// that nobody has, for the next work may need less; every other error ends the use of the device.
    pub(crate) fn attempt<T>(
        &mut self,
        work: impl FnOnce(&mut Mirror, &mut Watch<'v>) -> Result<T>,
    ) -> Option<T> {
        if self.failure.is_some() {
            return None;
        }
        match work(&mut self.mirror, &mut self.watch) {
            Ok(done) => return Some(done),
            Err(error) if error.is_short_of_memory() => self.pool.free_spares(),
            Err(error) => self.failure = Some(error),
        }
        None
    }
}
