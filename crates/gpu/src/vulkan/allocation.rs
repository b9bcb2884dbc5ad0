//! Allocations of a device's memory, and those that wait to be used again.

use super::buffer::MemoryLocation;
use super::device::Device;
use super::external::{HANDLE, USAGE};
use crate::error::{During, Error, Result};
use ash::vk;
use parking_lot::Mutex;
use std::ptr::NonNull;

/// Bytes of a spare allocation and of all of them at most, and how many there are. A driver takes long to
/// allocate memory, and each search and each batch of changes needs some buffers of a few MiB.
const SPARE: u64 = 16 << 20;
const SPARES: u64 = 64 << 20;
const SPARE_COUNT: usize = 64;

pub(super) const OPERATION: &str = "allocating memory";

/// A buffer and its memory. Its owner frees it.
pub(super) struct Allocation {
    pub(super) raw: vk::Buffer,
    pub(super) memory: vk::DeviceMemory,
    pub(super) location: MemoryLocation,
    /// Bytes that a buffer may have.
    pub(super) capacity: u64,
    /// Bytes of the memory.
    pub(super) allocated: u64,
    /// Another buffer may use it, when its buffer is dropped.
    pub(super) is_used_again: bool,
    /// Address for kernels.
    pub(super) address: u64,
    pub(super) host: Option<NonNull<u8>>,
    /// Reads of the host are fast.
    pub(super) is_cached: bool,
}

impl Default for Allocation {
    fn default() -> Self {
        Allocation {
            raw: vk::Buffer::null(),
            memory: vk::DeviceMemory::null(),
            location: MemoryLocation::Device,
            capacity: 0,
            allocated: 0,
            is_used_again: false,
            address: 0,
            host: None,
            is_cached: false,
        }
    }
}

// SAFETY: sound, the memory is the allocation's own, and the owner of a buffer needs `&mut` to write to it.
unsafe impl Send for Allocation {}
// SAFETY: as above.
unsafe impl Sync for Allocation {}

impl Allocation {
    /// # Errors
    /// [`Error::Device`], where memory is short: `ERROR_OUT_OF_DEVICE_MEMORY`.
    pub(super) fn new(device: &Device, location: MemoryLocation, bytes: u64) -> Result<Allocation> {
        let mut made = Allocation { location, ..Allocation::default() };
        let outcome = made.make(device, bytes);
        if outcome.is_err() {
            made.free(device);
        }
        outcome.map(|()| made)
    }

    fn make(&mut self, device: &Device, bytes: u64) -> Result<()> {
        use vk::MemoryPropertyFlags as Flags;
        // Buffers of about the same size share spares.
        let rounded = bytes.next_multiple_of((bytes.next_power_of_two() / 16).max(16));
        let bytes = if rounded <= SPARE { rounded } else { bytes };
        if bytes > device.largest {
            let code = vk::Result::ERROR_OUT_OF_DEVICE_MEMORY;
            return Err(Error::Device { operation: OPERATION, code });
        }
        let is_exportable = self.location == MemoryLocation::Exportable;
        if is_exportable {
            device.export_functions()?;
        }
        self.is_used_again = !is_exportable && bytes <= SPARE;
        let mut create = vk::BufferCreateInfo::default().size(bytes).usage(USAGE);
        let mut external = vk::ExternalMemoryBufferCreateInfo::default().handle_types(HANDLE);
        if is_exportable {
            create = create.push_next(&mut external);
        }
        // SAFETY: sound, the device lives.
        self.raw = unsafe { device.raw.create_buffer(&create, None) }.during(OPERATION)?;
        self.capacity = bytes;
        // SAFETY: sound, the buffer is the device's.
        let needs = unsafe { device.raw.get_buffer_memory_requirements(self.raw) };
        let host = Flags::HOST_VISIBLE | Flags::HOST_COHERENT;
        let (least, better) = match self.location {
            MemoryLocation::Device => (Flags::DEVICE_LOCAL, host),
            MemoryLocation::Exportable => (Flags::DEVICE_LOCAL, Flags::empty()),
            MemoryLocation::Upload => (host, Flags::empty()),
            MemoryLocation::Download => (host, Flags::HOST_CACHED),
        };
        // A device that shares all of its memory loses nothing by a mapping; others share a small window
        // only.
        let is_mapped = match self.location {
            MemoryLocation::Device => !device.has_own_memory,
            MemoryLocation::Upload | MemoryLocation::Download => true,
            MemoryLocation::Exportable => false,
        };
        let better = if is_mapped { better } else { Flags::empty() };
        let kinds = device.memory_kinds(needs.memory_type_bits, least, better);
        let flags = self.allocate(device, needs.size, &kinds).during(OPERATION)?;
        self.is_cached = flags.contains(Flags::HOST_CACHED);
        // SAFETY: sound, the handles are of this device; the memory is as large as the buffer needs.
        unsafe {
            device.raw.bind_buffer_memory(self.raw, self.memory, 0).during(OPERATION)?;
            let info = vk::BufferDeviceAddressInfo::default().buffer(self.raw);
            self.address = device.raw.get_buffer_device_address(&info);
            if flags.contains(host) && is_mapped {
                let at = device.raw.map_memory(self.memory, 0, vk::WHOLE_SIZE, vk::MemoryMapFlags::empty());
                self.host = NonNull::new(at.during(OPERATION)?.cast());
            }
        }
        Ok(())
    }

