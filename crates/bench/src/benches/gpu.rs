//! `lanefs-bench gpu`: lookups, changes and searches by the GPU engine beside the CPU engine and ext4.
//!
//! The report's machine names the device, whose values stand under `lanefs`. `cpu` is LaneFS's own engine on
//! one thread, on the same volume.

mod bench;
mod chain;
mod changes;
mod column_args;
mod columns;
mod find;
mod latency;
mod lookup_engine;
mod maker;
mod paths;
mod rows;
mod sectors;
mod texts;
mod wide;

pub use column_args::{Answers, ColumnArgs, Source};
pub use rows::row_names;

use crate::error::{Error, Result};
use crate::measure::stop::Stop;
use crate::session::{CommonArgs, Session};
use crate::systems::workload::Sizes;
use bench::{GpuBench, Settings};
use lanefs_gpu::{Choice, Gpu};
use std::sync::Arc;

/// Arguments of `lanefs-bench gpu`.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct GpuArgs {
    /// Arguments of every benchmark.
    #[command(flatten)]
    pub common: CommonArgs,
    /// The device: its number, or a part of its name, as `lanefs gpu list` has them [default: the best one]
    #[arg(long, value_name = "DEVICE")]
    pub device: Option<Choice>,
    /// Size and choice of the rows of columns.
    #[command(flatten)]
    pub columns: ColumnArgs,
}

/// Parts that a caller may replace.
#[derive(Clone, Default)]
pub struct GpuHooks {
    /// Stop flag of the caller; `None`: a handler for Ctrl-C is installed.
    pub stop: Option<Stop>,
    /// Sizes for tests, in place of those of a full or quick run.
    pub sizes: Option<Sizes>,
}

/// Runs the benchmark: progress to standard error, the table to standard output, the JSON object to a file if
/// requested. Returns the exit code ([`crate::session::EXIT_DONE`], [`crate::session::EXIT_FAILED`],
/// [`crate::session::EXIT_STOPPED`]).
///
/// # Errors
/// [`Error::Arguments`] and unreadable directories before anything is measured; [`Error::Device`] without a
/// device that works.
pub fn run_gpu_with(args: &GpuArgs, hooks: &GpuHooks) -> Result<u8> {
    let mut sizes = hooks.sizes.unwrap_or(if args.common.quick { Sizes::QUICK } else { Sizes::FULL });
    sizes.tree_files = args.columns.files.map_or(sizes.tree_files, |files| files as usize);
    let gpu =
        Gpu::open(&args.device.clone().unwrap_or_default()).map_err(Error::device("opening the device"))?;
    let device = format!("{} ({})", gpu.info().name, gpu.info().driver);
    let settings = Settings { sizes, columns: args.columns.clone(), gpu: Arc::new(gpu) };
    let mut session = Session::start("gpu", &args.common, &row_names(), hooks.stop.clone(), settings)?;
    session.report.machine.gpu = device;
    session.finish(measure)
}

/// Measures all parts; fails only if the user stopped it.
fn measure(bench: &mut GpuBench) -> Result<()> {
    bench.part("paths", &paths::row_names(), paths::measure)?;
    if bench.settings.columns.is_alone() {
        return Ok(());
    }
    bench.part("latency", &["gpu-latency-dispatch"], latency::measure)?;
    bench.part("chain", &["gpu-chain-lookup"], chain::measure)?;
    bench.part("wide", &["gpu-wide-lookup"], wide::measure)?;
    bench.part("create", &["gpu-create", "gpu-unlink"], changes::files)?;
    bench.part("create in one", &["gpu-create-flat"], changes::flat_files)?;
    bench.part("mkdir all", &["gpu-mkdir-all"], changes::directories)?;
    bench.part("wide create", &["gpu-wide-create"], changes::wide)?;
    bench.part("chain create", &["gpu-chain-create"], changes::chain)?;
    bench.part("sectors", &["gpu-sectors-cache", "gpu-sectors-tree"], sectors::measure)?;
    bench.part("texts", &texts::ROWS, texts::measure)
}
