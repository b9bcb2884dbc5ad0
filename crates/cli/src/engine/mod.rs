//! Engines: the arguments that choose one, batches of lookups, listings ahead of a walk, and imports.

mod args;
mod import;
mod prefetch;
mod resolver;

pub use args::{EngineArgs, gpu_failure, report};
pub use import::ImportEngine;
pub use prefetch::Prefetched;
pub use resolver::BatchResolver;
