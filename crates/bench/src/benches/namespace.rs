//! `lanefs-bench namespace`: paths, directories and files of LaneFS beside ext4 and tmpfs.
//!
//! Rows that need the same files form a *part*. Each part gets new file systems, measures its rows run by run
//! on each system in turn, and removes everything again. A note reports a part that fails, and the others
//! continue.

mod bench;
mod chain;
mod flat;
mod import;
mod importer;
mod listing;
mod resolve;
mod rows;
mod subdirectories;
mod wide;

pub use crate::session::{EXIT_DONE, EXIT_FAILED, EXIT_STOPPED};
pub use importer::{Import, ImportRequest};
pub use rows::row_names;

use crate::error::Result;
use crate::measure::stop::Stop;
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
}

/// Parts that a caller may replace.
#[derive(Clone, Default)]
pub struct Hooks {
    /// Import of a tree into a new file volume; `None`: as `lanefs mkfs` and `lanefs import` do.
    pub import: Option<Import>,
    /// Stop flag of the caller; `None`: a handler for Ctrl-C is installed.
    pub stop: Option<Stop>,
    /// Sizes for tests, in place of those of a full or quick run; the goals apply to the full ones.
    pub sizes: Option<Sizes>,
}

/// Runs the benchmark and replaces nothing.
///
/// # Errors
/// As [`run_namespace_with`].
pub fn run_namespace(args: &NamespaceArgs) -> Result<u8> {
    run_namespace_with(args, &Hooks::default())
}

/// Runs the benchmark: progress to standard error, the table to standard output, the JSON object to a file if
/// requested. Returns the exit code ([`EXIT_DONE`], [`EXIT_FAILED`], [`EXIT_STOPPED`]).
///
/// # Errors
/// [`crate::Error::Arguments`] and unreadable directories before anything is measured.
pub fn run_namespace_with(args: &NamespaceArgs, hooks: &Hooks) -> Result<u8> {
    let quick = args.common.quick;
    let sizes = hooks.sizes.unwrap_or(if quick { Sizes::QUICK } else { Sizes::FULL });
    let settings = Settings { quick, sizes, import: hooks.import.clone(), tree: args.tree.clone() };
    Session::start("namespace", &args.common, &row_names(&sizes), hooks.stop.clone(), settings)?
        .finish(measure)
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
