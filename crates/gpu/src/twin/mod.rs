//! Twins: the kernels in Rust, function by function, for the host and for proofs. A kernel and its twin
//! give the same bits for the same input; where invocations race for a slot of the cache, the twin is one
//! of the possible orders.

pub mod change;
pub mod headers;
pub mod host;
pub mod kernels;

pub use headers::memory::Memory;
pub use headers::settings::KernelSettings;
