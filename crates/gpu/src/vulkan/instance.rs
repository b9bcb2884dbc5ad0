//! The devices of a machine.

use super::choice::Choice;
use super::external::{HANDLE, SEMAPHORE_HANDLE, USAGE};
use super::info::{DeviceInfo, DeviceKind, PciAddress};
use crate::error::{During, Error, Result};
use ash::vk;
use std::ffi::CStr;
use uuid::Uuid;

/// The loader, and an instance of it.
pub(crate) struct Instance {
    pub(crate) raw: ash::Instance,
    /// Keeps the loader's library open.
    _entry: ash::Entry,
}

impl Instance {
    pub(crate) fn new() -> Result<Instance> {
        if cfg!(target_feature = "crt-static") {
            return Err(Error::Static);
        }
        // SAFETY: sound as far as the system's own loader is.
        let entry = unsafe { ash::Entry::load() }.map_err(|e| Error::NoLoader(e.to_string()))?;
        let application =
            vk::ApplicationInfo::default().application_name(c"LaneFS").api_version(vk::API_VERSION_1_2);
        let create = vk::InstanceCreateInfo::default().application_info(&application);
        // SAFETY: sound, the arguments live until the call returns.
        let raw = unsafe { entry.create_instance(&create, None) };
        let raw = raw.map_err(|code| match code {
            vk::Result::ERROR_INCOMPATIBLE_DRIVER => Error::NoDevice(Some("no driver".into())),
            code => Error::Device { operation: "beginning", code },
        })?;
        Ok(Instance { raw, _entry: entry })
    }

    pub(crate) fn physical(&self) -> Result<Vec<(vk::PhysicalDevice, DeviceInfo)>> {
        // SAFETY: sound, the instance lives.
        let all = unsafe { self.raw.enumerate_physical_devices() }.during("listing devices")?;
        Ok(all.into_iter().enumerate().map(|(number, device)| (device, self.info(number, device))).collect())
    }

    fn info(&self, number: usize, device: vk::PhysicalDevice) -> DeviceInfo {
        let mut driver = vk::PhysicalDeviceDriverProperties::default();
        let mut subgroup = vk::PhysicalDeviceSubgroupProperties::default();
        let mut ids = vk::PhysicalDeviceIDProperties::default();
        let mut properties = vk::PhysicalDeviceProperties2::default()
            .push_next(&mut driver)
            .push_next(&mut subgroup)
            .push_next(&mut ids);
        // SAFETY: sound, the device is one of this instance.
        let (memory, limits) = unsafe {
            self.raw.get_physical_device_properties2(device, &mut properties);
            (self.raw.get_physical_device_memory_properties(device), properties.properties)
        };
        let version = limits.api_version;
        let heaps = memory.memory_heaps.iter().take(memory.memory_heap_count as usize);
        let own = heaps.filter(|heap| heap.flags.contains(vk::MemoryHeapFlags::DEVICE_LOCAL));
        let extensions = self.extensions(device);
        DeviceInfo {
            number,
            name: text(&limits.device_name),
            kind: DeviceKind::of(limits.device_type),
            vendor: limits.vendor_id,
            uuid: Uuid::from_bytes(ids.device_uuid),
            pci: self.pci(device, &extensions),
            driver: format!("{} {}", text(&driver.driver_name), text(&driver.driver_info)),
            driver_build: (limits.driver_version, Uuid::from_bytes(limits.pipeline_cache_uuid)),
            version: (
                vk::api_version_major(version),
                vk::api_version_minor(version),
                vk::api_version_patch(version),
            ),
            memory: own.map(|heap| heap.size).max().unwrap_or(0),
            free_memory: self.free_memory_with(device, &extensions),
            subgroup: subgroup.subgroup_size,
            workgroup: limits.limits.max_compute_work_group_invocations,
            tick: limits.limits.timestamp_period,
            lacks: self.lacks(device, version),
        }
    }

