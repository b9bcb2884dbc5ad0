//! A device with its kernels, and how it is opened.

use super::Kernels;
use crate::error::Result;
use crate::shared::limits::{FUEL, FUEL_SOFTWARE, WORKGROUP};
use crate::vulkan::{Choice, Device, DeviceKind};
use std::sync::Arc;

/// A device with its kernels, probed or not. Clones share it: what works on texts or paths keeps the device
/// for as long as it lives.
#[derive(Clone)]
pub(crate) struct DeviceContext {
    pub(crate) device: Arc<Device>,
    pub(crate) kernels: Arc<Kernels>,
}

/// Options of opening a device. Only tests set more than the device.
#[derive(Clone, Debug, Default)]
pub struct GpuOptions<'c> {
    /// The device.
    pub device: Choice,
    /// Invocations of a workgroup.
    pub workgroup: Option<u32>,
    /// Words round each buffer that no access may reach; dropping a buffer whose guards have changed panics.
    /// Buffers in memory that the host does not map have none.
    pub guards: bool,
    /// The host does not map the device's memory, and copies of files and of larger batches have a queue, as
    /// on a device with memory of its own.
    pub own_memory: bool,
    /// Code of a kernel, by name, in place of its own: one with a fault must not pass its probe.
    pub replaced: Option<(&'c str, &'c [u8])>,
    /// The probes that the device must pass.
    pub probes: Probes<'c>,
}

impl<'c> GpuOptions<'c> {
    /// The device alone.
    pub(crate) fn of(device: &Choice) -> GpuOptions<'c> {
        GpuOptions { device: device.clone(), ..GpuOptions::default() }
    }
}

/// Choice of probes. Only tests execute less than all.
#[derive(Clone, Copy, Debug, Default)]
pub enum Probes<'c> {
    /// Every probe.
    #[default]
    All,
    /// The probe of one kernel, by the kernel's name. A test with many faults has no time for the others.
    Of(&'c str),
    /// None, so that other tests than the probe can find a fault.
    None,
}

impl DeviceContext {
    /// Opens a device. Its kernels are made when they are used.
    ///
    /// # Errors
    /// No Vulkan, no such device; the driver's.
    pub(crate) fn open(options: &GpuOptions<'_>) -> Result<DeviceContext> {
        let device = Device::open(&options.device, options.guards, options.own_memory)?;
        let kernels = Kernels::new(&device, options.workgroup.unwrap_or(WORKGROUP), options.replaced);
        Ok(DeviceContext { device, kernels: Arc::new(kernels) })
    }

    /// Returns the rounds of all loops that an invocation has.
    pub(crate) fn fuel(&self) -> u32 {
        if self.device.info.kind == DeviceKind::Software { FUEL_SOFTWARE } else { FUEL }
    }
}
