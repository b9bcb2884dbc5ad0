//! Vulkan compute, as much of it as the engine needs: a device, buffers with addresses, kernels, submissions.
//!
//! The loader is opened when somebody asks for a device, so a machine without Vulkan is a normal machine.

mod buffer;
mod device;
mod instance;
mod kernel;
mod submission;

pub(crate) use buffer::{Buffer, Place};
pub(crate) use device::Device;
pub use instance::{Choice, DeviceInfo, DeviceKind, devices};
pub(crate) use kernel::{Kernel, Shader};
pub(crate) use submission::Submission;