    /// Returns the features that the engine needs and a device lacks.
    fn lacks(&self, device: vk::PhysicalDevice, version: u32) -> Vec<&'static str> {
        if version < vk::API_VERSION_1_2 {
            return vec!["Vulkan 1.2"];
        }
        let mut v12 = vk::PhysicalDeviceVulkan12Features::default();
        let mut features = vk::PhysicalDeviceFeatures2::default().push_next(&mut v12);
        // SAFETY: sound, the device is one of this instance.
        unsafe { self.raw.get_physical_device_features2(device, &mut features) };
        let integers = features.features.shader_int64;
        let needs = [
            (integers, "64-bit integers"),
            (v12.buffer_device_address, "buffer device addresses"),
            (v12.vulkan_memory_model, "the Vulkan memory model"),
            (v12.vulkan_memory_model_device_scope, "atomics of the scope of a device"),
            (v12.timeline_semaphore, "timeline semaphores"),
        ];
        let mut lacks: Vec<_> =
            needs.into_iter().filter(|(has, _)| *has == vk::FALSE).map(|(_, what)| what).collect();
        if self.queue_family(device).is_none() {
            lacks.push("a queue for compute");
        }
        lacks
    }

    /// Returns the family of queues for compute, if possible one without graphics.
    pub(crate) fn queue_family(&self, device: vk::PhysicalDevice) -> Option<u32> {
        // SAFETY: sound, the device is one of this instance.
        let families = unsafe { self.raw.get_physical_device_queue_family_properties(device) };
        let has = |flags: vk::QueueFlags| {
            let position = families.iter().position(|family| {
                family.queue_flags.contains(vk::QueueFlags::COMPUTE)
                    && !family.queue_flags.intersects(flags)
                    && family.queue_count > 0
            });
            position.map(|family| family as u32)
        };
        has(vk::QueueFlags::GRAPHICS).or_else(|| has(vk::QueueFlags::empty()))
    }

    /// Returns the family of queues for copies alone, where the device has one.
    pub(crate) fn copy_family(&self, device: vk::PhysicalDevice) -> Option<u32> {
        // SAFETY: sound, the device is one of this instance.
        copy_family(&unsafe { self.raw.get_physical_device_queue_family_properties(device) })
    }

    /// Returns the device of a choice.
    pub(crate) fn choose(&self, choice: &Choice) -> Result<(vk::PhysicalDevice, DeviceInfo)> {
        let all = self.physical()?;
        let names = all.iter().map(|(_, info)| format!("{}: {}", info.number, info.name));
        let present = names.collect::<Vec<_>>().join(", ");
        let visible = std::env::var("CUDA_VISIBLE_DEVICES").ok();
        let infos: Vec<DeviceInfo> = all.iter().map(|(_, info)| info.clone()).collect();
        match choice.of(&infos, visible.as_deref()).and_then(|index| all.into_iter().nth(index)) {
            None if *choice == Choice::Best => Err(Error::NoDevice((!present.is_empty()).then_some(present))),
            None => Err(Error::NoSuchDevice { asked: choice.to_string(), present }),
            Some((_, info)) if !info.lacks.is_empty() => {
                Err(Error::NoDevice(Some(format!("{} lacks {}", info.name, info.lacks.join(", ")))))
            }
            Some(chosen) => Ok(chosen),
        }
    }

    /// Tells whether buffers of a device can be exported, without demands of their own on the allocation.
    pub(super) fn can_export(&self, device: vk::PhysicalDevice) -> bool {
        if !has(&self.extensions(device), ash::khr::external_memory_fd::NAME) {
            return false;
        }
        let info = vk::PhysicalDeviceExternalBufferInfo::default().usage(USAGE).handle_type(HANDLE);
        let mut properties = vk::ExternalBufferProperties::default();
        // SAFETY: sound, the device is one of this instance.
        unsafe { self.raw.get_physical_device_external_buffer_properties(device, &info, &mut properties) };
        let features = properties.external_memory_properties.external_memory_features;
        features.contains(vk::ExternalMemoryFeatureFlags::EXPORTABLE)
            && !features.contains(vk::ExternalMemoryFeatureFlags::DEDICATED_ONLY)
    }

    /// Tells whether timeline semaphores of a device can be exported.
    pub(super) fn can_export_timelines(&self, device: vk::PhysicalDevice) -> bool {
        if !has(&self.extensions(device), ash::khr::external_semaphore_fd::NAME) {
            return false;
        }
        let mut kind = vk::SemaphoreTypeCreateInfo::default().semaphore_type(vk::SemaphoreType::TIMELINE);
        let info = vk::PhysicalDeviceExternalSemaphoreInfo::default()
            .handle_type(SEMAPHORE_HANDLE)
            .push_next(&mut kind);
        let mut properties = vk::ExternalSemaphoreProperties::default();
        // SAFETY: sound, the device is one of this instance.
        unsafe {
            self.raw.get_physical_device_external_semaphore_properties(device, &info, &mut properties);
        }
        let features = properties.external_semaphore_features;
        features.contains(vk::ExternalSemaphoreFeatureFlags::EXPORTABLE)
    }

    fn extensions(&self, device: vk::PhysicalDevice) -> Vec<vk::ExtensionProperties> {
        // SAFETY: sound, the device is one of this instance.
        unsafe { self.raw.enumerate_device_extension_properties(device) }.unwrap_or_default()
    }

    /// Returns the bytes of the largest heap of the device's own memory that this process may still take,
    /// where its driver estimates them.
    pub(crate) fn free_memory(&self, device: vk::PhysicalDevice) -> Option<u64> {
        self.free_memory_with(device, &self.extensions(device))
    }

    fn free_memory_with(
        &self,
        device: vk::PhysicalDevice,
        extensions: &[vk::ExtensionProperties],
    ) -> Option<u64> {
        if !has(extensions, ash::ext::memory_budget::NAME) {
            return None;
        }
        let mut budget = vk::PhysicalDeviceMemoryBudgetPropertiesEXT::default();
        let mut properties = vk::PhysicalDeviceMemoryProperties2::default().push_next(&mut budget);
        // SAFETY: sound, the device is one of this instance, and has the extension.
        unsafe { self.raw.get_physical_device_memory_properties2(device, &mut properties) };
        let memory = properties.memory_properties;
        let own = (0..memory.memory_heap_count as usize)
            .filter(|heap| memory.memory_heaps[*heap].flags.contains(vk::MemoryHeapFlags::DEVICE_LOCAL));
        let largest = own.max_by_key(|heap| memory.memory_heaps[*heap].size)?;
        let free = budget.heap_budget[largest].saturating_sub(budget.heap_usage[largest]);
        Some(free.min(memory.memory_heaps[largest].size))
    }

    /// Returns the device's address on the PCI bus, where its driver tells it.
    fn pci(&self, device: vk::PhysicalDevice, extensions: &[vk::ExtensionProperties]) -> Option<PciAddress> {
        if !has(extensions, ash::ext::pci_bus_info::NAME) {
            return None;
        }
        let mut pci = vk::PhysicalDevicePCIBusInfoPropertiesEXT::default();
        let mut properties = vk::PhysicalDeviceProperties2::default().push_next(&mut pci);
        // SAFETY: sound, the device is one of this instance, and has the extension.
        unsafe { self.raw.get_physical_device_properties2(device, &mut properties) };
        Some(PciAddress {
            domain: pci.pci_domain,
            bus: u8::try_from(pci.pci_bus).ok()?,
            device: u8::try_from(pci.pci_device).ok()?,
            function: u8::try_from(pci.pci_function).ok()?,
        })
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        // SAFETY: sound, its devices are gone: each owns its instance.
        unsafe { self.raw.destroy_instance(None) };
    }
}

