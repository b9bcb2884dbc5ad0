//! `bench`: measure LaneFS beside other file systems.

use crate::exit::{self, Failure};
use crate::interrupt;
use clap::{Args, Subcommand};
use lanefs_bench::stop::Stop;
use lanefs_bench::{Hooks, NamespaceArgs, run_namespace_with};

/// Measure LaneFS beside other file systems, in one run on this machine
#[derive(Args, Clone, Debug)]
pub struct Bench {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand, Clone, Debug)]
enum What {
    /// Paths, directories and files beside ext4 and tmpfs (as root on file systems of its own)
    Namespace(NamespaceArgs),
}

impl Bench {
    /// Runs the benchmark; returns the exit code.
    ///
    /// # Errors
    /// What kept it from a report.
    pub fn run(&self) -> Result<u8, Failure> {
        let What::Namespace(args) = &self.what;
        let hooks = Hooks { stop: Some(Stop::following(interrupt::raised)), ..Hooks::default() };
        run_namespace_with(args, &hooks).map_err(|error| {
            let code = match &error {
                lanefs_bench::Error::Arguments(_) => exit::USAGE,
                lanefs_bench::Error::Stopped => return Failure::Interrupted,
                _ => exit::HOST,
            };
            Failure::new(code, "bench", &error.to_string(), "")
        })
    }
}
