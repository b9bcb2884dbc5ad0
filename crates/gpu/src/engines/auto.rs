//! Both engines side by side: each batch goes to one of them, by the measured costs of both.

use crate::lookups::mirrored::Mirrored;
use lanefs::{BatchReport, Caller, Engine, EngineExt, NamesUnder, Paths, ResolveOptions, Rows, Volume};
use lanefs_sync::lock::{Mutex, MutexGuard};
use std::fmt;
use std::time::{Duration, Instant};

/// Paths of the batch for the first measurement, and attempts, of which the fastest counts.
const PROBED: usize = 8192;
const ATTEMPTS: usize = 3;

/// A batch of at least `MANY_PATHS` paths measures the cost of a path, one of at most `FEW_PATHS` that of a
/// call.
const MANY_PATHS: usize = 4096;
const FEW_PATHS: usize = 16;

/// One batch of `TRIED` goes to the other engine, unless that is known to be `DEAR` times as dear.
/// So trying costs one part in 64 at most.
const TRIED: u64 = 64;
const DEAR: f64 = 2.0;

/// Weight of a new measurement.
const NEW: f64 = 0.25;

/// One of the two engines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    Cpu,
    Gpu,
}

/// Cost of an engine, in seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Cost {
    /// Cost of a call.
    pub call: f64,
    /// Cost of each path in it.
    pub path: f64,
}

/// In words, for people: `a call 1.2 µs and a path 310 ns`.
impl fmt::Display for Cost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [call, path] = [self.call, self.path].map(|seconds| Duration::from_secs_f64(seconds.max(0.0)));
        write!(f, "a call {call:.1?} and a path {path:.1?}")
    }
}

impl Cost {
    /// Returns the cost of a batch.
    pub fn of(self, paths: usize) -> f64 {
        self.call + self.path * paths as f64
    }

    /// Measures an engine: a call with one path, one with many.
    fn measure(paths: &[Vec<u8>], work: impl Fn(&[Vec<u8>]) -> lanefs::Result<()>) -> lanefs::Result<Cost> {
        let fastest = |paths: &[Vec<u8>]| -> lanefs::Result<f64> {
            let mut best = f64::INFINITY;
            for _ in 0..ATTEMPTS {
                let begin = Instant::now();
                work(paths)?;
                best = best.min(begin.elapsed().as_secs_f64());
            }
            Ok(best)
        };
        let (one, all) = (fastest(&paths[..1])?, fastest(paths)?);
        Ok(Cost { call: one, path: (all - one).max(0.0) / paths.len() as f64 })
    }

    /// Includes a new measurement.
    fn learn(&mut self, paths: usize, took: Duration) {
        let took = took.as_secs_f64();
        if paths >= MANY_PATHS {
            self.path += NEW * ((took - self.call).max(0.0) / paths as f64 - self.path);
        } else if paths <= FEW_PATHS {
            self.call += NEW * (took - self.call);
        }
    }
}

/// Both engines on a volume; each batch goes to the one that is likely to finish it sooner.
pub struct Auto<'v> {
    mirrored: Mirrored<'v>,
    /// Threads that call at a time: the CPU engine serves them in parallel, the device in turn.
    threads: usize,
    costs: Mutex<Costs>,
}

/// Measured costs, and batches so far.
#[derive(Clone, Copy, Debug)]
struct Costs {
    cpu: Cost,
    gpu: Cost,
    batches: u64,
}

impl<'v> Auto<'v> {
    /// Measures both engines on paths of the volume itself.
    ///
    /// # Errors
    /// An error of the volume.
    pub fn new(mirrored: Mirrored<'v>, threads: usize) -> lanefs::Result<Self> {
        let (volume, options) = (mirrored.volume(), ResolveOptions::default());
        let known = known_paths(volume)?;
        let paths: Vec<Vec<u8>> = known.iter().cycle().take(PROBED).cloned().collect();
        let cpu = Cost::measure(&paths, |paths| volume.resolve_batch(&options, paths).map(drop))?;
        let gpu = Cost::measure(&paths, |paths| mirrored.resolve_batch(&options, paths).map(drop))?;
        let costs = Mutex::new(Costs { cpu, gpu, batches: 0 });
        Ok(Auto { mirrored, threads: threads.max(1), costs })
    }

    /// Returns the measured costs: of the CPU engine on one thread, and of the device.
    pub fn measured(&self) -> (Cost, Cost) {
        let costs = self.costs();
        (costs.cpu, costs.gpu)
    }

    /// Tells whether the device would answer a batch of so many paths.
    pub(super) fn uses_device(&self, paths: usize) -> bool {
        let costs = self.costs();
        self.mirrored.failure().is_none() && costs.better(paths, self.threads) == Side::Gpu
    }

