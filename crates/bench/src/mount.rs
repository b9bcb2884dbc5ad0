//! `lanefs-bench mount`: a mounted volume beside ext4 and tmpfs, and beside the limit of the kernel's interface: a FUSE
//! file system that hands everything on to tmpfs.
//!
//! All of them are used by system calls. What the kernel has cached is forgotten before each measurement, so that the file systems
//! answer and not the kernel; this takes root.

mod bench;
mod data;
mod list;
mod metadata;
mod passthrough;
mod processors;
mod rows;
mod served;
mod sizes;

pub use passthrough::{PassthroughArgs, run_passthrough};
pub use rows::row_names;
pub use sizes::Sizes;

use crate::session::{CommonArgs, Session};
use crate::stop::Stop;
use crate::{Error, Result};
use bench::{MountBench, Settings};
use std::path::PathBuf;

/// Arguments of `lanefs-bench mount`.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct MountArgs {
    /// What every benchmark takes.
    #[command(flatten)]
    pub common: CommonArgs,
}

/// What the program around the benchmark brings along.
#[derive(Clone, Default)]
pub struct MountHooks {
    /// The program's own stop flag; `None`: a handler for Ctrl-C is installed.
    pub stop: Option<Stop>,
    /// Sizes other than those of a full or quick run: for tests. The goals are stated for the full ones.
    pub sizes: Option<Sizes>,
    /// The program `lanefs`; `None`: the one beside this program.
    pub lanefs: Option<PathBuf>,
}

/// Runs the benchmark: progress on standard error, tables on standard output, the JSON object where asked for. Returns the
/// exit code ([`crate::session::EXIT_DONE`], [`crate::session::EXIT_FAILED`], [`crate::session::EXIT_STOPPED`]).
///
/// # Errors
/// [`Error::Arguments`] and unreadable directories before anything was measured.
pub fn run_mount_with(args: &MountArgs, hooks: &MountHooks) -> Result<u8> {
    if !rustix::process::geteuid().is_root() {
        let message = "bench mount takes root: the kernel's caches are emptied between measurements";
        return Err(Error::Arguments(message.into()));
    }
    let sizes = hooks.sizes.unwrap_or(if args.common.quick { Sizes::QUICK } else { Sizes::FULL });
    let own = std::env::current_exe().map_err(Error::host("the path of this program"))?;
    let lanefs = hooks.lanefs.clone().unwrap_or_else(|| own.with_file_name("lanefs"));
    if !lanefs.is_file() {
        return Err(Error::Program(format!(
            "there is no {}; `cargo build --release --bin lanefs` builds it",
            lanefs.display()
        )));
    }
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let settings = Settings { sizes, lanefs, own };
    Session::start("mount", &args.common, &row_names(cores), hooks.stop.clone(), settings)?.finish(measure)
}

/// All parts; fails only where it was stopped.
fn measure(bench: &mut MountBench) -> Result<()> {
    bench.part("metadata", &rows::metadata_names(bench.report.machine.cores), metadata::measure)?;
    bench.part("a large file", &rows::DATA, data::measure)?;
    bench.part("ls -lR", &[rows::LIST], list::measure)
}
