//! The engine room: which engine answers for a volume, from when on, in which pieces, and what is said when a
//! device fails. Programs, the Python package and benches choose here and nowhere else.
//!
//! | module | |
//! |---|---|
//! | `options` | what a user chooses |
//! | `opening` | opening a device on a thread of its own |
//! | `attendant` | the thread that takes an open device into use |
//! | `auto` | both engines side by side, each batch on the cheaper one |
//!
//! It knows devices and volumes by their public calls; it must never know kernels, batches' buffers, or how a
//! program shows what it learns here.

mod attendant;
mod auto;
mod opening;
mod options;
#[cfg(test)]
mod tests;

use attendant::{Attendant, Dismissed, Leave};
pub use auto::{Auto, Cost};
use opening::Opening;
pub use options::{EngineChoice, EngineOptions};

use crate::error::{Error, Result};
use crate::gpu::Gpu;
use crate::lookups::mirrored::Mirrored;
use crate::records::DeviceCosts;
use crate::vulkan::DeviceKind;
use lanefs::bulk::{Applied, Change};
use lanefs::{BatchReport, Engine, Ino, NamesUnder, Paths, ResolveOptions, Rows, Volume};
use lanefs_sync::lock::Mutex;
use std::fmt;
#[cfg(any(test, feature = "_testing"))]
use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Most paths in one call of the CPU engine: paths, answers and what a caller makes of them stay in a
/// processor's cache.
const CPU_BATCH_PATHS: usize = 4096;
/// Most paths in one call where each may go to either engine.
const AUTO_BATCH_PATHS: usize = 65_536;
/// Most paths in one call of the GPU engine.
const GPU_BATCH_PATHS: usize = 1 << 20;
/// No attendant is there for a known number of paths below this: they are answered before it has begun.
const LEAST_ATTENDED: u64 = 16_384;
/// Less than this saves no device: until then nobody asks what opening one costs.
const LEAST_AT_STAKE: Duration = Duration::from_millis(10);
/// Threads that keep a device busy: one is in the call, one prepares the next batch.
const GPU_THREADS: usize = 2;

/// The engines of a volume. Any number of threads may use it.
///
/// ```
/// use lanefs::{CreateOptions, EngineExt, ResolveOptions, Volume};
/// use lanefs_gpu::{EngineOptions, Engines};
///
/// # fn main() -> lanefs_gpu::Result<()> {
/// let volume = Volume::create_memory(&CreateOptions { size: 64 << 20, ..CreateOptions::default() })?;
/// volume.write_file("/a", b"")?;
/// let engines = Engines::open(&volume, EngineOptions::default())?;
/// let (answers, _) = engines.resolve_batch(&ResolveOptions::default(), &["/a", "/b"])?;
/// assert!(answers[0].ino.is_some() && answers[1].ino.is_none());
/// if let Some(failure) = engines.take_failure() {
///     eprintln!("{failure}; the CPU engine continues");
/// }
/// # Ok(())
/// # }
/// ```
pub struct Engines<'v> {
    volume: &'v Volume,
    options: EngineOptions,
    /// A device that the caller has opened.
    given: Option<Gpu>,
    /// Set when a device has been opened, or was found not to pay.
    device: OnceLock<DeviceSide<'v>>,
    /// A device that is being opened. Locked by the thread that begins that or takes the device; the others
    /// go on.
    opening: Mutex<Option<Opening>>,
    attendant: Attendant,
    /// Nanoseconds that the CPU engine has worked, of all threads, while a device was not there, and paths
    /// that it has answered.
    worked: AtomicU64,
    answered: AtomicU64,
    has_resolved: AtomicBool,
    has_told_failure: AtomicBool,
    /// Costs of the device that an earlier start has measured; read when they matter.
    known: OnceLock<Option<DeviceCosts>>,
    /// Work before a device is opened beside the CPU engine, in place of a driver that is slow.
    #[cfg(any(test, feature = "_testing"))]
    before_opening: Option<Arc<dyn Fn() + Send + Sync>>,
}

