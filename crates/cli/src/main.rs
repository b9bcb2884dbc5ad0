//! The `lanefs` program. The library in this package contains all of its code.
#![forbid(unsafe_code)]

#[global_allocator]
static HEAP: lanefs_alloc::LaneAlloc = lanefs_alloc::LaneAlloc;

fn main() -> std::process::ExitCode {
    lanefs_cli::main()
}
