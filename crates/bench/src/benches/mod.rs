//! The benchmarks, one module each.

pub mod alloc;
pub mod blocks;
pub mod concurrency;
pub mod gpu;
pub mod lookup;
pub mod mount;
pub mod namespace;
pub mod publish;
pub mod read;
pub mod scale;
pub mod search;
pub mod sync;