    /// Allocates memory of the first of these kinds that has room, and returns its properties. The heap of
    /// one kind may be a small window into the memory of another.
    fn allocate(
        &mut self,
        device: &Device,
        bytes: u64,
        kinds: &[u32],
    ) -> ash::prelude::VkResult<vk::MemoryPropertyFlags> {
        let mut outcome = Err(vk::Result::ERROR_FEATURE_NOT_PRESENT);
        for kind in kinds {
            let mut with_address =
                vk::MemoryAllocateFlagsInfo::default().flags(vk::MemoryAllocateFlags::DEVICE_ADDRESS);
            let mut exported = vk::ExportMemoryAllocateInfo::default().handle_types(HANDLE);
            let mut allocate = vk::MemoryAllocateInfo::default()
                .allocation_size(bytes)
                .memory_type_index(*kind)
                .push_next(&mut with_address);
            if self.location == MemoryLocation::Exportable {
                allocate = allocate.push_next(&mut exported);
            }
            // SAFETY: sound, the device lives, and the arguments live until the call returns.
            match unsafe { device.raw.allocate_memory(&allocate, None) } {
                Ok(memory) => {
                    (self.memory, self.allocated) = (memory, bytes);
                    return Ok(device.memory.memory_types[*kind as usize].property_flags);
                }
                Err(code) => outcome = Err(code),
            }
            if outcome != Err(vk::Result::ERROR_OUT_OF_DEVICE_MEMORY) {
                break;
            }
        }
        outcome
    }

    /// Frees the memory. No work on it may be in flight.
    fn free(&self, device: &Device) {
        // SAFETY: sound, the handles are of this device or null, nothing uses them, and this is the last use:
        // each owner drops the allocation behind it.
        unsafe {
            device.raw.destroy_buffer(self.raw, None);
            device.raw.free_memory(self.memory, None);
        }
    }
}

/// Allocations that no buffer uses.
#[derive(Default)]
pub(super) struct Spares(Mutex<Vec<Allocation>>);

impl Spares {
    /// Returns an allocation of this size, or of one that is a little larger.
    pub(super) fn take(&self, location: MemoryLocation, bytes: u64) -> Option<Allocation> {
        let mut spares = self.0.lock();
        let fits = |spare: &Allocation| {
            spare.location == location && bytes <= spare.capacity && spare.capacity <= bytes.max(4096) * 2
        };
        let at = spares.iter().rposition(fits)?;
        Some(spares.remove(at))
    }

    /// Keeps an allocation, and frees the oldest ones where there are too many.
    pub(super) fn keep(&self, device: &Device, allocation: Allocation) {
        if !allocation.is_used_again {
            return allocation.free(device);
        }
        let mut spares = self.0.lock();
        spares.push(allocation);
        let mut sum: u64 = spares.iter().map(|spare| spare.capacity).sum();
        let mut excess = 0;
        while sum > SPARES || spares.len() - excess > SPARE_COUNT {
            sum -= spares[excess].capacity;
            excess += 1;
        }
        let freed: Vec<Allocation> = spares.drain(..excess).collect();
        drop(spares);
        freed.iter().for_each(|spare| spare.free(device));
    }

    /// Frees all; tells whether there were any.
    pub(super) fn free(&self, device: &Device) -> bool {
        let freed = std::mem::take(&mut *self.0.lock());
        freed.iter().for_each(|spare| spare.free(device));
        !freed.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vulkan::{Buffer, Choice};

    #[test]
    fn memory_of_a_buffer_that_is_dropped_is_used_again_within_bounds() {
        let device = Device::open(&Choice::default(), false, false).expect("a Vulkan device");
        let made = |len, location| Buffer::new(&device, len, location).expect("memory");
        let first = made(1 << 20, MemoryLocation::Device);
        let raw = first.raw;
        drop(first);
        assert_ne!(made(1 << 20, MemoryLocation::Upload).raw, raw, "memory of another kind");
        assert_ne!(made(2 << 20, MemoryLocation::Device).raw, raw, "too little memory");
        assert_ne!(made(1 << 10, MemoryLocation::Device).raw, raw, "far too much memory");
        let again = made((1 << 20) - 1000, MemoryLocation::Device);
        assert_eq!((again.raw, again.len), (raw, (1 << 20) - 1000));
        assert_ne!(made(1 << 20, MemoryLocation::Device).raw, raw, "memory in use");
        for len in [SPARE, SPARE + 1, SPARE / 2] {
            let all: Vec<Buffer> = (0..10).map(|_| made(len, MemoryLocation::Device)).collect();
            drop(all);
            let spares = device.spares.0.lock();
            assert!(spares.iter().all(|spare| spare.capacity <= SPARE));
            assert!(spares.iter().map(|spare| spare.capacity).sum::<u64>() <= SPARES);
        }
        let small: Vec<Buffer> = (0..200).map(|_| made(100, MemoryLocation::Device)).collect();
        drop(small);
        assert_eq!(device.spares.0.lock().len(), SPARE_COUNT);
        assert!(device.spares.free(&device) && !device.spares.free(&device));
    }
}
