//! A device that is in use.

use super::instance::{Choice, DeviceInfo, Instance};
use crate::error::{Doing, Error, Result};
use ash::vk;
use std::sync::{Arc, Mutex};

/// A device, its queue, and its kinds of memory.
pub(crate) struct Device {
    pub(crate) raw: ash::Device,
    pub(crate) info: DeviceInfo,
    pub(crate) family: u32,
    /// One thread submits at a time, as Vulkan asks.
    pub(crate) queue: Mutex<vk::Queue>,
    pub(crate) memory: vk::PhysicalDeviceMemoryProperties,
    /// Bytes of one allocation and of one buffer at most.
    pub(crate) largest: u64,
    _instance: Instance,
}

impl Device {
    /// # Errors
    /// No loader, no such device, or one that cannot be used.
    pub(crate) fn open(choice: &Choice) -> Result<Arc<Device>> {
        let instance = Instance::new()?;
        let (physical, info) = instance.choose(choice)?;
        let family = instance.queue_family(physical).ok_or(Error::NoDevice(None))?;
        let queues =
            [vk::DeviceQueueCreateInfo::default().queue_family_index(family).queue_priorities(&[1.0])];
        let mut v12 = vk::PhysicalDeviceVulkan12Features::default()
            .buffer_device_address(true)
            .vulkan_memory_model(true)
            .timeline_semaphore(true);
        let features = vk::PhysicalDeviceFeatures::default().shader_int64(true);
        let create = vk::DeviceCreateInfo::default()
            .queue_create_infos(&queues)
            .enabled_features(&features)
            .push_next(&mut v12);
        let mut maintenance = vk::PhysicalDeviceMaintenance3Properties::default();
        let mut properties = vk::PhysicalDeviceProperties2::default().push_next(&mut maintenance);
        // SAFETY: the physical device is one of the instance, which lives as long as this device.
        let (raw, memory) = unsafe {
            instance.raw.get_physical_device_properties2(physical, &mut properties);
            let raw = instance.raw.create_device(physical, &create, None).doing("opening the device")?;
            (raw, instance.raw.get_physical_device_memory_properties(physical))
        };
        // SAFETY: the queue was asked for.
        let queue = unsafe { raw.get_device_queue(family, 0) };
        let largest = maintenance.max_memory_allocation_size;
        Ok(Arc::new(Device {
            raw,
            info,
            family,
            queue: Mutex::new(queue),
            memory,
            largest,
            _instance: instance,
        }))
    }

    /// The kind of memory with these properties, those of `better` too where there is one.
    pub(crate) fn memory_kind(
        &self,
        among: u32,
        needs: vk::MemoryPropertyFlags,
        better: vk::MemoryPropertyFlags,
    ) -> Option<u32> {
        let find = |flags: vk::MemoryPropertyFlags| {
            let count = self.memory.memory_type_count;
            (0..count).find(|kind| {
                among >> kind & 1 == 1
                    && self.memory.memory_types[*kind as usize].property_flags.contains(flags)
            })
        };
        find(needs | better).or_else(|| find(needs))
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        // SAFETY: whatever was made of it is gone: all of it holds the device.
        unsafe {
            let _ = self.raw.device_wait_idle();
            self.raw.destroy_device(None);
        }
    }
}
