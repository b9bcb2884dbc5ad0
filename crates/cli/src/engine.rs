//! Which engine answers a batch of paths.

use crate::commands::gpu::failure;
use crate::context::Context;
use crate::exit::Failure;
use clap::{Args, ValueEnum};
use lanefs::{Resolution, ResolveOptions, Volume};
use lanefs_gpu::{Auto, Choice, DeviceKind, Gpu, MirrorOptions, Mirrored, devices};
use std::sync::atomic::{AtomicBool, Ordering};

/// Most paths given to an engine in one call.
const CPU_BATCH: usize = 65_536;
const GPU_BATCH: usize = 1 << 20;

/// The arguments that choose an engine.
#[derive(Clone, Debug, Args)]
pub(crate) struct EngineArgs {
    /// What does the work; what comes of it is the same
    #[arg(long, value_name = "ENGINE", value_enum, default_value_t = EngineName::Auto)]
    engine: EngineName,
    /// The device of the GPU engine: its number, or a part of its name (`lanefs gpu list`); the best one without it
    #[arg(long, value_name = "DEVICE")]
    device: Option<Choice>,
}

/// An engine, by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum EngineName {
    /// For each batch the faster one, by measured cost; without a GPU that is the CPU engine
    Auto,
    /// The CPU engine
    Cpu,
    /// The GPU engine
    Gpu,
}

/// An engine on a volume.
pub(crate) struct Engine<'g, 'v> {
    volume: &'v Volume,
    answers: Answers<'g, 'v>,
    /// The first batch has come.
    is_asked: AtomicBool,
    /// The user knows that the device failed.
    is_told: AtomicBool,
}

/// Who answers.
enum Answers<'g, 'v> {
    Cpu,
    Gpu(Box<Mirrored<'g, 'v>>),
    Auto(Box<Auto<'g, 'v>>),
}

impl EngineArgs {
    /// Opens the device that was asked for, if one was.
    ///
    /// # Errors
    /// There is none, or it answers wrongly.
    pub(crate) fn open(&self) -> Result<Option<Gpu>, Failure> {
        let choice = self.device.clone().unwrap_or_default();
        match self.engine {
            EngineName::Cpu => Ok(None),
            EngineName::Auto => {
                // A device that is a program on the processor cannot be faster than the CPU engine, and takes a while to open.
                let is_worth_it = devices().is_ok_and(|all| {
                    all.iter().any(|device| device.lacks.is_empty() && device.kind != DeviceKind::Software)
                });
                Ok(is_worth_it.then(|| Gpu::open(&choice).ok()).flatten())
            }
            EngineName::Gpu => Gpu::open(&choice).map(Some).map_err(|error| failure(&error)),
        }
    }

    /// Is it the GPU engine that was asked for by name?
    pub(crate) fn is_gpu(&self) -> bool {
        self.engine == EngineName::Gpu
    }

    /// A volume on a device, all its metadata with it, for one who needs no choice.
    ///
    /// # Errors
    /// The device's, the volume's; the user stops it.
    pub(crate) fn mirror<'g, 'v>(gpu: &'g Gpu, context: &Context<'v>) -> Result<Mirrored<'g, 'v>, Failure> {
        load(context)?;
        gpu.mirror(context.volume, &MirrorOptions::default()).map_err(|error| failure(&error))
    }

    /// The engine on a volume, whose metadata are brought into memory for a device. So many threads are going to call it.
    ///
    /// # Errors
    /// The device's, the volume's; the user stops it.
    pub(crate) fn on<'g, 'v>(
        &self,
        gpu: Option<&'g Gpu>,
        context: &Context<'v>,
        threads: usize,
    ) -> Result<Engine<'g, 'v>, Failure> {
        let volume = context.volume;
        let with = |answers| {
            let [is_asked, is_told] = [false, false].map(AtomicBool::new);
            Ok(Engine { volume, answers, is_asked, is_told })
        };
        let Some(gpu) = gpu else { return with(Answers::Cpu) };
        load(context)?;
        let mirrored = gpu.mirror(volume, &MirrorOptions::default());
        if self.engine != EngineName::Auto {
            return with(Answers::Gpu(Box::new(mirrored.map_err(|error| failure(&error))?)));
        }
        let Ok(mirrored) = mirrored else { return with(Answers::Cpu) };
        let auto = Auto::new(mirrored, threads);
        with(Answers::Auto(Box::new(auto.map_err(|error| Failure::volume("measuring the engines", &error))?)))
    }
}

/// Brings all metadata into memory.
fn load(context: &Context<'_>) -> Result<(), Failure> {
    let loaded = context.volume.load_metadata(&|_, _| crate::interrupt::check().is_ok());
    loaded.map_err(|error| Failure::volume("reading the metadata", &error))?;
    crate::interrupt::check()
}

impl Engine<'_, '_> {
    /// Its name, with that of the device.
    pub(crate) fn name(gpu: Option<&Gpu>) -> String {
        gpu.map_or("cpu".into(), |gpu| format!("gpu, {}", gpu.info().name))
    }

    /// Threads that it is worth calling from.
    pub(crate) fn threads(&self, wanted: usize) -> usize {
        // One in the call, one that prepares the next.
        if matches!(self.answers, Answers::Gpu(_)) { wanted.min(2) } else { wanted }
    }

    /// Paths in a call.
    pub(crate) fn batch(&self) -> usize {
        if matches!(self.answers, Answers::Gpu(_)) { GPU_BATCH } else { CPU_BATCH }
    }

    /// Resolves a batch.
    ///
    /// # Errors
    /// The volume's. Where a device fails, the CPU engine answers.
    pub(crate) fn resolve(
        &self,
        options: &ResolveOptions,
        paths: &[&[u8]],
    ) -> lanefs::Result<Vec<Resolution>> {
        let (answers, mirrored) = match &self.answers {
            Answers::Cpu => return self.volume.resolve_batch(options, paths),
            Answers::Gpu(mirrored) => {
                // A failure is the batch's to find, and to tell.
                if !self.is_asked.swap(true, Ordering::Relaxed) && mirrored.is_worth_warming(paths.len()) {
                    let _ = mirrored.warm();
                }
                (mirrored.resolve_batch(options, paths)?.0, &**mirrored)
            }
            Answers::Auto(auto) => (auto.resolve_batch(options, paths)?.0, auto.mirrored()),
        };
        if let Some(error) = mirrored.failure()
            && !self.is_told.swap(true, Ordering::Relaxed)
        {
            crate::context::say(&format!("{error}; the CPU engine goes on"));
        }
        Ok(answers)
    }
}
