//! Which engine answers a batch of paths.

use crate::commands::gpu::failure;
use crate::context::Context;
use crate::exit::Failure;
use clap::{Args, ValueEnum};
use lanefs::{Resolution, ResolveOptions, Volume};
use lanefs_gpu::{Choice, Gpu, Mirrored};
use std::sync::Mutex;

/// Most paths given to an engine in one call.
const CPU_BATCH: usize = 65_536;
const GPU_BATCH: usize = 1 << 20;

/// The arguments that choose an engine.
#[derive(Clone, Debug, Args)]
pub(crate) struct EngineArgs {
    /// What answers; the answers are the same
    #[arg(long, value_name = "ENGINE", value_enum, default_value_t = EngineName::Auto)]
    engine: EngineName,
    /// The device of the GPU engine: its number, or a part of its name (`lanefs gpu list`); the best one without it
    #[arg(long, value_name = "DEVICE")]
    device: Option<Choice>,
}

/// An engine, by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum EngineName {
    /// The CPU engine, as long as nothing has measured another to be faster on this machine
    Auto,
    /// The CPU engine
    Cpu,
    /// The GPU engine
    Gpu,
}

/// An engine on a volume.
pub(crate) struct Engine<'g, 'v> {
    volume: &'v Volume,
    /// The GPU engine's, for one thread at a time; without it the CPU engine answers any number of threads.
    mirrored: Option<Box<Mutex<Mirrored<'g, 'v>>>>,
}

impl EngineArgs {
    /// Opens the device that was asked for, if one was.
    ///
    /// # Errors
    /// There is none, or it answers wrongly.
    pub(crate) fn open(&self) -> Result<Option<Gpu>, Failure> {
        match self.engine {
            EngineName::Auto | EngineName::Cpu => Ok(None),
            EngineName::Gpu => {
                Gpu::open(&self.device.clone().unwrap_or_default()).map(Some).map_err(|error| failure(&error))
            }
        }
    }
}

impl<'g, 'v> Engine<'g, 'v> {
    /// The engine on a volume, whose metadata are brought into memory for a device.
    ///
    /// # Errors
    /// The device's, the volume's; the user stops it.
    pub(crate) fn new(gpu: Option<&'g Gpu>, context: &Context<'v>) -> Result<Self, Failure> {
        let volume = context.volume;
        let Some(gpu) = gpu else { return Ok(Engine { volume, mirrored: None }) };
        let loaded = volume.load_metadata(&|_, _| crate::interrupt::check().is_ok());
        loaded.map_err(|error| Failure::volume("reading the metadata", &error))?;
        crate::interrupt::check()?;
        let mirrored = gpu.mirror(volume, None).map_err(|error| failure(&error))?;
        Ok(Engine { volume, mirrored: Some(Box::new(Mutex::new(mirrored))) })
    }

    /// Its name, with that of the device.
    pub(crate) fn name(gpu: Option<&Gpu>) -> String {
        gpu.map_or("cpu".into(), |gpu| format!("gpu, {}", gpu.info().name))
    }

    /// Threads that it is worth calling from.
    pub(crate) fn threads(&self, wanted: usize) -> usize {
        // One in the call, one that prepares the next.
        if self.mirrored.is_some() { wanted.min(2) } else { wanted }
    }

    /// Paths in a call.
    pub(crate) fn batch(&self) -> usize {
        if self.mirrored.is_some() { GPU_BATCH } else { CPU_BATCH }
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
        if let Some(Ok(mut mirrored)) = self.mirrored.as_ref().map(|mirrored| mirrored.lock()) {
            match mirrored.resolve_batch(options, paths) {
                Ok((answers, _)) => return Ok(answers),
                Err(lanefs_gpu::Error::Volume(error)) => return Err(error),
                Err(error) => crate::context::say(&format!("{error}; the CPU engine goes on")),
            }
        }
        self.volume.resolve_batch(options, paths)
    }
}
