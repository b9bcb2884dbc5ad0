//! Vulkan compute, as much of it as the engine needs: a device, buffers with addresses, kernels, submissions.
//!
//! The loader is opened when a caller asks for a device, so a machine without Vulkan is a normal machine.

mod allocate;
mod allocation;
mod buffer;
mod choice;
mod commands;
mod device;
mod export;
mod external;
mod info;
mod instance;
mod kernel;
mod nodes;
mod pipelines;
mod shim;
mod sleepers;
mod staged;
mod timeline;
mod wake;

pub(crate) use allocation::MemoryLocation;
pub(crate) use buffer::Buffer;
pub use choice::Choice;
pub(crate) use commands::{Commands, Recording};
pub(crate) use device::Device;
pub use export::ExportedMemory;
pub use info::{DeviceInfo, DeviceKind, PciAddress};
pub use instance::devices;
pub(crate) use kernel::Kernel;
pub(crate) use nodes::may_have_hardware;
#[cfg(test)]
pub(crate) use shim::{calls, fail_call, failed_call};
pub(crate) use staged::{Direction, Staged};
pub(crate) use timeline::SharedTimeline;
