//! `lanefs-bench publish`: publications on a real S3 server, over links of other latencies and bandwidths.
//!
//! The server, Versity's S3 gateway, runs on this machine. A link between it and its clients delays all data.
//! LaneFS publishes and reads through its libraries, as `lanefs publish` and `lanefs mount` do; its peers are
//! programs as people run them, over the same link, and plain ranged reads of as many bytes. A note names
//! each program that is missing.

mod link;
mod programs;
mod random_files;
mod reading;
mod rows;
mod server;
mod small_files;
mod tree;
mod writing;

pub use rows::row_names;

use crate::error::Result;
use crate::session::{CommonArgs, Session};
use crate::systems::temporary::temp_dir;
use crate::systems::trees;
use rows::{AGAIN, FAR_BATCH, NEAR_BATCH, PUBLISH, SHUFFLED, SIZE, TREE_ROWS};
use server::Server;
use std::path::{Path, PathBuf};
use tree::SourceTree;

/// Arguments of `lanefs-bench publish`.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct PublishArgs {
    #[command(flatten)]
    /// Arguments of every benchmark.
    pub common: CommonArgs,
    /// Tree that is published [default: /usr, with --quick /usr/share/doc]
    #[arg(long, value_name = "DIR")]
    pub tree: Option<PathBuf>,
    /// Small files, of which a tenth is read in random order [default: 20000, with --quick 2000]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(10..=10_000_000))]
    pub files: Option<u32>,
    /// The S3 server, versitygw [default: the one in PATH]
    #[arg(long, value_name = "PROGRAM")]
    pub server: Option<PathBuf>,
}

/// Settings of a run.
#[derive(Clone, Debug)]
pub(crate) struct PublishSettings {
    tree: PathBuf,
    files: usize,
    server: PathBuf,
}

/// Small files of a full run, and of a quick one.
const FILES: (usize, usize) = (20_000, 2_000);

/// Runs the benchmark and reports; returns an exit code of [`crate::session`].
///
/// # Errors
/// [`crate::Error::Arguments`], a server that does not start, and unreadable directories before anything is
/// measured.
pub fn run_publish(args: &PublishArgs) -> Result<u8> {
    let quick = args.common.quick;
    let settings = PublishSettings {
        tree: args.tree.clone().unwrap_or_else(|| trees::default_tree(quick)),
        files: args.files.map_or(if quick { FILES.1 } else { FILES.0 }, |files| files as usize),
        server: args.server.clone().unwrap_or_else(|| "versitygw".into()),
    };
    let bench = Session::start("publish", &args.common, &row_names(), settings)?;
    let temp = temp_dir()?;
    let server = Server::start(&bench.settings.server, &temp.path().join("server"), &bench.stop)?;
    bench.finish(|bench| {
        bench.part("a tree", &TREE_ROWS, |bench| measure_tree(bench, &server, temp.path()))?;
        let rows = [SHUFFLED, FAR_BATCH, NEAR_BATCH];
        bench.part("small files", &rows, |bench| {
            let (corpus, image) = small_files::measure(bench, &server, temp.path())?;
            random_files::measure(bench, &server, &corpus, &image)
        })
    })
}

/// Measures the selected rows of a tree.
fn measure_tree(bench: &mut Session<PublishSettings>, server: &Server, temp: &Path) -> Result<()> {
    bench.progress.step(&format!("copying {}", bench.settings.tree.display()));
    let tree = SourceTree::make(&bench.settings.tree, temp, &bench.stop)?;
    let rows = [PUBLISH, SIZE, AGAIN];
    let rounds = if rows.iter().any(|row| bench.selection.has(row)) { bench.runs } else { 1 };
    writing::measure(bench, server, &tree, rounds)?;
    reading::measure(bench, server, &tree)
}
