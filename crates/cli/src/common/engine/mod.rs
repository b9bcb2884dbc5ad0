//! Engines: the arguments that choose them, listings ahead of a walk, and imports. `lanefs_gpu::Engines`
//! decides what the choice means.

mod args;
mod import;
mod prefetch;

pub use args::{EngineArgs, gpu_failure, report};
pub use import::ImportEngines;
pub use prefetch::Prefetched;
