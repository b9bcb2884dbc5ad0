//! `lanefs-bench alloc`: the general-purpose allocator of LaneFS beside the ones that people preload.
//!
//! Each run of each allocator is a process of its own ([`worker`]), started with the allocator's library
//! preloaded. LaneFS takes part in the same way: as the library `liblanefs_alloc.so`, by its C functions.

mod allocators;
mod bench;
#[allow(unsafe_code, reason = "malloc and free are C functions")]
mod calls;
mod crew;
mod goals;
mod instructions;
#[allow(unsafe_code, reason = "the loader is asked for the library of malloc")]
mod loaded;
mod rates;
mod resident;
#[allow(unsafe_code, reason = "blocks go through the ring as pointers")]
mod ring;
mod rows;
mod sizes;
pub mod worker;
mod workload;

pub use rows::row_names;
pub use sizes::Sizes;
pub use worker::{WorkerArgs, run_worker};

use super::blocks;
use crate::error::{Error, Result};
use crate::session::{CommonArgs, Session};
use allocators::LibraryPaths;
use bench::{AllocBench, Settings};
use std::path::PathBuf;

/// Arguments of `lanefs-bench alloc`.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct AllocArgs {
    /// Arguments of every benchmark.
    #[command(flatten)]
    pub common: CommonArgs,
    /// Sizes for tests, in place of those of a full or quick run; the goals apply to the full ones.
    #[arg(skip)]
    pub sizes: Option<Sizes>,
    /// Program that serves as the worker, with the libraries beside it; `None`: this one.
    #[arg(skip)]
    pub program: Option<PathBuf>,
}

/// Runs the benchmark and reports; returns an exit code of [`crate::session`].
///
/// # Errors
/// [`Error::Arguments`], and [`Error::Library`] without the library of LaneFS, before anything is measured.
pub fn run_alloc(args: &AllocArgs) -> Result<u8> {
    let common = &args.common;
    if common.ext4.is_some() || common.tmpfs.is_some() {
        return Err(Error::Arguments("--ext4, --tmpfs: no file system takes part in this benchmark".into()));
    }
    let sizes = args.sizes.unwrap_or(if common.quick { Sizes::QUICK } else { Sizes::FULL });
    let program = match &args.program {
        Some(program) => program.clone(),
        None => std::env::current_exe().map_err(Error::host("the program's own path"))?,
    };
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let settings = Settings { sizes, program: program.clone(), allocators: Vec::new() };
    let mut session = Session::start("alloc", common, &row_names(cores), settings)?;
    if rows::heap_names(cores).iter().any(|name| session.selection.has(name)) {
        let found = LibraryPaths::of(program).find()?;
        session.settings.allocators = found.allocators;
        found.notes.into_iter().for_each(|note| session.note(note));
    }
    session.finish(measure)
}

/// Measures all parts; fails only if the user stopped it.
fn measure(bench: &mut AllocBench) -> Result<()> {
    bench.part("instructions", &rows::COUNTED.map(rows::instructions_name), instructions::measure)?;
    for what in rows::measurements(bench.report.machine.cores) {
        bench.part(&what.rate_row, &what.rows(), |bench| rates::measure(bench, &what))?;
    }
    let sizes = bench.settings.sizes.blocks;
    bench.part("blocks", &blocks::row_names(bench.report.machine.cores), |bench| {
        blocks::measure(bench, &sizes)
    })
}
