//! The engine: batches of paths, resolved on a device.

use crate::batch::{Batch, PARAMETERS, Shape, Tables, room_of};
use crate::cache::DirectoryCache;
use crate::error::{Error, Result};
use crate::kernels::Kernels;
use crate::layout::{COMPONENT_FUEL, MAX_GROUPS};
use crate::mirror::Mirror;
use crate::pending::{Begun, Pending};
use crate::probe::{self, Probed};
use crate::structures::Parameters;
use crate::twin::lookup::Question;
use crate::vulkan::{Buffer, Choice, Commands, Device, DeviceInfo, DeviceKind, Place};
use lanefs::format::{BLOCK, FileKind};
use lanefs::{Resolution, ResolveOptions, Volume, Watch};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Invocations of a workgroup, without other wishes.
pub(crate) const WORKGROUP: u32 = 64;

/// Paths of one submission at most, and bytes of their text.
const PATHS: usize = 1 << 18;
const TEXT: u64 = 32 << 20;

/// Submissions of one call that are on their way at a time: one that the device works on, one that waits, one that is prepared.
const IN_FLIGHT: usize = 3;

/// Batches whose buffers are kept, and bytes of all of them.
const KEPT: usize = 8;
const KEPT_BYTES: u64 = 512 << 20;

/// Rounds of loops of an invocation; of llvmpipe, which ends all loops of the invocations of a vector after 65,535 of them, so few that
/// those of 16 together stay below.
pub(crate) const FUEL: u32 = 1 << 20;
const FUEL_SOFTWARE: u32 = 4000;
const _: () = assert!(FUEL_SOFTWARE * 16 < 65_535 && FUEL_SOFTWARE > 2 * COMPONENT_FUEL);

/// Blocks of a volume that one dispatch of `warm` looks at.
const WARMED: u64 = 1 << 22;

/// A device that is ready to work: its kernels were made, and gave the right answers to known questions.
pub struct Gpu {
    device: Arc<Device>,
    kernels: Kernels,
    /// How long each kernel's probe took.
    probes: Vec<Probed>,
}

/// How a device is opened. Only tests want anything else than the default.
#[derive(Clone, Debug, Default)]
pub struct GpuOptions<'c> {
    /// Which device.
    pub device: Choice,
    /// Invocations of a workgroup.
    pub workgroup: Option<u32>,
    /// Buffers get words around them that nobody may touch; who drops one that was touched panics.
    pub guards: bool,
    /// The device's memory is taken for one that the host does not see, as that of a device with memory of its own.
    pub own_memory: bool,
    /// The code of a kernel, by name, instead of its own: one with a fault must not pass its probe.
    pub replaced: Option<(&'c str, &'c [u8])>,
    /// The device is used without having been probed: so that others than the probe can find that fault.
    pub unprobed: bool,
}

/// How much of a device's memory a volume gets.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MirrorOptions {
    /// Bytes of the mirror at most; `None`: three quarters of the device's memory, or, where it is the host's, a quarter.
    pub room: Option<u64>,
    /// The directory cache's part of the device's memory, 0 for none.
    pub cache: f64,
}

impl Default for MirrorOptions {
    fn default() -> Self {
        MirrorOptions { room: None, cache: 0.0625 }
    }
}

impl Gpu {
    /// Opens a device and probes its kernels.
    ///
    /// # Errors
    /// No Vulkan, no such device; [`Error::Wrong`] where a kernel answers wrongly on it.
    pub fn open(choice: &Choice) -> Result<Gpu> {
        Self::open_with(&GpuOptions { device: choice.clone(), ..GpuOptions::default() })
    }

