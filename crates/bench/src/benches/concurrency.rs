//! `lanefs-bench concurrency`: threads that read and write at once, the cost of concurrency control, and the
//! rate at which data becomes resident.
//!
//! Two peers stand beside ext4 and tmpfs, which are called as in [`crate::benches::namespace`]: LaneFS's own
//! code without its concurrency control (`sequential`), and `fio`, which only reads.

mod bench;
mod checksum;
mod durable;
mod files;
mod fill;
mod host;
mod lane;
mod memfs;
mod misses;
mod overhead;
mod paired;
mod rows;
mod sizes;
mod slow;
mod stamp;
mod usage;
mod warm;

pub use rows::row_names;
pub use sizes::Sizes;

use crate::error::Result;
use crate::session::{CommonArgs, Session};
use bench::{ConcurrencyBench, Settings};
use rows::ReadCall;

/// Arguments of `lanefs-bench concurrency`.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct ConcurrencyArgs {
    /// Arguments of every benchmark.
    #[command(flatten)]
    pub common: CommonArgs,
    /// Sizes for tests, in place of those of a full or quick run; the goals apply to the full ones.
    #[arg(skip)]
    pub sizes: Option<Sizes>,
}

/// Runs the benchmark and reports; returns an exit code of [`crate::session`].
///
/// # Errors
/// [`crate::Error::Arguments`] and unreadable directories before anything is measured.
pub fn run_concurrency(args: &ConcurrencyArgs) -> Result<u8> {
    let sizes = args.sizes.unwrap_or(if args.common.quick { Sizes::QUICK } else { Sizes::FULL });
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let names = row_names(&sizes, cores);
    Session::start("concurrency", &args.common, &names, Settings { sizes })?.finish(measure)
}

/// Measures all parts; fails only if the user stopped it.
fn measure(bench: &mut ConcurrencyBench) -> Result<()> {
    let sizes = bench.settings.sizes;
    bench.part("warm", &rows::warm_names(bench.report.machine.cores), warm::measure)?;
    bench.part("overhead", &ReadCall::ALL.map(rows::overhead_name), overhead::measure)?;
    bench.part("hits-during-misses", &["hits-during-misses"], misses::measure)?;
    bench.part("fill", &["fill-sequential", "fill-random"], fill::measure)?;
    bench.part("memfs", &rows::memfs_names(&sizes), memfs::measure)?;
    bench.part("durable", &["durable-create-fsync", "durable-batch-sync"], durable::measure)?;
    bench.part("data-checksum", &["data-checksum"], checksum::measure)
}
