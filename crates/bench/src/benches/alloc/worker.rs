//! The worker: a process that runs one workload on one allocator and prints the outcome.
//!
//! The program starts itself again with the allocator's library preloaded. So the same code measures each
//! allocator as people use it.

use super::calls::{Callee, Calls};
use super::crew::Outcome;
use super::loaded::check_loaded;
use super::workload::Workload;
use crate::error::{Error, Result};
use std::path::PathBuf;

/// Arguments of the hidden command `lanefs-bench alloc-worker`.
#[derive(Clone, Debug, PartialEq, Eq, clap::Args)]
pub struct WorkerArgs {
    /// Workload to run
    #[arg(long, value_enum)]
    pub(super) workload: Workload,
    /// Threads
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub(super) threads: u16,
    /// Steps of each thread
    #[arg(long)]
    pub(super) steps: u64,
    /// Library whose malloc must serve the process [default: the C library]
    #[arg(long, conflicts_with = "empty")]
    pub(super) expect: Option<PathBuf>,
    /// Call two functions that do nothing in place of malloc and free
    #[arg(long)]
    pub(super) empty: bool,
}

impl WorkerArgs {
    /// Returns the arguments as words of a command line.
    pub(super) fn arguments(&self) -> Vec<std::ffi::OsString> {
        let (threads, steps) = (self.threads.to_string(), self.steps.to_string());
        let mut arguments: Vec<std::ffi::OsString> =
            ["alloc-worker", "--workload", self.workload.name(), "--threads", &threads]
                .map(Into::into)
                .into();
        arguments.extend(["--steps", &steps].map(Into::into));
        if let Some(path) = &self.expect {
            arguments.extend(["--expect".into(), path.into()]);
        }
        if self.empty {
            arguments.push("--empty".into());
        }
        arguments
    }
}

/// Runs the workload and prints the outcome as one line of JSON.
///
/// # Errors
/// [`Error::Library`] if another allocator than the expected one serves the process; [`Error::Arguments`].
pub fn run_worker(args: &WorkerArgs) -> Result<()> {
    if args.empty && args.threads > 1 {
        return Err(Error::Arguments("--empty: its only block belongs to one thread".into()));
    }
    let kind = if args.empty { Callee::Empty } else { Callee::Real };
    check_loaded(args.expect.as_deref())?;
    let outcome = args.workload.run(Calls::of_process(kind)?, usize::from(args.threads), args.steps)?;
    // Three numbers: serialisation cannot fail.
    println!("{}", serde_json::to_string(&outcome).unwrap_or_default());
    Ok(())
}

/// Finds the outcome in a worker's output, in which valgrind may have written lines of its own.
pub(super) fn parse(output: &str) -> Option<Outcome> {
    let outcome: Outcome = output.lines().find_map(|line| serde_json::from_str(line).ok())?;
    (outcome.operations > 0).then_some(outcome)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct WorkerProgram {
        #[command(flatten)]
        worker: WorkerArgs,
    }

    #[test]
    fn arguments_come_back_as_they_went() {
        let mut args = WorkerArgs {
            workload: Workload::ProducerConsumer,
            threads: 2,
            steps: 30,
            expect: Some("a b.so".into()),
            empty: false,
        };
        let back = |args: &WorkerArgs| {
            let arguments = args.arguments();
            assert_eq!(arguments[0], "alloc-worker");
            WorkerProgram::try_parse_from(&arguments).map(|program| program.worker)
        };
        assert_eq!(back(&args).unwrap(), args);
        args.empty = true;
        assert!(back(&args).is_err());
        args.expect = None;
        assert_eq!(back(&args).unwrap(), args);
        assert!(matches!(run_worker(&args), Err(Error::Arguments(_))));
    }

    #[test]
    fn an_outcome_is_found_among_other_lines() {
        let line = r#"{"operations":20,"elapsed_ns":5,"resident_bytes":4096}"#;
        let outcome = Outcome { operations: 20, elapsed_ns: 5, resident_bytes: 4096 };
        assert_eq!(parse(&format!("==1== valgrind\n{line}\n==1== done\n")), Some(outcome));
        assert_eq!(parse("==1== valgrind\n"), None);
        assert_eq!(parse(r#"{"operations":0,"elapsed_ns":5,"resident_bytes":4096}"#), None);
        assert_eq!(parse(r#"{"operations":20,"elapsed_ns":5}"#), None);
    }

    #[test]
    fn a_planted_wrong_library_is_refused() {
        let expect = std::env::current_exe().ok();
        let args = WorkerArgs { workload: Workload::TinyHot, threads: 1, steps: 1, expect, empty: false };
        assert!(matches!(run_worker(&args), Err(Error::Library(_))));
    }
}
