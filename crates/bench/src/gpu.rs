//! `lanefs-bench gpu`: lookups, searches and changes by the GPU engine beside the CPU engine and ext4.
//!
//! The values of `lanefs` are the device's, which the report's machine names; `cpu` is LaneFS's own engine on one thread, on the
//! same volume.

mod asker;
mod bench;
mod chain;
mod changes;
mod find;
mod latency;
mod maker;
mod paths;
mod rows;
mod sectors;
mod wide;

pub use rows::row_names;

use crate::session::{CommonArgs, Session};
use crate::stop::Stop;
use crate::workload::Sizes;
use crate::{Error, Result};
use bench::{GpuBench, Settings};
use lanefs_gpu::{Choice, Gpu};
use std::sync::Arc;

/// Arguments of `lanefs-bench gpu`.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct GpuArgs {
    /// What every benchmark takes.
    #[command(flatten)]
    pub common: CommonArgs,
    /// The device: its number, or a part of its name (`lanefs gpu list`); the best one without it
    #[arg(long, value_name = "DEVICE")]
    pub device: Option<Choice>,
}

/// What the program around the benchmark brings along.
#[derive(Clone, Default)]
pub struct GpuHooks {
    /// The program's own stop flag; `None`: a handler for Ctrl-C is installed.
    pub stop: Option<Stop>,
    /// Sizes other than those of a full or quick run: for tests.
    pub sizes: Option<Sizes>,
}

/// Runs the benchmark: progress on standard error, the table on standard output, the JSON object where asked for. Returns the
/// exit code ([`crate::session::EXIT_DONE`], [`crate::session::EXIT_FAILED`], [`crate::session::EXIT_STOPPED`]).
///
/// # Errors
/// [`Error::Arguments`] and unreadable directories before anything was measured; [`Error::Device`] without a device that works.
pub fn run_gpu_with(args: &GpuArgs, hooks: &GpuHooks) -> Result<u8> {
    let sizes = hooks.sizes.unwrap_or(if args.common.quick { Sizes::QUICK } else { Sizes::FULL });
    let gpu =
        Gpu::open(&args.device.clone().unwrap_or_default()).map_err(Error::device("opening the device"))?;
    let device = format!("{} ({})", gpu.info().name, gpu.info().driver);
    let settings = Settings { sizes, gpu: Arc::new(gpu) };
    let mut session = Session::start("gpu", &args.common, &row_names(), hooks.stop.clone(), settings)?;
    session.report.machine.gpu = device;
    session.finish(measure)
}

/// All parts; fails only where it was stopped.
fn measure(bench: &mut GpuBench) -> Result<()> {
    bench.part("paths", &["gpu-lookup-host", "gpu-lookup-resident", "gpu-find"], paths::measure)?;
    bench.part("latency", &["gpu-latency-dispatch"], latency::measure)?;
    bench.part("chain", &["gpu-chain-lookup"], chain::measure)?;
    bench.part("wide", &["gpu-wide-lookup"], wide::measure)?;
    bench.part("create", &["gpu-create", "gpu-unlink"], changes::files)?;
    bench.part("create in one", &["gpu-create-flat"], changes::flat_files)?;
    bench.part("mkdir all", &["gpu-mkdir-all"], changes::directories)?;
    bench.part("wide create", &["gpu-wide-create"], changes::wide)?;
    bench.part("chain create", &["gpu-chain-create"], changes::chain)?;
    bench.part("sectors", &["gpu-sectors-cache", "gpu-sectors-tree"], sectors::measure)
}
