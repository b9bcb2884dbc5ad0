//! `lanefs-bench sync`: a tree that changes goes in again, beside rsync, cp and restic.
//!
//! Every follower is a program as people run it, from its start to its end: `lanefs` too. They follow one
//! tree of small files, which changes between the rounds, and each has its own copy on the same disk.

mod floor;
mod followers;
mod following;
mod publishing;
mod rows;
mod source;

pub use rows::row_names;

use crate::error::{Error, Result};
use crate::session::{CommonArgs, Session};
use crate::systems::peers::{Medium, SpaceRequest, run_prepared};
use crate::systems::temporary::temp_dir;
use followers::Places;
use rows::{FOLLOWED, PUBLISHED};
use source::FollowedTree;
use std::path::PathBuf;
use std::process::Command;

/// Arguments of `lanefs-bench sync`.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct SyncArgs {
    #[command(flatten)]
    /// Arguments of every benchmark.
    pub common: CommonArgs,
    /// Files of the tree, of 4 KiB, 32 in a directory [default: 1000000, with --quick 20000]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(100..=100_000_000))]
    pub files: Option<u32>,
    /// The program `lanefs` [default: the one beside this program]
    #[arg(long, value_name = "PROGRAM")]
    pub program: Option<PathBuf>,
}

/// Settings of a run.
#[derive(Clone, Debug)]
pub(crate) struct SyncSettings {
    files: usize,
    program: PathBuf,
}

/// Files of a full run, and of a quick one.
const FILES: (usize, usize) = (1_000_000, 20_000);

/// Runs the benchmark and reports; returns an exit code of [`crate::session`].
///
/// # Errors
/// [`Error::Arguments`], a program `lanefs` that does not start, and a directory for temporary files that
/// takes no tree, before anything is measured.
pub fn run_sync(args: &SyncArgs) -> Result<u8> {
    if args.common.tmpfs.is_some() {
        return Err(Error::Arguments("--tmpfs: all copies of this benchmark are on a disk".into()));
    }
    let settings = SyncSettings {
        files: args.files.map_or(if args.common.quick { FILES.1 } else { FILES.0 }, |files| files as usize),
        program: args.program.clone().map_or_else(program_beside_this, Ok)?,
    };
    let mut bench = Session::start("sync", &args.common, &row_names(), settings)?;
    let mut version = Command::new(&bench.settings.program);
    version.arg("--version");
    run_prepared(version, &bench.stop)?;
    let temp = temp_dir()?;
    bench.progress.step(&format!("making a tree of {} files", bench.settings.files));
    let mut tree = FollowedTree::make(temp.path().join("tree"), bench.settings.files, &bench.stop)?;
    // Three copies, and a repository.
    let need = SpaceRequest { inodes: tree.inodes() * 4, bytes: tree.bytes() * 4 };
    let hosts = bench.hosts(need, Medium::Disk)?;
    let ext4 = hosts.iter().find(|host| host.about_ext4()).map(|host| host.path());
    let places = Places::new(&bench.settings.program, temp.path(), ext4, &tree)?;
    bench.finish(|bench| {
        bench
            .part("a tree that changes", &FOLLOWED, |bench| following::measure(bench, &places, &mut tree))?;
        bench.part("publications that follow", &PUBLISHED, |bench| {
            publishing::measure(bench, &places, &mut tree)
        })
    })
}

fn program_beside_this() -> Result<PathBuf> {
    let own = std::env::current_exe().map_err(Error::host("the path of this program"))?;
    let beside = own.with_file_name("lanefs");
    if beside.exists() {
        return Ok(beside);
    }
    let text = format!("{}: no such program; name it with --program", beside.display());
    Err(Error::Arguments(text))
}