    /// As [`open`](Self::open), in another way.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn open_with(options: &GpuOptions<'_>) -> Result<Gpu> {
        let device = Device::open(&options.device, options.guards, options.own_memory)?;
        let kernels = Kernels::new(&device, options.workgroup.unwrap_or(WORKGROUP), options.replaced)?;
        let mut gpu = Gpu { device, kernels, probes: Vec::new() };
        if !options.unprobed {
            gpu.probes = probe::all(&gpu)?;
        }
        Ok(gpu)
    }

    /// The device.
    pub fn info(&self) -> &DeviceInfo {
        &self.device.info
    }

    /// Kernels, and how long their probes took.
    pub fn probes(&self) -> &[Probed] {
        &self.probes
    }

    /// A mirror of a volume's metadata, and a directory cache.
    ///
    /// # Errors
    /// The device's, the volume's; [`Error::Volume`] where another engine mirrors the volume already.
    pub fn mirror<'v>(&self, volume: &'v Volume, options: &MirrorOptions) -> Result<Mirrored<'_, 'v>> {
        let memory = self.info().memory;
        let part = if self.info().kind == DeviceKind::Discrete { 3 } else { 1 };
        let room = options.room.unwrap_or(memory / 4 * part);
        let watch = volume.watch()?.ok_or_else(|| lanefs::Error::Image {
            what: "volume".into(),
            why: "mirrored by another engine already".into(),
        })?;
        let mirror = Mirror::new(&self.device, volume.superblock().volume_bytes, room)?;
        let room = (memory as f64 * options.cache.clamp(0.0, 1.0)) as u64;
        let cache = DirectoryCache::new(&self.device, volume.statfs()?.inodes, room)?;
        let state = Mutex::new(State { watch, mirror, kept: Vec::new(), failure: None });
        Ok(Mirrored { gpu: self, volume, cache, state })
    }

    pub(crate) fn kernels(&self) -> &Kernels {
        &self.kernels
    }

    pub(crate) fn fuel(&self) -> u32 {
        if self.info().kind == DeviceKind::Software { FUEL_SOFTWARE } else { FUEL }
    }
}

/// A volume whose metadata a device has. Any number of threads may ask it.
pub struct Mirrored<'g, 'v> {
    gpu: &'g Gpu,
    volume: &'v Volume,
    cache: DirectoryCache,
    state: Mutex<State<'v>>,
}

pub(crate) struct State<'v> {
    pub(crate) watch: Watch<'v>,
    pub(crate) mirror: Mirror,
    /// Batches that are over, for the next ones of their shape.
    kept: Vec<Batch>,
    /// Why the device is not asked any more.
    failure: Option<Error>,
}

/// What happened to a batch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Paths answered by the device.
    pub by_device: u64,
    /// Paths left to the host: links whose targets are long, blocks that are not in the device's memory.
    pub by_host: u64,
    /// Blocks copied to the device before it.
    pub copied: u64,
}

impl<'g, 'v> Mirrored<'g, 'v> {
    /// Resolves paths, as [`Volume::resolve_batch`] does and with the same answers; many of them in several submissions, of which the
    /// device has the next ones while it works on one. Where the device fails, the CPU engine goes on ([`failure`](Self::failure)).
    ///
    /// # Errors
    /// The volume's.
    pub fn resolve_batch<P: AsRef<[u8]> + Sync>(
        &self,
        options: &ResolveOptions,
        paths: &[P],
    ) -> lanefs::Result<(Vec<Resolution>, Report)> {
        let mut rest = paths;
        let (mut pending, mut sum) = (VecDeque::new(), Report::default());
        let mut answers = Vec::new();
        loop {
            while !rest.is_empty() && pending.len() < IN_FLIGHT {
                let (now, later) = rest.split_at(next_batch(rest));
                rest = later;
                pending.push_back(self.submit(options, now));
            }
            let Some(first) = pending.pop_front() else { return Ok((answers, sum)) };
            let (some, report) = first.wait()?;
            if answers.is_empty() {
                answers = some;
                answers.reserve(paths.len() - answers.len());
            } else {
                answers.extend(some);
            }
            sum.by_device += report.by_device;
            sum.by_host += report.by_host;
            sum.copied += report.copied;
        }
    }

