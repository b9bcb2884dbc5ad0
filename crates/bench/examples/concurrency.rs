//! `lanefs bench concurrency` without the rest of `lanefs`, for work on the benchmark itself:
//! `cargo run --release -p lanefs-bench --example concurrency -- --quick`.

use clap::Parser;
use lanefs_bench::{ConcurrencyArgs, run_concurrency};
use std::process::ExitCode;

#[derive(Parser)]
struct Args {
    #[command(flatten)]
    concurrency: ConcurrencyArgs,
}

fn main() -> ExitCode {
    match run_concurrency(&Args::parse().concurrency) {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            eprintln!("{error}");
            ExitCode::from(error.exit_code())
        }
    }
}
