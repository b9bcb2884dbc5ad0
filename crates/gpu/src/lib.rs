//! The GPU engine: lookups on Vulkan compute, on the same bytes and with the same answers as the CPU engine.
//!
//! * [`devices`]: what there is; [`Gpu`]: a device that is ready, its kernels probed.
//! * [`Mirrored`]: a volume whose metadata the device has; it resolves batches of paths.
//! * [`twin`]: the kernels in Rust.
//!
//! `docs/gpu.md` says how they work together.

mod engine;
mod error;
mod kernels;
mod layout;
mod mirror;
mod probe;
pub mod twin;
mod vulkan;

pub use engine::{Gpu, Mirrored, Report};
pub use error::{Error, Result};
pub use layout::glsl;
pub use vulkan::{Choice, DeviceInfo, DeviceKind, devices};
