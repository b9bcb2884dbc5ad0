//! Twins: the kernels in Rust, function by function, for the host and for proofs. A kernel and its twin
//! give the same bits for the same input; where invocations race for a slot of the cache, the twin is one
//! of the possible orders.

pub(crate) mod best;
pub(crate) mod blake3;
pub(crate) mod build;
pub mod cache;
pub mod change;
pub mod columns;
pub mod dir_table;
mod directory;
pub mod fill;
pub mod find;
mod fuel;
pub(crate) mod gather;
mod hash;
pub(crate) mod hash_join;
pub(crate) mod hash_text;
pub mod host;
pub mod learn;
pub mod leaves;
mod links;
pub mod lookup;
mod memory;
pub(crate) mod merge;
pub(crate) mod name;
pub mod pack;
pub mod scan;
pub(crate) mod score;
pub(crate) mod seek;
mod settings;
pub mod stat;
pub(crate) mod tally;
pub mod walk;
pub mod warm;
pub mod woven;

pub use memory::Memory;
pub use settings::KernelSettings;
