//! Arguments that choose an engine.

use crate::console::{self, say};
use crate::context::Context;
use crate::exit;
use crate::failure::{Failure, Outcome, check_interrupt};
use crate::interrupt;
use clap::{Args, ValueEnum};
use lanefs_gpu::{Choice, Error, Gpu, MirrorOptions, Mirrored};

/// The arguments that choose an engine.
#[derive(Clone, Debug, Args)]
pub struct EngineArgs {
    /// Engine to use; results are identical
    #[arg(long, value_name = "ENGINE", value_enum, default_value_t = EngineName::Auto)]
    engine: EngineName,
    /// Device from `lanefs gpu list`: number, UUID, PCI address or a part of the name [default: the best]
    #[arg(long, value_name = "DEVICE")]
    device: Option<Choice>,
}

/// An engine, by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum EngineName {
    /// The engine with the lower measured cost for each batch; the CPU engine on a machine without a GPU
    Auto,
    /// The CPU engine
    Cpu,
    /// The GPU engine
    Gpu,
}

impl EngineArgs {
    /// Opens the device for a command whose work is worth one: always with `gpu`; with `auto` if there is a
    /// GPU.
    ///
    /// The server of a mount opens none for a client: its drivers are programs and files of the host, which
    /// would run and write with the server's rights.
    ///
    /// # Errors
    /// The user chose the GPU engine and there is no device, or a kernel answers wrongly on it; the command
    /// is a client's.
    pub fn open(&self) -> Result<Option<Gpu>, Failure> {
        if console::client().is_some() {
            return self.refuse_device();
        }
        let choice = self.device.clone().unwrap_or_default();
        match self.engine {
            EngineName::Cpu => Ok(None),
            EngineName::Auto => Ok(Gpu::open_hardware(&choice)),
            EngineName::Gpu => Gpu::open(&choice).map(Some).map_err(|error| gpu_failure(&error)),
        }
    }

    /// Opens the device for a single search or listing. One of these does not pay for a mirror, so only `gpu`
    /// opens a device.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn open_for_one_pass(&self) -> Result<Option<Gpu>, Failure> {
        if self.is_gpu() { self.open() } else { Ok(None) }
    }

    /// The CPU engine, unless the user chose the other one.
    fn refuse_device(&self) -> Result<Option<Gpu>, Failure> {
        if !self.is_gpu() {
            return Ok(None);
        }
        let what = "the server of a mount loads no drivers for a client";
        Err(Failure::usage("gpu", what, "leave out --engine gpu, or unmount the volume first"))
    }

    /// True if the user chose the GPU engine by name.
    pub fn is_gpu(&self) -> bool {
        self.engine == EngineName::Gpu
    }

    /// True if the engine is chosen by measured cost.
    pub(super) fn is_auto(&self) -> bool {
        self.engine == EngineName::Auto
    }

    /// Reads all metadata of the volume and mirrors them on the device.
    ///
    /// # Errors
    /// The device's and the volume's; the user stops it.
    pub fn mirror<'v>(gpu: &Gpu, context: &Context<'v>) -> Result<Mirrored<'v>, Failure> {
        load_metadata(context)?;
        gpu.mirror(context.volume, &MirrorOptions::default()).map_err(|error| gpu_failure(&error))
    }
}

/// Reports the failure of a device whose work the CPU engine has taken over.
pub fn report(failure: Option<String>) {
    if let Some(failure) = failure {
        say(&format!("{failure}; the CPU engine continued"));
    }
}

/// Reads all metadata of the volume into memory.
pub(super) fn load_metadata(context: &Context<'_>) -> Outcome {
    let loaded = context.volume.load_metadata(&|_, _| !interrupt::raised());
    loaded.map_err(|error| Failure::volume("reading the metadata", &error))?;
    check_interrupt()
}

/// Converts an error of the GPU engine.
pub fn gpu_failure(error: &Error) -> Failure {
    let advice = match error {
        Error::Wrong { .. } => "use --engine cpu, and report the device and its driver",
        Error::NoSuchDevice { .. } => "`lanefs gpu list` names them",
        _ => "--engine cpu gives the same answers",
    };
    Failure::new(exit::HOST, b"gpu", &error.to_string(), advice)
}
