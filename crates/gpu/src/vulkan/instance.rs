//! The devices of a machine, and the choice of one.

use crate::error::{During, Error, Result};
use ash::vk;
use std::ffi::CStr;

/// Kind of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum DeviceKind {
    /// With memory of its own.
    Discrete,
    /// Sharing the host's memory.
    Integrated,
    /// Of a virtual machine.
    Virtual,
    /// A program on the processor (Mesa's llvmpipe).
    Software,
    /// Anything else.
    Other,
}

impl DeviceKind {
    fn of(kind: vk::PhysicalDeviceType) -> Self {
        match kind {
            vk::PhysicalDeviceType::DISCRETE_GPU => DeviceKind::Discrete,
            vk::PhysicalDeviceType::INTEGRATED_GPU => DeviceKind::Integrated,
            vk::PhysicalDeviceType::VIRTUAL_GPU => DeviceKind::Virtual,
            vk::PhysicalDeviceType::CPU => DeviceKind::Software,
            _ => DeviceKind::Other,
        }
    }

    /// Returns the kind in a word.
    pub fn text(self) -> &'static str {
        match self {
            DeviceKind::Discrete => "discrete",
            DeviceKind::Integrated => "integrated",
            DeviceKind::Virtual => "virtual",
            DeviceKind::Software => "software",
            DeviceKind::Other => "other",
        }
    }
}

/// A device of this machine.
#[derive(Clone, Debug)]
pub struct DeviceInfo {
    /// Number, as [`Choice::Number`] takes it.
    pub number: usize,
    /// Its name.
    pub name: String,
    /// Kind.
    pub kind: DeviceKind,
    /// The driver's name and version, in its own words.
    pub driver: String,
    /// Version of Vulkan: major, minor, patch.
    pub version: (u32, u32, u32),
    /// Bytes of the largest heap of memory of its own.
    pub memory: u64,
    /// Invocations of a subgroup.
    pub subgroup: u32,
    /// Invocations of a workgroup at most.
    pub workgroup: u32,
    /// Nanoseconds of a tick of the device's clock; 0 without one.
    pub tick: f32,
    /// Features that the engine needs and the device lacks; none for a device that can be used.
    pub lacks: Vec<&'static str>,
}

/// Choice of a device.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Choice {
    /// The first one of the best kind: with memory of its own, if there is one.
    #[default]
    Best,
    /// The device with this number.
    Number(usize),
    /// The first one with this text in its name, in any case of letters.
    Name(String),
}

impl std::str::FromStr for Choice {
    type Err = std::convert::Infallible;

    fn from_str(text: &str) -> std::result::Result<Self, Self::Err> {
        Ok(text.parse().map(Choice::Number).unwrap_or_else(|_| Choice::Name(text.into())))
    }
}

/// The loader, and an instance of it.
pub(crate) struct Instance {
    pub(crate) raw: ash::Instance,
    /// Keeps the loader's library open.
    _entry: ash::Entry,
}

impl Instance {
    pub(crate) fn new() -> Result<Instance> {
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
        let mut properties =
            vk::PhysicalDeviceProperties2::default().push_next(&mut driver).push_next(&mut subgroup);
        // SAFETY: sound, the device is one of this instance.
        let (memory, limits) = unsafe {
            self.raw.get_physical_device_properties2(device, &mut properties);
            (self.raw.get_physical_device_memory_properties(device), properties.properties)
        };
        let version = limits.api_version;
        let heaps = memory.memory_heaps.iter().take(memory.memory_heap_count as usize);
        let own = heaps.filter(|heap| heap.flags.contains(vk::MemoryHeapFlags::DEVICE_LOCAL));
        DeviceInfo {
            number,
            name: text(&limits.device_name),
            kind: DeviceKind::of(limits.device_type),
            driver: format!("{} {}", text(&driver.driver_name), text(&driver.driver_info)),
            version: (
                vk::api_version_major(version),
                vk::api_version_minor(version),
                vk::api_version_patch(version),
            ),
            memory: own.map(|heap| heap.size).max().unwrap_or(0),
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

    /// Returns the device of a choice.
    pub(crate) fn choose(&self, choice: &Choice) -> Result<(vk::PhysicalDevice, DeviceInfo)> {
        let all = self.physical()?;
        let present = all
            .iter()
            .map(|(_, info)| format!("{}: {}", info.number, info.name))
            .collect::<Vec<_>>()
            .join(", ");
        let chosen = match choice {
            Choice::Best => {
                let usable = all.into_iter().filter(|(_, info)| info.lacks.is_empty());
                // The first of the best kind.
                let best = usable.min_by_key(|(_, info)| (info.kind, info.number));
                return best.ok_or(Error::NoDevice((!present.is_empty()).then_some(present)));
            }
            Choice::Number(number) => all.into_iter().nth(*number),
            Choice::Name(name) => {
                let name = name.to_lowercase();
                all.into_iter().find(|(_, info)| info.name.to_lowercase().contains(&name))
            }
        };
        let asked = || match choice {
            Choice::Number(number) => number.to_string(),
            Choice::Name(name) => name.clone(),
            Choice::Best => String::new(),
        };
        match chosen {
            None => Err(Error::NoSuchDevice { asked: asked(), present }),
            Some((_, info)) if !info.lacks.is_empty() => {
                Err(Error::NoDevice(Some(format!("{} lacks {}", info.name, info.lacks.join(", ")))))
            }
            Some(chosen) => Ok(chosen),
        }
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

fn text(chars: &[std::ffi::c_char]) -> String {
    let bytes: Vec<u8> = chars.iter().map(|c| *c as u8).collect();
    CStr::from_bytes_until_nul(&bytes).map(|text| text.to_string_lossy().into_owned()).unwrap_or_default()
}
