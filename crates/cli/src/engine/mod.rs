//! Engines: the arguments that choose one, batches of lookups, listings ahead of a walk, imports, searches in
//! texts, and hashes of contents.

mod args;
mod content_hash;
mod import;
mod prefetch;
mod resolver;
mod text_search;

pub use args::{EngineArgs, gpu_failure};
pub use content_hash::DeviceHash;
pub use import::ImportEngine;
pub use prefetch::Prefetched;
pub use resolver::BatchResolver;
pub use text_search::TextSearch;
