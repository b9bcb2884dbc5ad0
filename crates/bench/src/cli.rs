//! Command line of the program `lanefs-bench`: arguments, Ctrl-C, exit codes.

use crate::benches::alloc::{AllocArgs, WorkerArgs, run_alloc, run_worker};
use crate::benches::concurrency::{ConcurrencyArgs, run_concurrency};
use crate::benches::gpu::{GpuArgs, run_gpu};
use crate::benches::lookup::{LookupArgs, run_lookup};
use crate::benches::mount::{MountArgs, PassthroughArgs, run_mount, run_passthrough};
use crate::benches::namespace::{NamespaceArgs, run_namespace};
use crate::benches::publish::{PublishArgs, run_publish};
use crate::benches::read::{ReadArgs, run_read};
use crate::benches::scale::{ScaleArgs, ScaleWorkerArgs, run_scale, run_scale_worker};
use crate::benches::search::{SearchArgs, run_search};
use crate::benches::sync::{SyncArgs, run_sync};
use crate::error::{Error, Result};
use crate::measure::plot::{PlotArgs, run_plot};
use clap::error::ErrorKind;
use clap::{Parser, Subcommand};
use std::io::Write;
use std::process::ExitCode;

/// Name of the program.
const PROGRAM: &str = "lanefs-bench";

/// Measure LaneFS beside other file systems and allocators, in one run on this machine
#[derive(Parser, Clone, Debug)]
#[command(
    name = PROGRAM,
    version,
    arg_required_else_help = true,
    subcommand_required = true,
    max_term_width = 110,
    after_help = after_help()
)]
struct Cli {
    #[command(subcommand)]
    benchmark: Benchmark,
}

#[derive(Subcommand, Clone, Debug)]
enum Benchmark {
    /// Paths, directories and files beside ext4 and tmpfs (as root on file systems of its own)
    Namespace(NamespaceArgs),
    /// Batches of paths beside ext4, tmpfs and a hash map
    Lookup(LookupArgs),
    /// Whole small files in random order, beside ext4 and an indexed archive
    Read(ReadArgs),
    /// Lines, equal files and fuzzy names beside ripgrep, fclones, fzf and nucleo
    Search(SearchArgs),
    /// Publications on an S3 server over slow links, beside restic, tar and mounts of buckets
    Publish(PublishArgs),
    /// Threads that read and write at once, beside ext4, tmpfs, fio and LaneFS without concurrency control
    Concurrency(ConcurrencyArgs),
    /// The allocator of LaneFS beside glibc, mimalloc, jemalloc, snmalloc, rpmalloc and tcmalloc
    Alloc(AllocArgs),
    /// Lookups by the GPU engine beside the CPU engine and ext4
    Gpu(GpuArgs),
    /// A mounted volume beside ext4, tmpfs and a FUSE passthrough to tmpfs (as root)
    Mount(MountArgs),
    /// The same work on volumes of 1 GiB to 1 PiB, and on few and many things of a kind
    Scale(ScaleArgs),
    /// A tree that changes goes into a volume again, beside rsync, cp and restic
    Sync(SyncArgs),
    /// Draw reports as pictures: grouped bars of LaneFS and its peers
    Plot(PlotArgs),
    /// The FUSE passthrough, which `mount` starts
    #[command(hide = true)]
    MountPassthrough(PassthroughArgs),
    /// One workload on the allocator of this process, which `alloc` starts for each measurement
    #[command(hide = true)]
    AllocWorker(WorkerArgs),
    /// One step on one volume, which `scale` starts for each measurement
    #[command(hide = true)]
    ScaleWorker(ScaleWorkerArgs),
}

impl Benchmark {
    /// Measures; returns the exit code.
    ///
    /// A worker, which another benchmark starts and stops, has no signal handler, whose thread would be one
    /// more than it measures: some allocators are quicker in a process of one thread.
    fn measure(&self) -> Result<u8> {
        let done = match self {
            Benchmark::Namespace(args) => return run_namespace(args),
            Benchmark::Lookup(args) => return run_lookup(args),
            Benchmark::Read(args) => return run_read(args),
            Benchmark::Search(args) => return run_search(args),
            Benchmark::Publish(args) => return run_publish(args),
            Benchmark::Concurrency(args) => return run_concurrency(args),
            Benchmark::Alloc(args) => return run_alloc(args),
            Benchmark::Gpu(args) => return run_gpu(args),
            Benchmark::Mount(args) => return run_mount(args),
            Benchmark::Scale(args) => return run_scale(args),
            Benchmark::Sync(args) => return run_sync(args),
            Benchmark::Plot(args) => run_plot(args),
            Benchmark::MountPassthrough(args) => run_passthrough(args),
            Benchmark::AllocWorker(args) => run_worker(args),
            Benchmark::ScaleWorker(args) => run_scale_worker(args),
        };
        done.map(|()| crate::session::EXIT_DONE)
    }
}

