//! Engines: the arguments that choose one, batches of lookups, listings ahead of a walk, imports, searches in
//! texts, hashes of contents, and ranks of paths.

mod args;
mod content_hash;
mod import;
mod path_ranks;
mod prefetch;
mod resolver;
mod text_search;

pub use args::{EngineArgs, gpu_failure};
pub use content_hash::DeviceHash;
pub use import::ImportEngine;
pub use path_ranks::PathRanks;
pub use prefetch::Prefetched;
pub use resolver::BatchResolver;
pub use text_search::TextSearch;
