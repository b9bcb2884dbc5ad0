//! State that the parts share, and the start of a worker for each run of each allocator.

use super::allocators::Allocator;
use super::crew::Outcome;
use super::sizes::Sizes;
use super::worker::{WorkerArgs, parse};
use crate::error::{Error, Result};
use crate::measure::stop::Stop;
use crate::session::Session;
use crate::systems::peers::run_prepared;
use std::path::PathBuf;
use std::process::Command;

/// The benchmark under way.
pub(super) type AllocBench = Session<Settings>;

/// Settings of this benchmark alone.
pub(super) struct Settings {
    pub(super) sizes: Sizes,
    /// Program that serves as the worker (`alloc-worker`).
    pub(super) program: PathBuf,
    /// Allocators to measure; empty if no selected row needs them.
    pub(super) allocators: Vec<Allocator>,
}

impl Settings {
    /// Runs a workload once; returns its outcome.
    pub(super) fn run(&self, allocator: &Allocator, args: WorkerArgs, stop: &Stop) -> Result<Outcome> {
        let output = self.output(Command::new(&self.program), allocator, args, stop)?;
        parse(&output).ok_or_else(|| no_outcome(allocator))
    }

    /// Runs the worker and returns its output. `command` already names the worker, alone or after other
    /// programs.
    ///
    /// The worker has an empty environment: variables tune some allocators, or preload another one.
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

/// The error of a worker that succeeded and printed no outcome.
fn no_outcome(allocator: &Allocator) -> Error {
    Error::Library(format!("the worker of {} printed no outcome", allocator.name))
}