    /// Returns the mirrored volume.
    pub fn mirrored(&self) -> &Mirrored<'v> {
        &self.mirrored
    }

    /// Chooses the engine for the next batch.
    fn choose(&self, paths: usize) -> Side {
        let is_lost = self.mirrored.failure().is_some();
        let mut costs = self.costs();
        costs.batches += 1;
        if is_lost { Side::Cpu } else { costs.choose(paths, self.threads) }
    }

    /// Has the cheaper engine answer a batch of so many paths, and learns what that cost.
    fn by_cheaper(
        &self,
        paths: usize,
        answer: impl FnOnce(&dyn Engine) -> lanefs::Result<BatchReport>,
    ) -> lanefs::Result<BatchReport> {
        let side = self.choose(paths);
        let begin = Instant::now();
        let report = match side {
            Side::Gpu => answer(&self.mirrored)?,
            Side::Cpu => answer(self.mirrored.volume())?,
        };
        let mut costs = self.costs();
        let cost = if side == Side::Gpu { &mut costs.gpu } else { &mut costs.cpu };
        cost.learn(paths, begin.elapsed());
        Ok(report)
    }

    fn costs(&self) -> MutexGuard<'_, Costs> {
        self.costs.lock()
    }
}

impl Engine for Auto<'_> {
    fn resolve_rows(
        &self,
        options: &ResolveOptions,
        paths: Paths<'_>,
        rows: &mut dyn Rows,
    ) -> lanefs::Result<BatchReport> {
        self.by_cheaper(paths.len(), |engine| engine.resolve_rows(options, paths, rows))
    }

    fn resolve_names(
        &self,
        options: &ResolveOptions,
        names: NamesUnder<'_>,
        rows: &mut dyn Rows,
    ) -> lanefs::Result<BatchReport> {
        self.by_cheaper(names.len(), |engine| engine.resolve_names(options, names, rows))
    }
}

impl Costs {
    /// Returns the costs of a batch: on the CPU engine, and on the device.
    fn of(&self, paths: usize, threads: usize) -> (f64, f64) {
        (self.cpu.of(paths) / threads as f64, self.gpu.of(paths))
    }

    fn better(&self, paths: usize, threads: usize) -> Side {
        let (cpu, gpu) = self.of(paths, threads);
        if gpu < cpu { Side::Gpu } else { Side::Cpu }
    }

    fn choose(&self, paths: usize, threads: usize) -> Side {
        let (cpu, gpu) = self.of(paths, threads);
        let is_near = cpu.max(gpu) < DEAR * cpu.min(gpu);
        match self.better(paths, threads) {
            Side::Cpu if is_near && self.batches.is_multiple_of(TRIED) => Side::Gpu,
            Side::Gpu if is_near && self.batches.is_multiple_of(TRIED) => Side::Cpu,
            better => better,
        }
    }
}

/// Lists some paths of the volume: of the root's entries, and of those below them.
fn known_paths(volume: &Volume) -> lanefs::Result<Vec<Vec<u8>>> {
    const EACH: usize = 64;
    let caller = Caller::OWNER;
    let mut paths = vec![b"/".to_vec()];
    for above in volume.readdir(&caller, volume.root(), 0, EACH)? {
        let path = [b"/", &above.name[..]].concat();
        if above.kind == lanefs::FileKind::Directory {
            for entry in volume.readdir(&caller, above.ino, 0, EACH)? {
                paths.push([&path[..], b"/", &entry.name].concat());
            }
        }
        paths.push(path);
    }
    Ok(paths)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cheaper_engine_is_chosen_by_the_size_of_the_batch() {
        let cpu = Cost { call: 1e-6, path: 500e-9 };
        let gpu = Cost { call: 50e-6, path: 10e-9 };
        let costs = Costs { cpu, gpu, batches: 1 };
        assert_eq!(costs.choose(1, 1), Side::Cpu);
        assert_eq!(costs.choose(1000, 1), Side::Gpu);
        // Sixteen threads on the processor are as fast as sixteen batches at a time.
        assert_eq!(costs.choose(1000, 16), Side::Cpu);
        // The other one is tried now and then where the costs are close.
        assert_eq!(Costs { batches: TRIED, ..costs }.choose(110, 1), Side::Cpu);
        assert_eq!(Costs { batches: TRIED, ..costs }.choose(100_000, 1), Side::Gpu);
    }

    #[test]
    fn costs_follow_what_is_measured() {
        let mut cost = Cost { call: 0.0, path: 1e-9 };
        for _ in 0..50 {
            cost.learn(1_000_000, Duration::from_millis(100));
            cost.learn(1, Duration::from_micros(20));
        }
        assert!((cost.path - 100e-9).abs() < 1e-9 && (cost.call - 20e-6).abs() < 1e-6, "{cost:?}");
    }
}
