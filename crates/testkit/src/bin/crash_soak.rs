//! Power cuts without end: random workloads from a seed on, whose crash states are tried until the time is
//! over or one is wrong.
//!
//! `crash_soak [--seconds N] [--seed N] [--case NAME]`; the default seed comes from the clock. A line every
//! ten seconds shows the progress; Ctrl-C ends the program with the summary. Exit code 0: nothing was found;
//! 1: the failure is on standard output, with the name of the state; 2: the arguments are wrong.

use lanefs_testkit::crash::{Case, CrashFailure, Effort, Tally, all_workloads, run_case, run_many};
use lanefs_testkit::settings::SoakArguments;
use parking_lot::Mutex;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const REPORT_EVERY: Duration = Duration::from_secs(10);
const USAGE: &str = "usage: crash_soak [--seconds N] [--seed N] [--case seq2:1234:cut57:choice9]";

struct Arguments {
    seconds: u64,
    seed: u64,
    case: Option<Case>,
}

fn arguments() -> Result<Arguments, String> {
    let given = SoakArguments::of_process(USAGE, &["--seconds", "--seed", "--case"])?;
    let case = given.get("--case").map(str::parse).transpose()?;
    Ok(Arguments { seconds: given.seconds()?, seed: given.seed()?, case })
}

fn main() -> ExitCode {
    let arguments = match arguments() {
        Ok(arguments) => arguments,
        Err(text) => {
            eprintln!("{text}");
            return ExitCode::from(2);
        }
    };
    match soak(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            println!("{failure}\nor: make crash-soak CASE={}", failure.case);
            ExitCode::FAILURE
        }
    }
}

fn line(tally: &Tally, start: Instant) -> String {
    let seconds = start.elapsed().as_secs_f64();
    format!(
        "{seconds:6.0} s: {} workloads, {} states, {} after a second crash; {:.0} states a second",
        tally.workloads,
        tally.states,
        tally.again,
        tally.all() as f64 / seconds.max(0.001)
    )
}

fn soak(arguments: &Arguments) -> Result<(), Box<CrashFailure>> {
    let start = Instant::now();
    if let Some(case) = &arguments.case {
        let mut tally = Tally::default();
        run_case(case, &mut tally)?;
        eprintln!("{case}: nothing wrong\n{}", line(&tally, start));
        return Ok(());
    }
    let stop = Arc::new(AtomicBool::new(false));
    let stopped = Arc::clone(&stop);
    // Without the handler Ctrl-C ends the program at once, which loses no more than the summary.
    if let Err(error) = ctrlc::set_handler(move || stopped.store(true, Ordering::Relaxed)) {
        eprintln!("Ctrl-C will end this without a summary: {error}");
    }
    let until = Duration::from_secs(arguments.seconds);
    let reported = Mutex::new(start);
    let progress = |tally: &Tally| {
        if let Some(mut reported) = reported.try_lock()
            && reported.elapsed() >= REPORT_EVERY
        {
            *reported = Instant::now();
            eprintln!("{}", line(tally, start));
        }
        start.elapsed() < until
    };
    let threads = std::thread::available_parallelism().map_or(2, usize::from);
    eprintln!("seed {}, {threads} threads, {} seconds", arguments.seed, arguments.seconds);
    let tally = run_many(all_workloads(arguments.seed), &Effort::SOAK, threads, &stop, &progress)?;
    eprintln!("{}\nseed {}: nothing wrong", line(&tally, start), arguments.seed);
    Ok(())
}
