//! The GPU engine: lookups on Vulkan compute, on the same bytes and with the same answers as the CPU engine.
//!
//! * [`devices`]: what there is; [`Gpu`]: a device that is ready, its kernels probed.
//! * [`Mirrored`]: a volume whose metadata the device has; it resolves batches of paths, several of them at a time ([`Pending`]).
//! * [`Auto`]: both engines, of which each batch goes to the faster one.
//! * [`twin`]: the kernels in Rust.
//!
//! `docs/gpu.md` says how they work together.

mod auto;
mod batch;
mod cache;
mod engine;
mod error;
#[cfg(test)]
mod failures;
mod kernels;
mod layout;
mod mirror;
mod pending;
mod probe;
pub mod proof;
mod resident;
pub mod twin;
mod vulkan;

pub use auto::{Auto, Cost, Engine};
pub use engine::{Gpu, GpuOptions, MirrorOptions, Mirrored, Report};
pub use error::{Error, Result};
pub use layout::glsl;
pub use pending::Pending;
pub use resident::Resident;
pub use vulkan::{Choice, DeviceInfo, DeviceKind, devices};
