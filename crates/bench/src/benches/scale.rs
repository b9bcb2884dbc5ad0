//! `lanefs-bench scale`: the same work on volumes of 1 GiB to 1 PiB, and on few and many things of a kind.
//!
//! LaneFS is compared with itself: what a volume's size does not matter for takes as long on each. Each step
//! runs in a process of its own ([`run_scale_worker`]), whose memory is then that of the step.

mod image;
mod items;
mod packed;
mod rows;
mod sizes;
mod steps;
mod worker;

pub use rows::row_names;
pub use worker::{ScaleWorkerArgs, run_scale_worker};

use crate::error::{Error, Result};
use crate::session::{CommonArgs, Session};
use std::path::PathBuf;

const GIB: u64 = 1 << 30;
const TIB: u64 = 1 << 40;

/// Arguments of `lanefs-bench scale`.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct ScaleArgs {
    #[command(flatten)]
    /// Arguments of every benchmark.
    pub common: CommonArgs,
    /// Largest volume in TiB; the format's own limit is 2048 [default: 1024, with --quick 16]
    #[arg(long, value_name = "TIB", value_parser = clap::value_parser!(u64).range(1..=2048))]
    pub largest: Option<u64>,
    /// Sizes for tests, in place of those of a full or quick run.
    #[arg(skip)]
    pub sizes: Option<ScaleSizes>,
    /// Program that serves as the worker; `None`: this one.
    #[arg(skip)]
    pub program: Option<PathBuf>,
    /// Takes the host for one whose files hold no volume of these sizes.
    #[arg(skip)]
    pub packed: bool,
}

/// Sizes of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScaleSizes {
    /// Sizes of volumes in bytes; all are compared with the first.
    pub volumes: Vec<u64>,
    /// Files that are made in each.
    pub creates: u64,
    /// MiB that are written in each, half of the volume at most.
    pub written: u64,
    /// Entries of one directory.
    pub entries: u64,
    /// Links of a file, attributes, extents of a file.
    pub many: u64,
    /// Levels of directories.
    pub levels: u64,
    /// Open files, and files without a name when the volume is opened.
    pub handles: u64,
}

impl ScaleSizes {
    fn full() -> Self {
        ScaleSizes {
            volumes: vec![GIB, TIB, 16 * TIB, 256 * TIB, 1024 * TIB],
            creates: 10_000,
            written: 1024,
            entries: 10_000_000,
            many: 1_000_000,
            levels: 50_000,
            handles: 100_000,
        }
    }

    fn quick() -> Self {
        let volumes = vec![GIB, TIB, 16 * TIB];
        ScaleSizes { volumes, written: 64, entries: 100_000, many: 100_000, ..ScaleSizes::full() }
    }
}

/// Runs the benchmark and reports; returns an exit code of [`crate::session`].
///
/// # Errors
/// [`Error::Arguments`] before anything is measured.
pub fn run_scale(args: &ScaleArgs) -> Result<u8> {
    let common = &args.common;
    if common.ext4.is_some() || common.tmpfs.is_some() {
        return Err(Error::Arguments("--ext4, --tmpfs: no file system takes part in this benchmark".into()));
    }
    let usual = if common.quick { ScaleSizes::quick() } else { ScaleSizes::full() };
    let mut sizes = args.sizes.clone().unwrap_or(usual);
    if let Some(largest) = args.largest {
        sizes.volumes = ScaleSizes::full().volumes;
        sizes.volumes.retain(|&bytes| bytes < largest * TIB);
        sizes.volumes.push(largest * TIB);
    }
    let program = match &args.program {
        Some(program) => program.clone(),
        None => std::env::current_exe().map_err(Error::host("the program's own path"))?,
    };
    let settings = steps::Settings { sizes, program, packed: args.packed };
    Session::start("scale", common, &row_names(), settings)?.finish(|bench| {
        bench.part("sizes", &names(&rows::SIZES), sizes::measure)?;
        bench.part("items", &names(&rows::ITEMS), sizes::measure_items)
    })
}

fn names(rows: &[rows::RowOf]) -> Vec<&'static str> {
    rows.iter().map(|(name, ..)| *name).collect()
}
