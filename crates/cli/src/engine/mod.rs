//! Engines: the arguments that choose them, listings ahead of a walk, and imports. What the choice means is
//! decided in `lanefs_gpu::Engines`.

mod args;
mod import;
mod prefetch;

pub use args::{EngineArgs, gpu_failure, report};
pub use import::ImportEngines;
pub use prefetch::Prefetched;
