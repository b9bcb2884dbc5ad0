//! `lanefs-bench gpu`: lookups, changes and searches by the GPU engine beside the CPU engine and ext4.
//!
//! The report's machine names the device, whose values stand under `lanefs`. `cpu` is LaneFS's own engine on
//! one thread, on the same volume.

mod auto;
mod bench;
mod changes;
mod column_args;
mod columns;
mod find;
mod lookup_engine;
mod lookups;
mod maker;
mod paths;
mod rows;
mod sectors;
mod texts;

pub use column_args::{Answers, ColumnArgs, Source};
pub use rows::row_names;

use crate::error::{Error, Result};
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
    /// Sizes for tests, in place of those of a full or quick run; the goals apply to the full ones.
    #[arg(skip)]
    pub sizes: Option<Sizes>,
}

/// Runs the benchmark and reports; returns an exit code of [`crate::session`].
///
/// # Errors
/// [`Error::Arguments`] and unreadable directories before anything is measured; [`Error::Device`] without a
/// device that works.
pub fn run_gpu(args: &GpuArgs) -> Result<u8> {
    let mut sizes = args.sizes.unwrap_or(if args.common.quick { Sizes::QUICK } else { Sizes::FULL });
    sizes.tree_files = args.columns.files.map_or(sizes.tree_files, |files| files as usize);
    let gpu =
        Gpu::open(&args.device.clone().unwrap_or_default()).map_err(Error::device("opening the device"))?;
    let device = format!("{} ({})", gpu.info().name, gpu.info().driver);
    let settings = Settings { sizes, columns: args.columns.clone(), gpu: Arc::new(gpu) };
    let mut session = Session::start("gpu", &args.common, &row_names(), settings)?;
    session.report.machine.gpu = device;
    session.finish(measure)
}

/// Measures all parts; fails only if the user stopped it.
fn measure(bench: &mut GpuBench) -> Result<()> {
    bench.part("paths", &paths::row_names(), paths::measure)?;
    if bench.settings.columns.is_alone() {
        return Ok(());
    }
    bench.part("auto", &auto::row_names(), auto::measure)?;
    bench.part("latency", &["gpu-latency-dispatch"], lookups::latency)?;
    bench.part("chain", &["gpu-chain-lookup"], lookups::chain)?;
    bench.part("wide", &["gpu-wide-lookup"], lookups::wide)?;
    bench.part("create", &["gpu-create", "gpu-unlink"], changes::files)?;
    bench.part("create in one", &["gpu-create-flat"], changes::flat_files)?;
    bench.part("mkdir all", &["gpu-mkdir-all"], changes::directories)?;
    bench.part("wide create", &["gpu-wide-create"], changes::wide)?;
    bench.part("chain create", &["gpu-chain-create"], changes::chain)?;
    bench.part("sectors", &["gpu-sectors-cache", "gpu-sectors-tree"], sectors::measure)?;
    bench.part("texts", &texts::ROWS, texts::measure)
}
