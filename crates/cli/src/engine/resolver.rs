//! Batches of lookups on the chosen engine.

use super::args::{EngineArgs, gpu_failure, load_metadata};
use crate::console::say;
use crate::context::Context;
use crate::failure::Failure;
use lanefs::{Columns, Paths, ResolveOptions, Volume};
use lanefs_gpu::{Auto, Gpu, MirrorOptions, Mirrored};
use std::sync::atomic::{AtomicBool, Ordering};

/// Most paths in one call of the CPU engine: paths, answers and lines of them stay in a processor's cache.
const CPU_BATCH: usize = 4096;
/// Most paths in one call of either engine.
const AUTO_BATCH: usize = 65_536;
/// Most paths in one call of the GPU engine.
const GPU_BATCH: usize = 1 << 20;
/// Threads that keep a device busy: one is in the call, one prepares the next batch.
const GPU_THREADS: usize = 2;

/// An engine that resolves batches of paths on a volume.
pub struct BatchResolver<'g, 'v> {
    volume: &'v Volume,
    backend: Backend<'g, 'v>,
    /// The first batch has started.
    has_started: AtomicBool,
    /// The failure of the device has been reported.
    is_reported: AtomicBool,
}

enum Backend<'g, 'v> {
    Cpu,
    Gpu(Box<Mirrored<'v>>),
    Auto(Box<Auto<'v>>),
}

impl<'g, 'v> BatchResolver<'g, 'v> {
    /// Opens the engine on a volume; for a device it reads all metadata into memory. `threads` threads will
    /// call it.
    ///
    /// # Errors
    /// The device's and the volume's; the user stops it.
    pub fn new(
        args: &EngineArgs,
        gpu: Option<&'g Gpu>,
        context: &Context<'v>,
        threads: usize,
    ) -> Result<Self, Failure> {
        let backend = match gpu {
            Some(gpu) => Backend::on_device(args, gpu, context, threads)?,
            None => Backend::Cpu,
        };
        let [has_started, is_reported] = [false, false].map(AtomicBool::new);
        Ok(BatchResolver { volume: context.volume, backend, has_started, is_reported })
    }

    /// Name of the engine, with that of the device.
    pub fn name(gpu: Option<&Gpu>) -> String {
        gpu.map_or("cpu".into(), |gpu| format!("gpu, {}", gpu.info().name))
    }

    /// Number of threads, at most `wanted`, from which calls pay.
    pub fn threads(&self, wanted: usize) -> usize {
        if matches!(self.backend, Backend::Gpu(_)) { wanted.min(GPU_THREADS) } else { wanted }
    }

    /// Most paths in one call.
    pub fn batch(&self) -> usize {
        match self.backend {
            Backend::Cpu => CPU_BATCH,
            Backend::Gpu(_) => GPU_BATCH,
            Backend::Auto(_) => AUTO_BATCH,
        }
    }

    /// Resolves a batch, and writes the answers to columns. If the device fails, the CPU engine resolves it.
    ///
    /// # Errors
    /// The volume's.
    pub fn resolve(
        &self,
        options: &ResolveOptions,
        paths: Paths<'_>,
        answers: &mut Columns,
    ) -> lanefs::Result<()> {
        let mut rows = answers.rows(paths.len());
        let mirrored = match &self.backend {
            Backend::Cpu => return self.volume.resolve_into(options, paths, &mut rows).map(drop),
            Backend::Gpu(mirrored) => {
                // The batch below meets and reports a failure of the device.
                if !self.has_started.swap(true, Ordering::Relaxed) && mirrored.is_worth_warming(paths.len()) {
                    let _ = mirrored.warm();
                }
                mirrored.resolve_into(options, paths, &mut rows)?;
                &**mirrored
            }
            Backend::Auto(auto) => {
                auto.resolve_into(options, paths, &mut rows)?;
                auto.mirrored()
            }
        };
        if let Some(error) = mirrored.failure()
            && !self.is_reported.swap(true, Ordering::Relaxed)
        {
            say(&format!("{error}; the CPU engine continues"));
        }
        Ok(())
    }
}

impl<'g, 'v> Backend<'g, 'v> {
    fn on_device(
        args: &EngineArgs,
        gpu: &'g Gpu,
        context: &Context<'v>,
        threads: usize,
    ) -> Result<Self, Failure> {
        load_metadata(context)?;
        let mirrored = gpu.mirror(context.volume, &MirrorOptions::default());
        if !args.is_auto() {
            return Ok(Backend::Gpu(Box::new(mirrored.map_err(|error| gpu_failure(&error))?)));
        }
        let Ok(mirrored) = mirrored else { return Ok(Backend::Cpu) };
        let auto = Auto::new(mirrored, threads);
        Ok(Backend::Auto(Box::new(auto.map_err(|error| Failure::volume("measuring the engines", &error))?)))
    }
}
