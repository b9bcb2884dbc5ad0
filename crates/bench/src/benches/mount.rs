//! `lanefs-bench mount`: a mounted volume beside ext4, tmpfs and the limit of the kernel's interface, a FUSE
//! passthrough to tmpfs; where files are only read, beside SquashFS.
//!
//! System calls measure all of them. The kernel's caches are dropped before each measurement, so that the
//! file systems answer and not the kernel; this needs root.

mod bench;
mod build;
mod c_project;
mod cold;
mod data;
mod list;
mod metadata;
mod passthrough;
mod processors;
mod random_reads;
mod requests;
mod rows;
mod sample_tree;
mod sizes;
mod squash;
mod tree;

pub use passthrough::{PassthroughArgs, run_passthrough};
pub use rows::row_names;
pub use sizes::Sizes;

use crate::error::{Error, Result};
use crate::session::{CommonArgs, Session};
use bench::{MountBench, Settings};

/// Arguments of `lanefs-bench mount`.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct MountArgs {
    /// Arguments of every benchmark.
    #[command(flatten)]
    pub common: CommonArgs,
    /// Way of the kernel's requests to LaneFS: dev, or uring where the kernel's fuse module uses rings
    #[arg(long, value_name = "WAY", value_parser = ["dev", "uring"], default_value = "dev")]
    pub transport: String,
}

/// Runs the benchmark and reports; returns an exit code of [`crate::session`].
///
/// # Errors
/// [`Error::Arguments`] and unreadable directories before anything is measured.
pub fn run_mount(args: &MountArgs) -> Result<u8> {
    if !rustix::process::geteuid().is_root() {
        let message = "the benchmark `mount` needs root: it drops the kernel's caches between measurements";
        return Err(Error::Arguments(message.into()));
    }
    let sizes = if args.common.quick { Sizes::QUICK } else { Sizes::FULL };
    let own = std::env::current_exe().map_err(Error::host("the path of this program"))?;
    let lanefs = own.with_file_name("lanefs");
    if !lanefs.is_file() {
        return Err(Error::Program(format!(
            "there is no {}; `cargo build --release --bin lanefs` builds it",
            lanefs.display()
        )));
    }
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let settings = Settings { sizes, lanefs, own, transport: args.transport.clone() };
    Session::start("mount", &args.common, &row_names(cores), settings)?.finish(measure)
}

/// Measures all parts; fails only if the user stopped it.
fn measure(bench: &mut MountBench) -> Result<()> {
    bench.part("metadata", &rows::metadata_names(bench.report.machine.cores), metadata::measure)?;
    bench.part("a large file", &rows::DATA, data::measure)?;
    bench.part("random blocks", &rows::RANDOM, random_reads::measure)?;
    bench.part("small files", &[rows::COLD], cold::measure)?;
    bench.part("ls -lR", &[rows::LIST], list::measure)?;
    bench.part("a tree", &rows::TREE, tree::measure)?;
    bench.part("a build", &rows::BUILD, build::measure)
}
