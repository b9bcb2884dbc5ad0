//! `lanefs-bench search`: lines, equal files and fuzzy names, beside ripgrep, fclones, fzf and nucleo.
//!
//! LaneFS searches through its library in an open volume, as `lanefs grep`, `lanefs dups` and `lanefs pick`
//! do; its peers are programs as people run them. Each searches in the same files, and the answers are
//! compared. A note names each program that is missing.

mod files;
mod fuzzy;
mod programs;
mod rows;
mod sources;

pub use rows::row_names;

use crate::error::Result;
use crate::session::{CommonArgs, Session};
use rows::{FUZZY, file_rows};

/// Arguments of `lanefs-bench search`.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct SearchArgs {
    #[command(flatten)]
    /// Arguments of every benchmark.
    pub common: CommonArgs,
    /// Files in which lines and copies are found [default: 100000, with --quick 10000]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(10..=10_000_000))]
    pub files: Option<u32>,
    /// Files of which the names are found [default: 1000000, with --quick 100000]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000_000))]
    pub names: Option<u32>,
}

/// Sizes of a run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SearchSizes {
    files: usize,
    names: usize,
}

const FULL: SearchSizes = SearchSizes { files: 100_000, names: 1_000_000 };
const QUICK: SearchSizes = SearchSizes { files: 10_000, names: 100_000 };

/// Runs the benchmark and reports; returns an exit code of [`crate::session`].
///
/// # Errors
/// [`crate::Error::Arguments`] and unreadable directories before anything is measured.
pub fn run_search(args: &SearchArgs) -> Result<u8> {
    let usual = if args.common.quick { QUICK } else { FULL };
    let sizes = SearchSizes {
        files: args.files.map_or(usual.files, |files| files as usize),
        names: args.names.map_or(usual.names, |names| names as usize),
    };
    Session::start("search", &args.common, &row_names(), sizes)?.finish(|bench| {
        bench.part("files", &file_rows(), files::measure)?;
        bench.part("names", &[FUZZY], fuzzy::measure)
    })
}

/// Threads of LaneFS and of nucleo: one for each processor, as the programs have.
fn threads() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}
