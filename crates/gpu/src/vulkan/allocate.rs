//! Allocating a device's memory, and keeping what buffers leave.

use super::allocation::{Allocation, MemoryLocation, OPERATION, SPARE_BYTES};
use super::device::Device;
use super::external::{HANDLE, USAGE};
use crate::error::{During, Error, Result};
use ash::vk;
use std::ptr::NonNull;

impl Allocation {
    /// # Errors
    /// [`Error::Device`], where memory is short: `ERROR_OUT_OF_DEVICE_MEMORY`.
    pub(super) fn new(device: &Device, location: MemoryLocation, bytes: u64) -> Result<Allocation> {
        let mut made = Allocation { location, ..Allocation::default() };
        let outcome = made.make(device, bytes);
        if outcome.is_err() {
            made.free(&device.raw);
        }
        outcome.map(|()| made)
    }

    fn make(&mut self, device: &Device, bytes: u64) -> Result<()> {
        use vk::MemoryPropertyFlags as Flags;
        // Buffers of about the same size share spares.
        let rounded = bytes.next_multiple_of((bytes.next_power_of_two() / 16).max(16));
        let bytes = if rounded <= SPARE_BYTES { rounded } else { bytes };
        if bytes > device.largest {
            let code = vk::Result::ERROR_OUT_OF_DEVICE_MEMORY;
            return Err(Error::Device { operation: OPERATION, code });
        }
        let is_exportable = self.location == MemoryLocation::Exportable;
        if is_exportable {
            device.export_functions()?;
        }
        self.is_used_again = !is_exportable && bytes <= SPARE_BYTES;
        self.raw = create_buffer(device, bytes, is_exportable)?;
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
}

/// Creates a buffer without memory, for all queues of the device. One that can be exported is for the queue
/// that gives it to other programs and takes it back.
fn create_buffer(device: &Device, bytes: u64, is_exportable: bool) -> Result<vk::Buffer> {
    let create = vk::BufferCreateInfo::default().size(bytes).usage(USAGE);
    let mut external = vk::ExternalMemoryBufferCreateInfo::default().handle_types(HANDLE);
    let families = device.two_families();
    let create = match &families {
        _ if is_exportable => create.push_next(&mut external),
        Some(both) => create.sharing_mode(vk::SharingMode::CONCURRENT).queue_family_indices(both),
        None => create,
    };
    // SAFETY: sound, the device lives, and the arguments live until the call returns.
    unsafe { device.raw.create_buffer(&create, None) }.during(OPERATION)
}

impl Device {
    /// Keeps the memory of a buffer that was dropped, and frees the oldest where there is too much.
    pub(super) fn keep_spare(&self, allocation: Allocation) {
        self.spares.keep(allocation).iter().for_each(|spare| spare.free(&self.raw));
    }

    /// Frees the memory of buffers that were dropped; tells whether there was any.
    pub(crate) fn free_spares(&self) -> bool {
        let spares = self.spares.take_all();
        spares.iter().for_each(|spare| spare.free(&self.raw));
        !spares.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use crate::vulkan::allocation::{MemoryLocation, SPARE_BYTES, SPARE_COUNT, SPARES_BYTES};
    use crate::vulkan::{Buffer, Choice, Device};

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
        for len in [SPARE_BYTES, SPARE_BYTES + 1, SPARE_BYTES / 2] {
            let all: Vec<Buffer> = (0..10).map(|_| made(len, MemoryLocation::Device)).collect();
            drop(all);
            let spares = device.spares.capacities();
            assert!(
                spares.iter().all(|spare| *spare <= SPARE_BYTES)
                    && spares.iter().sum::<u64>() <= SPARES_BYTES
            );
        }
        let small: Vec<Buffer> = (0..200).map(|_| made(100, MemoryLocation::Device)).collect();
        drop(small);
        assert_eq!(device.spares.capacities().len(), SPARE_COUNT);
        assert!(device.free_spares() && !device.free_spares());
    }
}
