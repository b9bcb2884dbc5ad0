//! The `lanefs` program; all of it is in the library beside this file.
#![forbid(unsafe_code)]

fn main() -> std::process::ExitCode {
    lanefs_cli::main()
}
