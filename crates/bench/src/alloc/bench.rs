//! What the parts have in common: a worker of its own for each run of each allocator.

use super::allocators::Allocator;
use super::crew::Outcome;
use super::sizes::Sizes;
use super::worker::{WorkerArgs, parse};
use crate::peers::run_prepared;
use crate::session::Session;
use crate::stop::Stop;
use crate::{Error, Result};
use std::path::PathBuf;
use std::process::Command;

/// The whole benchmark.
pub(super) type AllocBench = Session<Settings>;

/// What only this benchmark has.
pub(super) struct Settings {
    pub(super) sizes: Sizes,
    /// The program whose `alloc-worker` is the worker.
    pub(super) program: PathBuf,
    /// Empty where no row asks for them.
    pub(super) allocators: Vec<Allocator>,
}

impl Settings {
    /// One run of a workload; its outcome.
    pub(super) fn run(&self, allocator: &Allocator, args: WorkerArgs, stop: &Stop) -> Result<Outcome> {
        let output = self.output(Command::new(&self.program), allocator, args, stop)?;
        parse(&output).ok_or_else(|| no_outcome(allocator))
    }

    /// Runs the worker, whose name `command` already has, behind those of other programs or not; its output.
    ///
    /// Nothing of the environment reaches the worker: some allocators are tuned by it, or another one is preloaded.
    pub(super) fn output(
        &self,
        mut command: Command,
        allocator: &Allocator,
        args: WorkerArgs,
        stop: &Stop,
    ) -> Result<String> {
        command.env_clear();
        if let Some(library) = &allocator.library {
            command.env("LD_PRELOAD", library);
        }
        command.args(WorkerArgs { expect: allocator.library.clone(), ..args }.arguments());
        run_prepared(command, stop)
    }
}

/// The worker ended well, and said nothing that makes sense.
fn no_outcome(allocator: &Allocator) -> Error {
    Error::Library(format!("the worker of {} told no outcome", allocator.name))
}
