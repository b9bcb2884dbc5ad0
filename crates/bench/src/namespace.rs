//! `lanefs-bench namespace`: paths, directories and files of LaneFS beside ext4 and tmpfs.
//!
//! Rows that need the same files make up a *part*; each part gets new file systems, measures its rows run by run on
//! each system in turn, and takes everything away again. A part that fails is told and the others go on.

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

use crate::Result;
use crate::session::{CommonArgs, Session};
use crate::stop::Stop;
use crate::workload::Sizes;
use bench::{NamespaceBench, Settings};
use std::path::PathBuf;

/// Arguments of `lanefs-bench namespace`.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct NamespaceArgs {
    #[command(flatten)]
    /// What every benchmark takes.
    pub common: CommonArgs,
    /// What the row import-tree imports [default: /usr, with --quick /usr/share/doc]
    #[arg(long, value_name = "DIR")]
    pub tree: Option<PathBuf>,
}

/// What the program around the benchmark brings along.
#[derive(Clone, Default)]
pub struct Hooks {
    /// Imports a tree into a new file volume; `None`: as `lanefs mkfs` and `lanefs import` do.
    pub import: Option<Import>,
    /// The program's own stop flag; `None`: a handler for Ctrl-C is installed.
    pub stop: Option<Stop>,
    /// Sizes other than those of a full or quick run: for tests. The goals are stated for the full ones.
    pub sizes: Option<Sizes>,
}

/// Runs the benchmark with nothing brought along.
///
/// # Errors
/// As [`run_namespace_with`].
pub fn run_namespace(args: &NamespaceArgs) -> Result<u8> {
    run_namespace_with(args, &Hooks::default())
}

/// Runs the benchmark: progress on standard error, the table on standard output, the JSON object where asked for.
/// Returns the exit code ([`EXIT_DONE`], [`EXIT_FAILED`], [`EXIT_STOPPED`]).
///
/// # Errors
/// [`crate::Error::Arguments`] and unreadable directories before anything was measured.
pub fn run_namespace_with(args: &NamespaceArgs, hooks: &Hooks) -> Result<u8> {
    let quick = args.common.quick;
    let sizes = hooks.sizes.unwrap_or(if quick { Sizes::QUICK } else { Sizes::FULL });
    let settings = Settings { quick, sizes, import: hooks.import.clone(), tree: args.tree.clone() };
    Session::start("namespace", &args.common, &row_names(&sizes), hooks.stop.clone(), settings)?
        .finish(measure)
}

/// All parts; fails only where it was stopped.
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
