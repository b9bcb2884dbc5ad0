//! `lanefs-bench namespace`: paths, directories and files of LaneFS beside ext4 and tmpfs.
//!
//! Rows that need the same files form a *part*. Each part gets new file systems, measures its rows run by run
//! on each system in turn, and removes everything again. A note reports a part that fails, and the others
//! continue.

mod bench;
mod chain;
mod flat;
mod import;
mod listing;
mod resolve;
mod rows;
mod subdirectories;
mod wide;

pub use rows::row_names;

use crate::error::Result;
use crate::session::{CommonArgs, Session};
use crate::systems::workload::Sizes;
use bench::{NamespaceBench, Settings};
use std::path::PathBuf;

/// Arguments of `lanefs-bench namespace`.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct NamespaceArgs {
    #[command(flatten)]
    /// Arguments of every benchmark.
    pub common: CommonArgs,
    /// Tree that the row import-tree imports [default: /usr, with --quick /usr/share/doc]
    #[arg(long, value_name = "DIR")]
    pub tree: Option<PathBuf>,
    /// Sizes for tests, in place of those of a full or quick run; the goals apply to the full ones.
    #[arg(skip)]
    pub sizes: Option<Sizes>,
}

/// Runs the benchmark and reports; returns an exit code of [`crate::session`].
///
/// # Errors
/// [`crate::Error::Arguments`] and unreadable directories before anything is measured.
pub fn run_namespace(args: &NamespaceArgs) -> Result<u8> {
    let quick = args.common.quick;
    let sizes = args.sizes.unwrap_or(if quick { Sizes::QUICK } else { Sizes::FULL });
    let settings = Settings { quick, sizes, tree: args.tree.clone() };
    Session::start("namespace", &args.common, &row_names(&sizes), settings)?.finish(measure)
}

/// Measures all parts; fails only if the user stopped it.
fn measure(bench: &mut NamespaceBench) -> Result<()> {
    bench.part(
        "resolve",
        &["resolve-random-1t", "resolve-random-2t", "resolve-absent-1t"],
        resolve::measure,
    )?;
    let wide = bench.settings.sizes.wide_steps().into_iter().map(rows::wide_name).collect::<Vec<_>>();
    bench.part("lookup-wide", &wide, wide::measure)?;
    bench.part("flat", &["create-flat", "unlink-flat", "bytes-per-file"], flat::measure)?;
    bench.part("chain", &["chain-create", "chain-lookup"], chain::measure)?;
    bench.part("wide", &["wide-mkdir", "wide-lookup"], subdirectories::measure)?;
    bench.part("readdir-stat", &["readdir-stat"], listing::measure)?;
    bench.part("import-tree", &["import-tree"], import::measure)
}
