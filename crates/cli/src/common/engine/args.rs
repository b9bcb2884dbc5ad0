//! Arguments that choose an engine.

use crate::session::context::Context;
use crate::terminal::console::{self, say};
use crate::terminal::failure::{Failure, check_interrupt};
use crate::terminal::{exit, interrupt};
use clap::{Args, ValueEnum};
use lanefs_gpu::{Choice, EngineChoice, EngineOptions, Engines, Error, Gpu};

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
    /// The CPU engine; for `lookup` a GPU beside it, too, once that pays
    Auto,
    /// The CPU engine
    Cpu,
    /// The GPU engine
    Gpu,
}

impl From<EngineName> for EngineChoice {
    fn from(name: EngineName) -> Self {
        match name {
            EngineName::Auto => EngineChoice::Auto,
            EngineName::Cpu => EngineChoice::Cpu,
            EngineName::Gpu => EngineChoice::Gpu,
        }
    }
}

impl EngineArgs {
    /// Opens the engines of the command's volume, which `threads` threads will call.
    ///
    /// # Errors
    /// The user chose the GPU engine and there is no device, or a kernel answers wrongly on it; the volume's;
    /// the command is a client's; the user stops it.
    pub fn open<'v>(&self, context: &Context<'v>, threads: usize) -> Result<Engines<'v>, Failure> {
        self.open_for(context, threads, None)
    }

    /// As [`open`](Self::open), for so many paths in all, if that is known.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn open_for<'v>(
        &self,
        context: &Context<'v>,
        threads: usize,
        paths: Option<u64>,
    ) -> Result<Engines<'v>, Failure> {
        let options = EngineOptions { threads, paths, ..self.options()? };
        Engines::open(context.volume, options).map_err(|error| gpu_failure(&error))
    }

    /// Opens the device, if the user chose the GPU engine, for work that needs no copy of the metadata.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn open_device(&self) -> Result<Option<Gpu>, Failure> {
        self.options()?.open_device().map_err(|error| gpu_failure(&error))
    }

    /// The server of a mount opens no device for a client: its drivers are programs and files of the host,
    /// which would run and write with the server's rights.
    fn options(&self) -> Result<EngineOptions, Failure> {
        let is_client = console::client().is_some();
        if is_client && self.is_gpu() {
            let what = "the server of a mount loads no drivers for a client";
            return Err(Failure::usage("gpu", what, "leave out --engine gpu, or unmount the volume first"));
        }
        Ok(EngineOptions {
            engine: if is_client { EngineChoice::Cpu } else { self.engine.into() },
            device: self.device.clone().unwrap_or_default(),
            is_stopped: interrupt::raised,
            ..EngineOptions::default()
        })
    }

    /// True if the user chose the GPU engine by name.
    pub fn is_gpu(&self) -> bool {
        self.engine == EngineName::Gpu
    }
}

/// Reports the failure of a device whose work the CPU engine has taken over.
pub fn report(failure: Option<String>) {
    if let Some(failure) = failure {
        say(&format!("{failure}; the CPU engine continues"));
    }
}

/// Converts an error of the GPU engine.
pub fn gpu_failure(error: &Error) -> Failure {
    if let Err(interrupted) = check_interrupt() {
        return interrupted;
    }
    let advice = match error {
        Error::Volume(error) => return Failure::volume("reading the metadata", error),
        Error::Wrong { .. } => "use --engine cpu, and report the device and its driver",
        Error::NoSuchDevice { .. } => "`lanefs gpu list` names them",
        _ => "--engine cpu gives the same answers",
    };
    Failure::new(exit::HOST, b"gpu", &error.to_string(), advice)
}
