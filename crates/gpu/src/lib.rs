//! The GPU engine: lookups and searches on Vulkan compute, on the same bytes and with the same answers as the CPU engine.
//!
//! * [`devices`]: what there is; [`Gpu`]: a device that is ready, its kernels probed.
//! * [`Mirrored`]: a volume whose metadata the device has; it resolves batches of paths, several of them at a time ([`Pending`]).
//!   It finds entries by name, type, size and time ([`Filter`]).
//! * [`Changes`]: the directories' part of a batch of changes.
//! * [`Auto`]: both engines, of which each batch goes to the faster one.
//! * [`twin`]: the kernels in Rust.
//!
//! `docs/gpu.md` says how they work together.

#[macro_use]
mod kernel_list;

mod auto;
mod batch;
mod below;
mod cache;
mod change;
mod engine;
mod error;
#[cfg(test)]
mod failures;
mod filter;
mod find;
mod kernels;
mod layout;
mod list;
mod mirror;
mod pending;
mod probe;
pub mod proof;
mod resident;
mod structures;
mod tasks;
pub mod twin;
mod vulkan;

pub use auto::{Auto, Cost, Engine};
pub use below::Below;
pub use change::Changes;
pub use engine::{Gpu, GpuOptions, MirrorOptions, Mirrored, Report};
pub use error::{Error, Result};
pub use filter::{Filter, Names};
pub use find::Match;
pub use kernels::{KERNELS, KernelInfo};
pub use list::Listed;
pub use pending::Pending;
pub use probe::Probed;
pub use resident::Resident;
pub use vulkan::{Choice, DeviceInfo, DeviceKind, devices};

/// Returns the GLSL files that are generated, by name.
pub fn generated_glsl() -> [(&'static str, String); 2] {
    [("layout.glsl", layout::glsl()), ("structures.glsl", structures::glsl())]
}
