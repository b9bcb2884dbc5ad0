//! `lanefs gpu`.

use crate::common::engine::gpu_failure;
use crate::terminal::failure::Outcome;
use crate::terminal::{console, exit};
use clap::{Args, Subcommand};
use lanefs_gpu::{Choice, DeviceInfo, Error, Gpu, devices};
use std::io::Write;

/// List and check the devices of the GPU engine
///
/// The GPU engine runs on any Vulkan 1.2 device, including software devices such as Mesa's llvmpipe. A
/// machine without a device needs none: the CPU engine gives the same answers.
#[derive(Debug, Args)]
#[command(after_help = after_help())]
pub struct GpuArgs {
    #[command(subcommand)]
    command: GpuCommand,
}

fn after_help() -> String {
    format!(
        "Examples:
  lanefs gpu list
  lanefs gpu check
  lanefs gpu check --device llvmpipe

Exit codes: {} a device works, {} wrong usage, {} there is no device, or a kernel answers wrongly on it.",
        exit::OK,
        exit::USAGE,
        exit::HOST
    )
}

#[derive(Debug, Subcommand)]
enum GpuCommand {
    /// List the devices of this machine, and the features that each lacks
    List {
        /// Print one JSON object per line
        #[arg(long)]
        json: bool,
    },
    /// Build every kernel and run its known-answer test
    Check {
        /// Device from `lanefs gpu list`: number, UUID, PCI address or a part of the name [default: the best]
        #[arg(long, value_name = "DEVICE")]
        device: Option<Choice>,
    },
}

impl GpuArgs {
    /// Executes the command.
    ///
    /// # Errors
    /// No device works, or the output fails.
    pub fn execute(&self) -> Outcome {
        let mut out = console::output();
        match &self.command {
            GpuCommand::List { json } => {
                let all = devices().map_err(|error| gpu_failure(&error))?;
                if all.is_empty() {
                    return Err(gpu_failure(&Error::NoDevice(None)));
                }
                for device in &all {
                    let line = if *json { as_json(device) } else { as_text(device) };
                    writeln!(out, "{line}")?;
                }
            }
            GpuCommand::Check { device } => {
                let gpu = Gpu::open_probed(&device.clone().unwrap_or_default())
                    .map_err(|error| gpu_failure(&error))?;
                writeln!(out, "{}", as_text(gpu.info()))?;
                for probed in gpu.probes() {
                    let milliseconds = probed.took.as_secs_f64() * 1e3;
                    writeln!(out, "  {}: correct, in {milliseconds:.1} ms", probed.kernels)?;
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
        "{number}: {name} ({}, {driver}, Vulkan {major}.{minor}.{patch}): {} MiB{}, subgroups of {}, workgroups of up to {}",
        kind.text(),
        device.memory >> 20,
        device.free_memory.map(|free| format!(" ({} free)", free >> 20)).unwrap_or_default(),
        device.subgroup,
        device.workgroup,
    );
    if let Some(address) = device.pci {
        text += &format!(", PCI {address}");
    }
    text += &format!(", UUID {}", device.uuid);
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
        "vendor": device.vendor,
        "uuid": device.uuid.to_string(),
        "pci": device.pci.map(|address| address.to_string()),
        "driver": device.driver,
        "vulkan": format!("{major}.{minor}.{patch}"),
        "memory": device.memory,
        "free_memory": device.free_memory,
        "subgroup": device.subgroup,
        "workgroup": device.workgroup,
        "lacks": device.lacks,
    })
    .to_string()
}