    /// Has the device resolve paths, as they are at this moment: about a quarter of a million at most, more are for
    /// [`resolve_batch`](Self::resolve_batch). Nothing is waited for but, where much of the volume changed, the copying of it.
    pub fn submit<'m, 'p, P: AsRef<[u8]> + Sync>(
        &'m self,
        options: &ResolveOptions,
        paths: &'p [P],
    ) -> Pending<'m, 'g, 'v, 'p, P> {
        let question = self.question(options);
        let mut begun = Begun::default();
        if self.can_answer(options) && next_batch(paths) == paths.len() {
            let mut state = self.state();
            if state.failure.is_none() {
                match state.begin(self, &question, Shape::of(paths, options.attributes), paths) {
                    Ok(work) => begun = work,
                    // What one batch has no memory for, another one may have.
                    Err(error) if error.is_short_of_memory() => state.kept.clear(),
                    Err(error) => state.failure = Some(error),
                }
            }
        }
        Pending::new(self, options, paths, question, begun)
    }

    /// Fills the directory cache with all entries, as far as they fit.
    ///
    /// # Errors
    /// The device's.
    pub fn warm(&self) -> Result<()> {
        if self.cache.buckets().1 == 0 {
            return Ok(());
        }
        let mut state = self.state();
        let State { mirror, watch, .. } = &mut *state;
        mirror.refresh(|take| watch.changes(take))?;
        let device = self.device();
        let mut told = Buffer::new(device, PARAMETERS, Place::Upload)?;
        let mut work = Commands::new(device)?;
        let blocks = self.volume.superblock().volume_bytes / BLOCK;
        for from in (0..blocks).step_by(WARMED as usize) {
            let question = Question { base: from * BLOCK, ..self.question(&ResolveOptions::default()) };
            let count = (blocks - from).min(WARMED) as u32;
            let parameters = Parameters { count, ..Tables::of(mirror).parameters(&question, &self.cache) };
            work.wait()?;
            parameters.write(told.bytes_mut().unwrap_or(&mut []));
            work.record(|commands| {
                commands.run(&self.gpu.kernels.warm, told.address, parameters.count.into());
            })?;
            work.submit()?;
        }
        work.wait()
    }

    /// Is it worth to [`warm`](Self::warm) before the first batch, of so many paths? What lookups note is in the cache for the next
    /// submission, so only those of the first one gain. Measured on llvmpipe, warming costs 3.7 µs an entry and a path of five
    /// components gains 1.4 µs: it pays from some three paths for each entry of the volume on.
    pub fn is_worth_warming(&self, paths: usize) -> bool {
        const PATHS_FOR_EACH: u64 = 3;
        let first = paths.min(PATHS) as u64;
        self.volume.statfs().is_ok_and(|volume| first >= PATHS_FOR_EACH.saturating_mul(volume.inodes))
    }

    /// Bytes of the directory cache.
    pub fn cache_bytes(&self) -> u64 {
        self.cache.bytes()
    }

    /// Why the device is not asked any more, in words; `None` while it is.
    pub fn failure(&self) -> Option<String> {
        self.state().failure.as_ref().map(ToString::to_string)
    }

