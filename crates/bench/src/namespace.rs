//! `lanefs bench namespace`: paths, directories and files of LaneFS beside ext4 and tmpfs.
//!
//! Rows that need the same files make up a *part*; each part gets new file systems, measures its rows run by run on
//! each system in turn, and takes everything away again. A part that fails is told and the others go on.

mod bench;
mod chain;
mod flat;
mod import;
mod listing;
mod resolve;
mod rows;
mod subdirectories;
mod wide;

pub use import::{Import, ImportRequest};
pub use rows::row_names;

use crate::machine::Machine;
use crate::peers::Peers;
use crate::progress::Progress;
use crate::report::Report;
use crate::stop::Stop;
use crate::workload::Sizes;
use crate::{Error, Result};
use bench::Bench;
use rows::Selection;
use std::fs::File;
use std::io::Write;
use std::path::PathBuf;

/// Exit code where every row was measured, whether or not it reached its goal.
pub const EXIT_DONE: u8 = 0;
/// Exit code where a part failed, or the report could not be written.
pub const EXIT_FAILED: u8 = 1;
/// Exit code after Ctrl-C.
pub const EXIT_STOPPED: u8 = 130;

/// Processes that wait for or use a core, averaged over a minute, from which on a run is disturbed.
const BUSY: f64 = 0.5;

/// Arguments of `lanefs bench namespace`.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct NamespaceArgs {
    /// Smaller sizes and three runs: about a minute
    #[arg(long)]
    pub quick: bool,
    /// Write the results as one JSON object to FILE as well
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Measure only rows whose name matches, e.g. 'lookup-wide-*' or '{create,unlink}-flat'
    #[arg(long, value_name = "GLOB")]
    pub rows: Option<String>,
    /// Runs of each row; the median counts [default: 5, with --quick 3]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub runs: Option<u32>,
    /// A directory on ext4 to compare with, instead of an own image (which takes root)
    #[arg(long, value_name = "DIR")]
    pub ext4: Option<PathBuf>,
    /// A directory on tmpfs to compare with, instead of an own mount (which takes root)
    #[arg(long, value_name = "DIR")]
    pub tmpfs: Option<PathBuf>,
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
/// [`Error::Arguments`] and unreadable directories before anything was measured.
pub fn run_namespace_with(args: &NamespaceArgs, hooks: &Hooks) -> Result<u8> {
    let sizes = hooks.sizes.unwrap_or(if args.quick { Sizes::QUICK } else { Sizes::FULL });
    let selection = Selection::new(args.rows.as_deref(), &sizes)?;
    let peers = Peers { ext4: args.ext4.clone(), tmpfs: args.tmpfs.clone() };
    peers.check()?;
    // Opened first: a name that cannot be written must not be found out after a quarter of an hour.
    let json = args.json.as_ref().map(|path| {
        File::create(path).map_err(Error::host(path.display().to_string())).map(|file| (path, file))
    });
    let json = json.transpose()?;
    let mut bench = Bench {
        quick: args.quick,
        sizes,
        runs: args.runs.map_or(if args.quick { 3 } else { 5 }, |runs| runs as usize),
        selection,
        peers,
        import: hooks.import.clone(),
        tree: args.tree.clone(),
        stop: hooks.stop.clone().unwrap_or_else(Stop::on_signal),
        progress: Progress::new(),
        report: Report {
            bench: "namespace".into(),
            commit: crate::machine::commit(),
            machine: Machine::detect(),
            ..Report::default()
        },
        failed: false,
    };
    if let Some(load) = crate::machine::load().filter(|&load| load >= BUSY) {
        bench.note(format!(
            "the machine was busy at the start (load {load:.1}): its values scatter, 2t rows suffer most"
        ));
    }
    let stopped = measure(&mut bench).is_err();
    bench.progress.finish();
    let mut out = std::io::stdout().lock();
    // A reader that went away (`| head`) is no failure of the benchmark.
    let _ = out.write_all(bench.report.table().as_bytes());
    if stopped {
        bench.progress.note("stopped; the rows above are complete, the others were not measured");
        return Ok(EXIT_STOPPED);
    }
    if let Some((path, mut file)) = json {
        let text = bench.report.json() + "\n";
        file.write_all(text.as_bytes()).map_err(Error::host(path.display().to_string()))?;
    }
    Ok(if bench.failed { EXIT_FAILED } else { EXIT_DONE })
}

/// All parts; fails only where it was stopped.
fn measure(bench: &mut Bench) -> Result<()> {
    bench.part(
        "resolve",
        &["resolve-random-1t", "resolve-random-2t", "resolve-absent-1t"],
        resolve::measure,
    )?;
    let wide = bench.sizes.wide_steps().into_iter().map(rows::wide_name).collect::<Vec<_>>();
    bench.part("lookup-wide", &wide.iter().map(String::as_str).collect::<Vec<_>>(), wide::measure)?;
    bench.part("flat", &["create-flat", "unlink-flat", "bytes-per-file"], flat::measure)?;
    bench.part("chain", &["chain-create", "chain-lookup"], chain::measure)?;
    bench.part("wide", &["wide-mkdir", "wide-lookup"], subdirectories::measure)?;
    bench.part("readdir-stat", &["readdir-stat"], listing::measure)?;
    bench.part("import-tree", &["import-tree"], import::measure)
}
