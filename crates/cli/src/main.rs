//! The `lanefs` program; all of it is in the library beside this file.
#![forbid(unsafe_code)]

#[global_allocator]
static HEAP: lanefs_alloc::LaneAlloc = lanefs_alloc::LaneAlloc;

fn main() -> std::process::ExitCode {
    lanefs_cli::main()
}