fn after_help() -> String {
    use crate::error::{EXIT_ERROR, EXIT_USAGE};
    use crate::session::{EXIT_DONE, EXIT_FAILED, EXIT_STOPPED};
    format!(
        "Examples:
  {PROGRAM} namespace --quick
  {PROGRAM} concurrency --rows 'warm-*' --json concurrency.json
  {PROGRAM} plot concurrency.json --out plots

Exit codes:
  {EXIT_DONE:>3}  every row was measured, whether or not it reached its goal
  {EXIT_FAILED:>3}  a part failed; a note says why
  {EXIT_USAGE:>3}  the command line makes no sense
  {EXIT_ERROR:>3}  the host, a device or a library failed
  {EXIT_STOPPED:>3}  interrupted"
    )
}

/// Runs the program on the arguments of this process.
pub fn main() -> ExitCode {
    let measured = match Cli::try_parse() {
        Ok(cli) => cli.benchmark.measure(),
        Err(error) => return ExitCode::from(show_clap(&error)),
    };
    ExitCode::from(measured.unwrap_or_else(|error| {
        if !matches!(error, Error::Stopped) {
            complain(&format!("{PROGRAM}: {error}\n"));
        }
        error.exit_code()
    }))
}

/// Prints help to standard output and errors to standard error, with the program's name; returns the exit
/// code.
fn show_clap(error: &clap::Error) -> u8 {
    if error.use_stderr() {
        let text = error.render().to_string();
        complain(&text.strip_prefix("error: ").map_or(text.clone(), |rest| format!("{PROGRAM}: {rest}")));
    } else {
        // A pipe that the reader has closed is not a failure.
        let _ = error.print();
    }
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => crate::session::EXIT_DONE,
        _ => crate::error::EXIT_USAGE,
    }
}

/// Writes to standard error. A closed one is not a failure.
fn complain(text: &str) {
    let _ = std::io::stderr().write_all(text.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_benchmarks_take_the_common_arguments() {
        for name in [
            "namespace",
            "lookup",
            "read",
            "search",
            "publish",
            "concurrency",
            "alloc",
            "gpu",
            "mount",
            "scale",
            "sync",
        ] {
            let arguments = [PROGRAM, name, "--quick", "--runs", "2", "--rows", "x-*", "--json", "file"];
            let common = match Cli::try_parse_from(arguments).map(|cli| cli.benchmark) {
                Ok(Benchmark::Namespace(args)) => args.common,
                Ok(Benchmark::Lookup(args)) => args.common,
                Ok(Benchmark::Read(args)) => args.common,
                Ok(Benchmark::Search(args)) => args.common,
                Ok(Benchmark::Publish(args)) => args.common,
                Ok(Benchmark::Concurrency(args)) => args.common,
                Ok(Benchmark::Alloc(args)) => args.common,
                Ok(Benchmark::Gpu(args)) => args.common,
                Ok(Benchmark::Mount(args)) => args.common,
                Ok(Benchmark::Scale(args)) => args.common,
                Ok(Benchmark::Sync(args)) => args.common,
                Ok(
                    Benchmark::AllocWorker(_)
                    | Benchmark::MountPassthrough(_)
                    | Benchmark::ScaleWorker(_)
                    | Benchmark::Plot(_),
                ) => {
                    panic!("{name} is not a benchmark")
                }
                Err(error) => panic!("{error}"),
            };
            assert!(common.quick && common.runs == Some(2) && common.rows.as_deref() == Some("x-*"));
            assert!(common.json.is_some());
        }
        assert!(Cli::try_parse_from([PROGRAM, "concurrency", "--tree", "/usr"]).is_err());
        assert!(Cli::try_parse_from([PROGRAM, "concurrency", "--runs", "0"]).is_err());
    }
}
