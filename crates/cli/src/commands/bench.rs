//! `bench`: measure LaneFS beside other file systems and allocators.

use crate::exit::{self, Failure};
use crate::interrupt;
use clap::{Args, Subcommand};
use lanefs_bench::stop::Stop;
use lanefs_bench::{
    AllocArgs, AllocHooks, ConcurrencyArgs, ConcurrencyHooks, GpuArgs, GpuHooks, Hooks, MountArgs,
    MountHooks, NamespaceArgs, PassthroughArgs, WorkerArgs, run_alloc_with, run_concurrency_with,
    run_gpu_with, run_mount_with, run_namespace_with, run_passthrough, run_worker,
};

/// Measure LaneFS beside other file systems and allocators, in one run on this machine
#[derive(Args, Clone, Debug)]
pub struct Bench {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand, Clone, Debug)]
enum What {
    /// Paths, directories and files beside ext4 and tmpfs (as root on file systems of its own)
    Namespace(NamespaceArgs),
    /// Threads that read and write at once, beside ext4, tmpfs, fio and LaneFS without concurrency control
    Concurrency(ConcurrencyArgs),
    /// The allocator of LaneFS beside glibc, mimalloc, jemalloc, snmalloc, rpmalloc and tcmalloc
    Alloc(AllocArgs),
    /// Lookups by the GPU engine beside the CPU engine and ext4
    Gpu(GpuArgs),
    /// A mounted volume beside ext4, tmpfs and a FUSE file system that hands everything on (as root)
    Mount(MountArgs),
    /// The last of these: what `mount` starts
    #[command(hide = true)]
    MountPassthrough(PassthroughArgs),
    /// One workload on the allocator that this process has: what `alloc` starts for each run
    #[command(hide = true)]
    AllocWorker(WorkerArgs),
}

impl Bench {
    /// True for the worker of a benchmark: it is stopped by who started it, and has no thread but those it measures.
    pub fn is_worker(&self) -> bool {
        matches!(self.what, What::AllocWorker(_) | What::MountPassthrough(_))
    }

    /// Runs the benchmark; returns the exit code.
    ///
    /// # Errors
    /// What kept it from a report.
    pub fn run(&self) -> Result<u8, Failure> {
        let stop = (!self.is_worker()).then(|| Stop::following(interrupt::raised));
        let done = match &self.what {
            What::Namespace(args) => run_namespace_with(args, &Hooks { stop, ..Hooks::default() }),
            What::Concurrency(args) => {
                run_concurrency_with(args, &ConcurrencyHooks { stop, ..ConcurrencyHooks::default() })
            }
            What::Alloc(args) => run_alloc_with(args, &AllocHooks { stop, ..AllocHooks::default() }),
            What::Gpu(args) => run_gpu_with(args, &GpuHooks { stop, ..GpuHooks::default() }),
            What::Mount(args) => run_mount_with(args, &MountHooks { stop, ..MountHooks::default() }),
            What::MountPassthrough(args) => run_passthrough(args).map(|()| exit::OK),
            What::AllocWorker(args) => run_worker(args).map(|()| exit::OK),
        };
        done.map_err(|error| {
            let code = match &error {
                lanefs_bench::Error::Arguments(_) => exit::USAGE,
                lanefs_bench::Error::Stopped => return Failure::Interrupted,
                _ => exit::HOST,
            };
            Failure::new(code, "bench", &error.to_string(), "")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Program {
        #[command(flatten)]
        bench: Bench,
    }

    #[test]
    fn all_benchmarks_take_the_common_arguments() {
        for what in ["namespace", "concurrency", "alloc", "gpu", "mount"] {
            let arguments = ["lanefs", what, "--quick", "--runs", "2", "--rows", "x-*", "--json", "file"];
            let common = match Program::try_parse_from(arguments).map(|program| program.bench.what) {
                Ok(What::Namespace(args)) => args.common,
                Ok(What::Concurrency(args)) => args.common,
                Ok(What::Alloc(args)) => args.common,
                Ok(What::Gpu(args)) => args.common,
                Ok(What::Mount(args)) => args.common,
                Ok(What::AllocWorker(_) | What::MountPassthrough(_)) => panic!("a worker is no benchmark"),
                Err(error) => panic!("{error}"),
            };
            assert!(common.quick && common.runs == Some(2) && common.rows.as_deref() == Some("x-*"));
            assert!(common.json.is_some());
        }
        assert!(Program::try_parse_from(["lanefs", "concurrency", "--tree", "/usr"]).is_err());
        assert!(Program::try_parse_from(["lanefs", "concurrency", "--runs", "0"]).is_err());
    }
}
