//! The program `lanefs-bench`; the library beside this file has all of it.
#![forbid(unsafe_code)]

// The same heap as `lanefs`, so that a benchmark measures the code as people run it.
#[global_allocator]
static HEAP: lanefs_alloc::LaneAlloc = lanefs_alloc::LaneAlloc;

fn main() -> std::process::ExitCode {
    lanefs_bench::main()
}
