//! Memory of a device.

use super::device::Device;
use crate::error::{During, Error, Result};
use ash::vk;
use std::ptr::NonNull;
use std::sync::Arc;

/// Where a buffer lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MemoryLocation {
    /// In the device's own memory; the host sees it only where it happens to share it.
    Device,
    /// In memory that both see, good for writing by the host.
    Upload,
    /// In memory that both see, good for reading by the host.
    Download,
}

/// Bytes of a guard, a multiple of what kernels align to, and what they are. (Buffers have guards in tests only.)
const GUARD: u64 = 256;
const GUARD_BYTE: u8 = 0xa5;

/// A buffer with an address for kernels, and for the host where it sees it.
pub(crate) struct Buffer {
    device: Arc<Device>,
    pub(crate) raw: vk::Buffer,
    memory: vk::DeviceMemory,
    /// In bytes.
    pub(crate) len: u64,
    /// Where the bytes begin in what was allocated: behind a guard, where there is one.
    pub(crate) start: u64,
    /// For kernels.
    pub(crate) address: u64,
    host: Option<NonNull<u8>>,
}

// SAFETY: the memory is the buffer's own; who writes to it has it by `&mut`.
unsafe impl Send for Buffer {}
// SAFETY: as above.
unsafe impl Sync for Buffer {}

impl Buffer {
    /// # Errors
    /// [`Error::Device`], where memory is short: `ERROR_OUT_OF_DEVICE_MEMORY`.
    pub(crate) fn new(device: &Arc<Device>, len: u64, place: MemoryLocation) -> Result<Buffer> {
        use vk::MemoryPropertyFlags as Flags;
        const OPERATION: &str = "allocating memory";
        let too_long = Error::Device { operation: OPERATION, code: vk::Result::ERROR_OUT_OF_DEVICE_MEMORY };
        let len = len.max(16).next_multiple_of(4);
        let guard = if device.is_guarded { GUARD } else { 0 };
        let whole = len + 2 * guard;
        if whole > device.largest {
            return Err(too_long);
        }
        let usage = vk::BufferUsageFlags::STORAGE_BUFFER
            | vk::BufferUsageFlags::SHADER_DEVICE_ADDRESS
            | vk::BufferUsageFlags::TRANSFER_SRC
            | vk::BufferUsageFlags::TRANSFER_DST;
        let create = vk::BufferCreateInfo::default().size(whole).usage(usage);
        // SAFETY: the device lives.
        let raw = unsafe { device.raw.create_buffer(&create, None) }.during(OPERATION)?;
        // From here on what was made is unmade by `drop`.
        let mut buffer = Buffer {
            device: device.clone(),
            raw,
            memory: vk::DeviceMemory::null(),
            len,
            start: guard,
            address: 0,
            host: None,
        };
        // SAFETY: the buffer is the device's.
        let needs = unsafe { device.raw.get_buffer_memory_requirements(raw) };
        let host = Flags::HOST_VISIBLE | Flags::HOST_COHERENT;
        let (least, better) = match place {
            MemoryLocation::Device => (Flags::DEVICE_LOCAL, host),
            MemoryLocation::Upload => (host, Flags::empty()),
            MemoryLocation::Download => (host, Flags::HOST_CACHED),
        };
        // Where the device shares all of its memory it costs nothing to see it; else what it shares is a small window.
        let kind = match place {
            MemoryLocation::Device if device.has_own_memory => {
                device.memory_kind(needs.memory_type_bits, least, Flags::empty())
            }
            _ => device.memory_kind(needs.memory_type_bits, least, better),
        };
        let kind =
            kind.ok_or(Error::Device { operation: OPERATION, code: vk::Result::ERROR_FEATURE_NOT_PRESENT })?;
        let flags = device.memory.memory_types[kind as usize].property_flags;
        let mut with_address =
            vk::MemoryAllocateFlagsInfo::default().flags(vk::MemoryAllocateFlags::DEVICE_ADDRESS);
        let allocate = vk::MemoryAllocateInfo::default()
            .allocation_size(needs.size)
            .memory_type_index(kind)
            .push_next(&mut with_address);
        // SAFETY: the handles are of this device; the memory is as large as the buffer needs.
        unsafe {
            buffer.memory = device.raw.allocate_memory(&allocate, None).during(OPERATION)?;
            device.raw.bind_buffer_memory(raw, buffer.memory, 0).during(OPERATION)?;
            let info = vk::BufferDeviceAddressInfo::default().buffer(raw);
            buffer.address = device.raw.get_buffer_device_address(&info) + guard;
            if flags.contains(host) && !(device.has_own_memory && place == MemoryLocation::Device) {
                let at = device.raw.map_memory(buffer.memory, 0, vk::WHOLE_SIZE, vk::MemoryMapFlags::empty());
                buffer.host = NonNull::new(at.during(OPERATION)?.cast());
            }
        }
        buffer.guards(|guard| guard.fill(GUARD_BYTE));
        Ok(buffer)
    }

    /// The bytes before and behind those that are in use, where the host sees them.
    fn guards(&mut self, mut each: impl FnMut(&mut [u8])) {
        let Some(at) = self.host else { return };
        for from in [0, self.start + self.len] {
            // SAFETY: mapped for as long as the buffer lives, with a guard of this size at both ends.
            each(unsafe {
                std::slice::from_raw_parts_mut(at.as_ptr().add(from as usize), self.start as usize)
            });
        }
    }

    /// The bytes, where the host sees them. The device must not be at them meanwhile.
    pub(crate) fn bytes_mut(&mut self) -> Option<&mut [u8]> {
        // SAFETY: mapped for as long as the buffer lives.
        self.host.map(|at| unsafe {
            std::slice::from_raw_parts_mut(at.as_ptr().add(self.start as usize), self.len as usize)
        })
    }

    /// The bytes, where the host sees them. The device must not write to them meanwhile.
    pub(crate) fn bytes(&self) -> Option<&[u8]> {
        // SAFETY: as above.
        self.host.map(|at| unsafe {
            std::slice::from_raw_parts(at.as_ptr().add(self.start as usize), self.len as usize)
        })
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        let mut is_whole = true;
        self.guards(|guard| is_whole &= guard.iter().all(|byte| *byte == GUARD_BYTE));
        assert!(
            is_whole || std::thread::panicking(),
            "somebody wrote outside a buffer of {} bytes",
            self.len
        );
        // SAFETY: who uses a buffer in a submission keeps it until that is over.
        unsafe {
            self.device.raw.destroy_buffer(self.raw, None);
            self.device.raw.free_memory(self.memory, None);
        }
    }
}
