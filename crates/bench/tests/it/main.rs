//! The benchmarks in short.
//!
//! All tests are modules of one program: each program costs a link.

mod alloc;
mod concurrency;
mod gpu;
mod namespace;
mod program;
mod scale;
mod search;
mod support;
mod systems;
