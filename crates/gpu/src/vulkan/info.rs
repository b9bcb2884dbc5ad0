//! Descriptions of devices.

use ash::vk;
use std::fmt;
use uuid::Uuid;

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
    pub(super) fn of(kind: vk::PhysicalDeviceType) -> Self {
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
    /// Number, as [`Choice::Number`](crate::Choice::Number) takes it.
    pub number: usize,
    /// Its name.
    pub name: String,
    /// Kind.
    pub kind: DeviceKind,
    /// Number of the vendor, as PCI has it.
    pub vendor: u32,
    /// UUID, which stays the same when devices are added; other interfaces (CUDA) have the same.
    pub uuid: Uuid,
    /// Address on the PCI bus; `None` for a device without one.
    pub pci: Option<PciAddress>,
    /// The driver's name and version, in its own words.
    pub driver: String,
    /// The driver's version and the UUID of its compiled kernels: they tell builds of a driver apart that
    /// have the same name.
    pub(crate) driver_build: (u32, Uuid),
    /// Version of Vulkan: major, minor, patch.
    pub version: (u32, u32, u32),
    /// Bytes of the largest heap of memory of its own.
    pub memory: u64,
    /// Bytes of it that this process could still take when the devices were listed; `None` where the driver
    /// does not tell.
    pub free_memory: Option<u64>,
    /// Invocations of a subgroup.
    pub subgroup: u32,
    /// Invocations of a workgroup at most.
    pub workgroup: u32,
    /// Nanoseconds of a tick of the device's clock; 0 without one.
    pub tick: f32,
    /// Features that the engine needs and the device lacks; none for a device that can be used.
    pub lacks: Vec<&'static str>,
}

/// Address of a device on the PCI bus: `domain:bus:device.function`, in hexadecimal digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PciAddress {
    /// Domain.
    pub domain: u32,
    /// Bus.
    pub bus: u8,
    /// Device.
    pub device: u8,
    /// Function.
    pub function: u8,
}

impl PciAddress {
    /// Parses `0000:65:00.0`; the domain may be left out.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let (rest, function) = text.rsplit_once('.')?;
        let mut parts = rest.rsplit(':');
        let (device, bus, domain) = (parts.next()?, parts.next()?, parts.next().unwrap_or("0"));
        let number = |digits: &str, most: usize| {
            let is_fine = (1..=most).contains(&digits.len()) && digits.bytes().all(|b| b.is_ascii_hexdigit());
            is_fine.then(|| u32::from_str_radix(digits, 16).ok()).flatten()
        };
        let byte = |digits| number(digits, 2).map(|number| number as u8);
        let address = PciAddress {
            domain: number(domain, 8)?,
            bus: byte(bus)?,
            device: byte(device)?,
            function: byte(function)?,
        };
        parts.next().is_none().then_some(address)
    }
}

impl fmt::Display for PciAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let PciAddress { domain, bus, device, function } = self;
        write!(f, "{domain:04x}:{bus:02x}:{device:02x}.{function:x}")
    }
}
