//! `lanefs-bench concurrency`: threads that read and write at once, what guarding them costs, and how fast data comes in.
//!
//! Beside ext4 and tmpfs through system calls, as in [`crate::namespace`], stand two peers of another kind: LaneFS's own
//! code with its concurrency control bypassed (`sequential`), and `fio`, which does nothing but read.

mod bench;
mod durable;
mod files;
mod fill;
mod fio;
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

use crate::Result;
use crate::session::{CommonArgs, Session};
use crate::stop::Stop;
use bench::{ConcurrencyBench, Settings};
use rows::ReadCall;

/// Arguments of `lanefs-bench concurrency`.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct ConcurrencyArgs {
    /// What every benchmark takes.
    #[command(flatten)]
    pub common: CommonArgs,
}

/// What the program around the benchmark brings along.
#[derive(Clone, Default)]
pub struct ConcurrencyHooks {
    /// The program's own stop flag; `None`: a handler for Ctrl-C is installed.
    pub stop: Option<Stop>,
    /// Sizes other than those of a full or quick run: for tests. The goals are stated for the full ones.
    pub sizes: Option<Sizes>,
}

/// Runs the benchmark with nothing brought along.
///
/// # Errors
/// As [`run_concurrency_with`].
pub fn run_concurrency(args: &ConcurrencyArgs) -> Result<u8> {
    run_concurrency_with(args, &ConcurrencyHooks::default())
}

/// Runs the benchmark: progress on standard error, tables on standard output, the JSON object where asked for. Returns the
/// exit code ([`crate::session::EXIT_DONE`], [`crate::session::EXIT_FAILED`], [`crate::session::EXIT_STOPPED`]).
///
/// # Errors
/// [`crate::Error::Arguments`] and unreadable directories before anything was measured.
pub fn run_concurrency_with(args: &ConcurrencyArgs, hooks: &ConcurrencyHooks) -> Result<u8> {
    let sizes = hooks.sizes.unwrap_or(if args.common.quick { Sizes::QUICK } else { Sizes::FULL });
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let names = row_names(&sizes, cores);
    Session::start("concurrency", &args.common, &names, hooks.stop.clone(), Settings { sizes })?
        .finish(measure)
}

/// All parts; fails only where it was stopped.
fn measure(bench: &mut ConcurrencyBench) -> Result<()> {
    let sizes = bench.settings.sizes;
    bench.part("warm", &rows::warm_names(bench.report.machine.cores), warm::measure)?;
    bench.part("overhead", &ReadCall::ALL.map(rows::overhead_name), overhead::measure)?;
    bench.part("hits-during-misses", &["hits-during-misses"], misses::measure)?;
    bench.part("fill", &["fill-sequential", "fill-random"], fill::measure)?;
    bench.part("memfs", &rows::memfs_names(&sizes), memfs::measure)?;
    bench.part("durable", &["durable-create-fsync", "durable-batch-sync"], durable::measure)
}