/// The part of a device beside the CPU engine.
enum DeviceSide<'v> {
    /// No device that pays, and why.
    None(String),
    /// The device answers all.
    Gpu(Gpu, Box<Mirrored<'v>>),
    /// Each batch goes to one of both.
    Auto(Gpu, Box<Auto<'v>>),
}

impl<'v> Engines<'v> {
    /// Prepares the engines of a volume. If the user chose the GPU engine, this opens the device, reads all
    /// metadata and copies them; otherwise it costs nothing.
    ///
    /// # Errors
    /// The user chose the GPU engine, and there is no device, it answers wrongly, or reading fails or is
    /// stopped.
    pub fn open(volume: &'v Volume, options: EngineOptions) -> Result<Self> {
        Self::start(Self::prepare(volume, options, None))
    }

    /// As [`open`](Self::open), on a device that is open already and that other volumes may use as well. With
    /// [`EngineChoice::Auto`] it may be a software device.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn open_on(gpu: &Gpu, volume: &'v Volume, options: EngineOptions) -> Result<Self> {
        Self::start(Self::prepare(volume, options, Some(gpu.clone())))
    }

    /// The CPU engine of a volume, and nothing beside it.
    pub fn cpu(volume: &'v Volume) -> Self {
        let options = EngineOptions { engine: EngineChoice::Cpu, ..EngineOptions::default() };
        Self::prepare(volume, options, None)
    }

    fn prepare(volume: &'v Volume, options: EngineOptions, given: Option<Gpu>) -> Self {
        Engines {
            volume,
            options,
            given,
            device: OnceLock::new(),
            opening: Mutex::new(None),
            attendant: Attendant::default(),
            worked: AtomicU64::new(0),
            answered: AtomicU64::new(0),
            has_resolved: AtomicBool::new(false),
            has_told_failure: AtomicBool::new(false),
            known: OnceLock::new(),
            #[cfg(any(test, feature = "_testing"))]
            before_opening: None,
        }
    }

    /// Plants a driver that is slow: `before` runs on the thread that opens a device beside the CPU engine.
    #[cfg(any(test, feature = "_testing"))]
    #[must_use]
    pub fn slow_to_open(mut self, before: impl Fn() + Send + Sync + 'static) -> Self {
        self.before_opening = Some(Arc::new(before));
        self
    }

    /// Begins to open a device on a thread of its own.
    fn begin_opening(&self) -> Opening {
        #[cfg(any(test, feature = "_testing"))]
        if let Some(before) = self.before_opening.clone() {
            return Opening::begin(self.given.clone(), &self.options.device, move || before());
        }
        Opening::begin(self.given.clone(), &self.options.device, || ())
    }

    fn start(self) -> Result<Self> {
        if self.options.engine == EngineChoice::Gpu {
            let opened = self.open_chosen()?;
            let _ = self.device.set(opened);
        }
        Ok(self)
    }

    /// Returns the volume.
    pub fn volume(&self) -> &'v Volume {
        self.volume
    }

    /// Returns the device and its copy of the metadata, if the user chose the GPU engine.
    pub fn chosen(&self) -> Option<(&Gpu, &Mirrored<'v>)> {
        match self.device.get() {
            Some(DeviceSide::Gpu(gpu, mirrored)) => Some((gpu, mirrored)),
            _ => None,
        }
    }

    /// Returns the most paths that one call should have. The number rises when a device answers.
    pub fn batch(&self) -> usize {
        match self.device.get() {
            None | Some(DeviceSide::None(_)) => CPU_BATCH_PATHS,
            Some(DeviceSide::Gpu(..)) => GPU_BATCH_PATHS,
            Some(DeviceSide::Auto(_, auto)) if auto.uses_device(AUTO_BATCH_PATHS) => AUTO_BATCH_PATHS,
            Some(DeviceSide::Auto(..)) => CPU_BATCH_PATHS,
        }
    }

    /// Returns the number of threads, at most `wanted`, from which calls pay.
    pub fn threads(&self, wanted: usize) -> usize {
        if self.chosen().is_some() { wanted.min(GPU_THREADS) } else { wanted }
    }

    /// Returns why the engine is the one that [`Display`](fmt::Display) names, for people.
    pub fn reason(&self) -> String {
        match self.device.get() {
            Some(DeviceSide::None(why)) => why.clone(),
            Some(DeviceSide::Auto(_, auto)) => {
                let (cpu, gpu) = auto.measured();
                format!("measured: {cpu} on the CPU engine, {gpu} on the device")
            }
            None if self.options.engine == EngineChoice::Auto => {
                let how = match (self.options.patience, self.known.get()) {
                    (Some(_), _) => "as the program says",
                    (None, Some(Some(_))) => "as measured at an earlier start",
                    (None, _) => "until one is measured",
                };
                let opening = self.patience();
                format!("opening a device would have cost more time than it saves ({opening:.0?}, {how})")
            }
            None | Some(DeviceSide::Gpu(..)) => "it was chosen".into(),
        }
    }

    /// Returns in words that the device has failed, once. The CPU engine has continued.
    pub fn take_failure(&self) -> Option<String> {
        // Once it was told, no batch waits for the lock of the device's state any more.
        if self.has_told_failure.load(Ordering::Relaxed) {
            return None;
        }
        let failure = self.mirrored()?.failure()?;
        (!self.has_told_failure.swap(true, Ordering::Relaxed)).then_some(failure)
    }

    /// Makes a batch of changes as [`Volume::apply`] does and with the same answers, on the device if the
    /// user chose the GPU engine. With [`EngineChoice::Auto`] the CPU engine makes them: a device is faster
    /// for wide batches only, and by less than opening it costs (docs/gpu.md).
    ///
    /// # Errors
    /// As [`Volume::apply`].
    pub fn apply(&self, base: Ino, changes: &[Change<'_>]) -> lanefs::Result<Vec<Applied>> {
        match self.chosen() {
            Some((_, mirrored)) => Ok(mirrored.apply(base, changes)?.0),
            None => self.volume.apply(base, changes),
        }
    }

    /// Returns the device's copy of the metadata, if there is one.
    fn mirrored(&self) -> Option<&Mirrored<'v>> {
        match self.device.get()? {
            DeviceSide::None(_) => None,
            DeviceSide::Gpu(_, mirrored) => Some(mirrored),
            DeviceSide::Auto(_, auto) => Some(auto.mirrored()),
        }
    }

    /// Works on the CPU engine, and adds up the time and the paths.
    fn by_cpu<T>(&self, paths: usize, work: impl FnOnce() -> T) -> T {
        let begun = Instant::now();
        let done = work();
        self.worked.fetch_add(begun.elapsed().as_nanos() as u64, Ordering::Relaxed);
        self.answered.fetch_add(paths as u64, Ordering::Relaxed);
        done
    }

    /// Tells whether as much is at stake as opening a device costs.
    fn is_worth_opening(&self) -> bool {
        let patience = match self.options.patience {
            Some(patience) => patience,
            None if self.at_stake() < LEAST_AT_STAKE => return false,
            None => {
                self.known.get_or_init(DeviceCosts::known);
                self.patience()
            }
        };
        // The costs that are known now count, too.
        self.at_stake() >= patience
    }

    /// Returns the time that opening a device takes.
    fn patience(&self) -> Duration {
        let known = || self.known.get().copied().flatten();
        self.options.patience.or_else(|| known().map(|known| known.opening)).unwrap_or(options::OPENING)
    }

    /// Returns the time that a device would save on the paths that follow, if it costs what an earlier start
    /// has measured, or nothing: of what the CPU engine has needed so far for each, where the caller knows
    /// how many there are; else as long as it has worked by now, for as much may follow.
    fn at_stake(&self) -> Duration {
        let worked = self.worked.load(Ordering::Relaxed) / self.options.threads.max(1) as u64;
        let answered = self.answered.load(Ordering::Relaxed);
        match self.options.paths {
            None => Duration::from_nanos(worked),
            // One small batch says little of the next ones.
            Some(_) if answered < CPU_BATCH_PATHS as u64 => Duration::ZERO,
            Some(all) => {
                let rest = u128::from(all.saturating_sub(answered));
                let by_cpu = u128::from(worked) * rest / u128::from(answered);
                let by_device = self
                    .known
                    .get()
                    .copied()
                    .flatten()
                    .map_or(0, |known| u128::from(known.path_ps) * rest / 1000);
                Duration::from_nanos(u64::try_from(by_cpu.saturating_sub(by_device)).unwrap_or(u64::MAX))
            }
        }
    }

    /// With [`EngineChoice::Auto`] begins to open a device when as much is at stake as that costs, and takes
    /// the device when it is open. The CPU engine goes on meanwhile.
    fn open_if_it_pays(&self) {
        if self.options.engine != EngineChoice::Auto || self.device.get().is_some() {
            return;
        }
        let Some(mut opening) = self.opening.try_lock() else { return };
        match opening.as_mut() {
            None if self.device.get().is_none() && self.is_worth_opening() => {
                *opening = Some(self.begin_opening());
                self.attendant.ask();
            }
            Some(begun) if begun.is_over() && !self.attendant.ask() => self.take_into_use(&mut opening),
            _ => {}
        }
    }

    /// Takes the device that is being opened into use, once it is open.
    fn take_into_use(&self, opening: &mut Option<Opening>) {
        let Some(mut begun) = opening.take() else { return };
        let opened = begun.take().and_then(|(gpu, took)| self.beside(gpu, took));
        if opened.is_err() && self.attendant.is_leaving() {
            // More work may open it again.
            return;
        }
        let opened = opened.unwrap_or_else(|error| DeviceSide::None(error.to_string()));
        // `opening` is locked, so no other thread has set it.
        let _ = self.device.set(opened);
    }

    /// Does some work that asks these engines. If a device is opened beside the CPU engine meanwhile, a
    /// thread of its own takes it into use; without that thread a call of the work would wait for it.
    pub fn attended<T>(&self, work: impl FnOnce() -> T) -> T {
        let is_needed = self.options.engine == EngineChoice::Auto
            && self.device.get().is_none()
            && self.options.paths.is_none_or(|paths| paths >= LEAST_ATTENDED);
        if !is_needed || !self.attendant.come() {
            return work();
        }
        let attend = || {
            if self.attendant.wait() {
                // The other threads go on while it is locked.
                self.take_into_use(&mut self.opening.lock());
            }
        };
        let _leave = Leave(&self.attendant);
        std::thread::scope(|scope| {
            let thread = std::thread::Builder::new().name("lanefs-device".into()).spawn_scoped(scope, attend);
            if thread.is_err() {
                self.attendant.leave();
            }
            // Also where the work panics: the scope waits for the attendant.
            let _dismissed = Dismissed(&self.attendant);
            work()
        })
    }

    fn open_chosen(&self) -> Result<DeviceSide<'v>> {
        let gpu = self.given.clone().map_or_else(|| Gpu::open(&self.options.device), Ok)?;
        let mirrored = self.mirror(&gpu)?;
        Ok(DeviceSide::Gpu(gpu, Box::new(mirrored)))
    }

    /// Mirrors the volume on a device that took so long to open, and measures both engines. The next start
    /// will know what all of that cost.
    fn beside(&self, gpu: Option<Gpu>, opening: Duration) -> Result<DeviceSide<'v>> {
        let Some(gpu) = gpu else {
            return Ok(DeviceSide::None("this machine has no device that could be faster".into()));
        };
        let begun = Instant::now();
        let mirrored = self.mirror(&gpu)?;
        self.check_stop()?;
        let auto = Auto::new(mirrored, self.options.threads)?;
        // A first start also probes the kernels, and one with a device that was open saves opening it.
        if self.given.is_none() && gpu.probes().is_empty() && gpu.info().kind != DeviceKind::Software {
            let path_ps = (auto.measured().1.path * 1e12) as u64;
            DeviceCosts { opening: opening + begun.elapsed(), path_ps }.write(gpu.info());
        }
        Ok(DeviceSide::Auto(gpu, Box::new(auto)))
    }

    /// Reads all metadata of the volume and copies them to the device.
    fn mirror(&self, gpu: &Gpu) -> Result<Mirrored<'v>> {
        self.check_stop()?;
        self.volume.load_metadata(&|_, _| self.check_stop().is_ok())?;
        self.check_stop()?;
        gpu.mirror(self.volume, &self.options.mirror)
    }

    /// Fails where the program is to stop, or the work has ended for which a device was opened.
    fn check_stop(&self) -> Result<()> {
        let is_stopped = (self.options.is_stopped)() || self.attendant.is_leaving();
        if is_stopped { Err(Error::Stopped) } else { Ok(()) }
    }

    /// Has the engine of the moment answer a batch of so many paths.
    fn by_chosen(
        &self,
        paths: usize,
        answer: impl FnOnce(&dyn Engine) -> lanefs::Result<BatchReport>,
    ) -> lanefs::Result<BatchReport> {
        self.open_if_it_pays();
        match self.device.get() {
            None | Some(DeviceSide::None(_)) => self.by_cpu(paths, || answer(self.volume)),
            Some(DeviceSide::Gpu(_, mirrored)) => {
                self.warm(mirrored, paths);
                answer(&**mirrored)
            }
            Some(DeviceSide::Auto(_, auto)) => answer(&**auto),
        }
    }

    /// Fills the cache of a device before its first batch, if the batch is large enough to gain by it.
    fn warm(&self, mirrored: &Mirrored<'_>, paths: usize) {
        if !self.has_resolved.swap(true, Ordering::Relaxed) && mirrored.is_worth_warming(paths) {
            // The batch meets the failure of a device again, and reports it.
            let _ = mirrored.warm();
        }
    }
}

/// Where a device fails, the CPU engine answers.
impl Engine for Engines<'_> {
    fn resolve_rows(
        &self,
        options: &ResolveOptions,
        paths: Paths<'_>,
        rows: &mut dyn Rows,
    ) -> lanefs::Result<BatchReport> {
        self.by_chosen(paths.len(), |engine| engine.resolve_rows(options, paths, rows))
    }

    fn resolve_names(
        &self,
        options: &ResolveOptions,
        names: NamesUnder<'_>,
        rows: &mut dyn Rows,
    ) -> lanefs::Result<BatchReport> {
        self.by_chosen(names.len(), |engine| engine.resolve_names(options, names, rows))
    }
}

/// Names the engine, with the device where it has one: `cpu`, `gpu: NAME`, `auto: cpu and NAME`.
impl fmt::Display for Engines<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.device.get() {
            None | Some(DeviceSide::None(_)) => f.write_str("cpu"),
            Some(DeviceSide::Gpu(gpu, _)) => write!(f, "gpu: {}", gpu.info().name),
            Some(DeviceSide::Auto(gpu, _)) => write!(f, "auto: cpu and {}", gpu.info().name),
        }
    }
}
