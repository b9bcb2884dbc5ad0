//! `lanefs bench namespace` without the rest of `lanefs`, for work on the benchmark itself:
//! `cargo run --release -p lanefs-bench --example namespace -- --quick`.

use clap::Parser;
use lanefs_bench::{NamespaceArgs, run_namespace};
use std::process::ExitCode;

#[derive(Parser)]
struct Args {
    #[command(flatten)]
    namespace: NamespaceArgs,
}

fn main() -> ExitCode {
    match run_namespace(&Args::parse().namespace) {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            eprintln!("{error}");
            ExitCode::from(error.exit_code())
        }
    }
}
