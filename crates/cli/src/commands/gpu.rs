//! `lanefs gpu`: the devices of the GPU engine.

use crate::exit::{self, Failure, Outcome};
use clap::{Args, Subcommand};
use lanefs_gpu::{Choice, DeviceInfo, Error, Gpu, devices};
use std::io::Write;

/// List and check the devices of the GPU engine
///
/// The GPU engine runs on any Vulkan 1.2 device, also on a program for the processor such as Mesa's llvmpipe. A machine without
/// one is a normal machine: the CPU engine gives the same answers.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  lanefs gpu list
  lanefs gpu check
  lanefs gpu check --device llvmpipe

Exit codes: 0 there is a device that works, 2 wrong usage, 4 there is none, or a kernel answers wrongly on it.")]
pub struct GpuArgs {
    #[command(subcommand)]
    command: GpuCommand,
}

#[derive(Debug, Subcommand)]
enum GpuCommand {
    /// The devices of this machine, and what each lacks
    List {
        /// One JSON object a line
        #[arg(long)]
        json: bool,
    },
    /// Make every kernel, and ask each a question whose answer is known
    Check {
        /// The device: its number, or a part of its name; the best one without it
        #[arg(long, value_name = "DEVICE")]
        device: Option<Choice>,
    },
}

impl GpuArgs {
    /// Does it.
    ///
    /// # Errors
    /// No device that works; output that fails.
    pub fn run(&self) -> Outcome {
        let mut out = std::io::stdout().lock();
        match &self.command {
            GpuCommand::List { json } => {
                let all = devices().map_err(|error| failure(&error))?;
                if all.is_empty() {
                    return Err(failure(&Error::NoDevice(None)));
                }
                for device in &all {
                    let line = if *json { as_json(device) } else { as_text(device) };
                    writeln!(out, "{line}")?;
                }
            }
            GpuCommand::Check { device } => {
                let gpu = Gpu::open(&device.clone().unwrap_or_default()).map_err(|error| failure(&error))?;
                writeln!(out, "{}", as_text(gpu.info()))?;
                for probed in gpu.probes() {
                    writeln!(
                        out,
                        "  {}: right, in {:.1} ms",
                        probed.kernels,
                        probed.took.as_secs_f64() * 1e3
                    )?;
                }
            }
        }
        out.flush()?;
        Ok(())
    }
}

fn as_text(device: &DeviceInfo) -> String {
    let DeviceInfo { number, name, kind, driver, version: (major, minor, patch), .. } = device;
    let mut text = format!(
        "{number}: {name} ({}, {driver}, Vulkan {major}.{minor}.{patch}): {} MiB, subgroups of {}, workgroups of up to {}",
        kind.text(),
        device.memory >> 20,
        device.subgroup,
        device.workgroup,
    );
    if !device.lacks.is_empty() {
        text += &format!("; cannot be used: it lacks {}", device.lacks.join(", "));
    }
    text
}

fn as_json(device: &DeviceInfo) -> String {
    let (major, minor, patch) = device.version;
    serde_json::json!({
        "number": device.number,
        "name": device.name,
        "kind": device.kind.text(),
        "driver": device.driver,
        "vulkan": format!("{major}.{minor}.{patch}"),
        "memory": device.memory,
        "subgroup": device.subgroup,
        "workgroup": device.workgroup,
        "lacks": device.lacks,
    })
    .to_string()
}

/// What the user is told.
pub fn failure(error: &Error) -> Failure {
    let hint = match error {
        Error::Wrong { .. } => "use --engine cpu, and tell us which device and driver this is",
        Error::NoSuchDevice { .. } => "`lanefs gpu list` names them",
        _ => "--engine cpu gives the same answers",
    };
    Failure::new(exit::HOST, b"gpu", &error.to_string(), hint)
}