/// Lists the devices of this machine, also those that cannot be used.
///
/// # Errors
/// No loader, no driver.
pub fn devices() -> Result<Vec<DeviceInfo>> {
    Ok(Instance::new()?.physical()?.into_iter().map(|(_, info)| info).collect())
}

/// Returns the first family of queues that copy and do nothing else. (Those for videos can copy as well.)
fn copy_family(families: &[vk::QueueFamilyProperties]) -> Option<u32> {
    use vk::QueueFlags as Flags;
    let allowed = Flags::TRANSFER | Flags::SPARSE_BINDING | Flags::PROTECTED;
    let copies = |family: &vk::QueueFamilyProperties| {
        let flags = family.queue_flags;
        family.queue_count > 0 && flags.contains(Flags::TRANSFER) && allowed.contains(flags)
    };
    families.iter().position(copies).map(|family| family as u32)
}

fn has(extensions: &[vk::ExtensionProperties], name: &CStr) -> bool {
    extensions.iter().any(|known| known.extension_name_as_c_str().is_ok_and(|known| known == name))
}

fn text(chars: &[std::ffi::c_char]) -> String {
    let bytes: Vec<u8> = chars.iter().map(|c| *c as u8).collect();
    CStr::from_bytes_until_nul(&bytes).map(|text| text.to_string_lossy().into_owned()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use vk::QueueFlags as Flags;

    #[test]
    fn the_queue_for_copies_is_one_that_does_nothing_else() {
        let all = Flags::GRAPHICS | Flags::COMPUTE | Flags::TRANSFER | Flags::SPARSE_BINDING;
        let family = |queue_flags, queue_count| vk::QueueFamilyProperties {
            queue_flags,
            queue_count,
            ..vk::QueueFamilyProperties::default()
        };
        let copies = Flags::TRANSFER | Flags::SPARSE_BINDING;
        let video = Flags::TRANSFER | Flags::VIDEO_DECODE_KHR;
        for (families, expected) in [
            (vec![family(all, 1)], None),
            (vec![family(all, 16), family(copies, 2), family(Flags::COMPUTE | copies, 8)], Some(1)),
            (vec![family(all, 16), family(video, 1), family(Flags::TRANSFER, 0)], None),
            (vec![family(video, 1), family(all, 16), family(Flags::TRANSFER, 1)], Some(2)),
            (vec![], None),
        ] {
            assert_eq!(copy_family(&families), expected, "{} families", families.len());
        }
    }
}