    /// The volume.
    pub fn volume(&self) -> &'v Volume {
        self.volume
    }

    pub(crate) fn device(&self) -> &Arc<Device> {
        &self.gpu.device
    }

    pub(crate) fn gpu(&self) -> &'g Gpu {
        self.gpu
    }

    pub(crate) fn cache(&self) -> &DirectoryCache {
        &self.cache
    }

    /// Has the device do something with the mirror, brought up to the present; `None` where it failed, now or before. Nobody changes the
    /// mirror meanwhile. With it, how many blocks were copied.
    pub(crate) fn on_device<T>(&self, work: impl FnOnce(&Mirror) -> Result<T>) -> Option<(T, u64)> {
        self.state().attempt(|mirror, watch| {
            let before = mirror.copied;
            mirror.refresh(|take| watch.changes(take))?;
            let done = work(mirror)?;
            Ok((done, mirror.copied - before))
        })
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State<'v>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The mirror, brought up to the present.
    pub(crate) fn with_mirror<T>(&self, work: impl FnOnce(&Mirror) -> Result<T>) -> Result<T> {
        let mut state = self.state();
        let State { mirror, watch, .. } = &mut *state;
        mirror.refresh(|take| watch.changes(take))?;
        work(mirror)
    }

    /// The device failed: the host answers from now on.
    pub(crate) fn fail(&self, error: Error) {
        self.state().failure.get_or_insert(error);
    }

    /// Keeps the buffers of a batch that is over for the next one.
    pub(crate) fn keep(&self, batch: Batch) {
        let mut state = self.state();
        state.kept.push(batch);
        while state.kept.len() > KEPT
            || state.kept.iter().map(|batch| batch.shape().bytes()).sum::<u64>() > KEPT_BYTES
        {
            state.kept.remove(0);
        }
    }

    /// Has the device go on with the lookups of a batch that are unfinished.
    /// `None` where the mirror has moved on from the moment when they began.
    pub(crate) fn go_on(&self, batch: &mut Batch, question: &Question, moment: u64) -> Result<Option<u64>> {
        let state = self.state();
        if state.mirror.copied != moment {
            return Ok(None);
        }
        batch.submit(&Tables::of(&state.mirror), &self.cache, question, true).map(Some)
    }

    /// Can the device know who asks, and where relative paths begin?
    fn can_answer(&self, options: &ResolveOptions) -> bool {
        let is_known = options.caller.user.as_ref().is_none_or(|user| user.groups.len() <= MAX_GROUPS);
        let is_directory =
            |base| self.volume.getattr(base).is_ok_and(|attr| attr.kind == FileKind::Directory);
        is_known && is_directory(self.volume.root()) && options.base.is_none_or(is_directory)
    }

    pub(crate) fn question(&self, options: &ResolveOptions) -> Question {
        let root = self.volume.root().0;
        let superblock = self.volume.superblock();
        Question {
            root,
            base: options.base.map_or(root, |ino| ino.0),
            seed: superblock.seed,
            inode_size: superblock.inode_size,
            follow: options.follow,
            user: options.caller.user.clone().filter(|user| user.uid != 0),
            fuel: self.gpu.fuel(),
        }
    }
}

impl<'v> State<'v> {
    /// Has the device do something; `None` where it failed, now or before.
    pub(crate) fn attempt<T>(
        &mut self,
        work: impl FnOnce(&mut Mirror, &mut Watch<'v>) -> Result<T>,
    ) -> Option<T> {
        if self.failure.is_some() {
            return None;
        }
        match work(&mut self.mirror, &mut self.watch) {
            Ok(done) => return Some(done),
            // What one of them has no memory for, another one may have.
            Err(error) if error.is_short_of_memory() => self.kept.clear(),
            Err(error) => self.failure = Some(error),
        }
        None
    }

    /// Brings the mirror up to the present and submits a batch.
    fn begin<P: AsRef<[u8]>>(
        &mut self,
        mirrored: &Mirrored<'_, '_>,
        question: &Question,
        shape: Shape,
        paths: &[P],
    ) -> Result<Begun> {
        let before = self.mirror.copied;
        self.mirror.refresh(|take| self.watch.changes(take))?;
        let mut batch = match self.kept.iter().position(|batch| batch.shape() == shape) {
            Some(i) => self.kept.swap_remove(i),
            None => Batch::new(mirrored.device(), &mirrored.gpu.kernels, &mirrored.cache, shape, false)?,
        };
        batch.take(paths);
        let submission = batch.submit(&Tables::of(&self.mirror), &mirrored.cache, question, false)?;
        let moment = self.mirror.copied;
        Ok(Begun { copied: moment - before, moment, work: Some((batch, submission)) })
    }
}

/// How many of the paths go in one submission.
pub(crate) fn next_batch<P: AsRef<[u8]>>(paths: &[P]) -> usize {
    let mut text = 0;
    let fits = |path: &&P| {
        text += room_of(path.as_ref());
        text <= TEXT
    };
    paths.iter().take(PATHS).take_while(fits).count().max(1).min(paths.len())
}

impl From<Error> for lanefs::Error {
    fn from(error: Error) -> Self {
        match error {
            Error::Volume(error) => error,
            error => {
                lanefs::Error::Io { what: "GPU".into(), source: std::io::Error::other(error.to_string()) }
            }
        }
    }
}
