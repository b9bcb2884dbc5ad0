//! Memory of a device.

use super::device::Device;
use super::external::{HANDLE, USAGE};
use crate::error::{During, Error, Result};
use ash::vk;
use std::ptr::NonNull;
use std::sync::Arc;

/// Memory of a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MemoryLocation {
    /// The device's own memory; the host maps it only where both share it.
    Device,
    /// Memory that both see, fast for writes of the host.
    Upload,
    /// Memory that both see, fast for reads of the host.
    Download,
    /// The device's own memory, which other programs can get, and the host never maps: they may write to it
    /// at any time.
    Exportable,
}

/// Bytes of a guard, a multiple of every alignment of the kernels, and their value. (Buffers have guards in
/// tests only.)
const GUARD: u64 = 256;
const GUARD_BYTE: u8 = 0xa5;

/// A buffer with an address for kernels, and one for the host where it maps the memory.
pub(crate) struct Buffer {
    pub(crate) raw: vk::Buffer,
    pub(super) device: Arc<Device>,
    pub(super) memory: vk::DeviceMemory,
    /// Bytes of the allocation, guards and all.
    pub(super) allocated: u64,
    pub(super) is_exportable: bool,
    /// In bytes.
    pub(crate) len: u64,
    /// Offset of the bytes in the allocation: behind a guard, in tests.
    pub(crate) start: u64,
    /// Address for kernels.
    pub(crate) address: u64,
    pub(super) host: Option<NonNull<u8>>,
    /// Reads of the host are fast.
    pub(super) is_cached: bool,
}

// SAFETY: sound, the memory is the buffer's own, and host writes need `&mut`.
unsafe impl Send for Buffer {}
// SAFETY: as above.
unsafe impl Sync for Buffer {}

impl Buffer {
    /// # Errors
    /// [`Error::Device`], where memory is short: `ERROR_OUT_OF_DEVICE_MEMORY`.
    pub(crate) fn new(device: &Arc<Device>, len: u64, location: MemoryLocation) -> Result<Buffer> {
        use vk::MemoryPropertyFlags as Flags;
        const OPERATION: &str = "allocating memory";
        let too_long = Error::Device { operation: OPERATION, code: vk::Result::ERROR_OUT_OF_DEVICE_MEMORY };
        let is_exportable = location == MemoryLocation::Exportable;
        if is_exportable {
            device.export_functions()?;
        }
        if len > device.largest {
            return Err(too_long);
        }
        let len = len.max(16).next_multiple_of(4);
        let guard = if device.is_guarded { GUARD } else { 0 };
        let whole = len + 2 * guard;
        if whole > device.largest {
            return Err(too_long);
        }
        let mut create = vk::BufferCreateInfo::default().size(whole).usage(USAGE);
        let mut external = vk::ExternalMemoryBufferCreateInfo::default().handle_types(HANDLE);
        if is_exportable {
            create = create.push_next(&mut external);
        }
        // SAFETY: sound, the device lives.
        let raw = unsafe { device.raw.create_buffer(&create, None) }.during(OPERATION)?;
        // From here on `drop` frees the handles.
        let mut buffer = Buffer {
            device: device.clone(),
            raw,
            memory: vk::DeviceMemory::null(),
            allocated: 0,
            is_exportable,
            len,
            start: guard,
            address: 0,
            host: None,
            is_cached: false,
        };
        // SAFETY: sound, the buffer is the device's.
        let needs = unsafe { device.raw.get_buffer_memory_requirements(raw) };
        let host = Flags::HOST_VISIBLE | Flags::HOST_COHERENT;
        let (least, better) = match location {
            MemoryLocation::Device => (Flags::DEVICE_LOCAL, host),
            MemoryLocation::Exportable => (Flags::DEVICE_LOCAL, Flags::empty()),
            MemoryLocation::Upload => (host, Flags::empty()),
            MemoryLocation::Download => (host, Flags::HOST_CACHED),
        };
        // A device that shares all of its memory loses nothing by a mapping; others share a small window
        // only.
        let is_mapped = match location {
            MemoryLocation::Device => !device.has_own_memory,
            MemoryLocation::Upload | MemoryLocation::Download => true,
            MemoryLocation::Exportable => false,
        };
        let better = if is_mapped { better } else { Flags::empty() };
        let kinds = device.memory_kinds(needs.memory_type_bits, least, better);
        let flags = buffer.allocate(needs.size, &kinds).during(OPERATION)?;
        buffer.is_cached = flags.contains(Flags::HOST_CACHED);
        // SAFETY: sound, the handles are of this device; the memory is as large as the buffer needs.
        unsafe {
            device.raw.bind_buffer_memory(raw, buffer.memory, 0).during(OPERATION)?;
            let info = vk::BufferDeviceAddressInfo::default().buffer(raw);
            buffer.address = device.raw.get_buffer_device_address(&info) + guard;
            if flags.contains(host) && is_mapped {
                let at = device.raw.map_memory(buffer.memory, 0, vk::WHOLE_SIZE, vk::MemoryMapFlags::empty());
                buffer.host = NonNull::new(at.during(OPERATION)?.cast());
            }
        }
        buffer.guards(|guard| guard.fill(GUARD_BYTE));
        Ok(buffer)
    }

    /// Allocates memory of the first of these kinds that has room, and returns its properties. The heap of
    /// one kind may be a small window into the memory of another.
    fn allocate(&mut self, bytes: u64, kinds: &[u32]) -> ash::prelude::VkResult<vk::MemoryPropertyFlags> {
        let mut outcome = Err(vk::Result::ERROR_FEATURE_NOT_PRESENT);
        for kind in kinds {
            let mut with_address =
                vk::MemoryAllocateFlagsInfo::default().flags(vk::MemoryAllocateFlags::DEVICE_ADDRESS);
            let mut exported = vk::ExportMemoryAllocateInfo::default().handle_types(HANDLE);
            let mut allocate = vk::MemoryAllocateInfo::default()
                .allocation_size(bytes)
                .memory_type_index(*kind)
                .push_next(&mut with_address);
            if self.is_exportable {
                allocate = allocate.push_next(&mut exported);
            }
            // SAFETY: sound, the device lives, and the arguments live until the call returns.
            match unsafe { self.device.raw.allocate_memory(&allocate, None) } {
                Ok(memory) => {
                    (self.memory, self.allocated) = (memory, bytes);
                    return Ok(self.device.memory.memory_types[*kind as usize].property_flags);
                }
                Err(code) => outcome = Err(code),
            }
            if outcome != Err(vk::Result::ERROR_OUT_OF_DEVICE_MEMORY) {
                break;
            }
        }
        outcome
    }

    /// Tells whether the host maps the bytes, and reads them as fast as its own memory.
    pub(crate) fn is_fast_to_read(&self) -> bool {
        self.host.is_some() && self.is_cached
    }

    /// Tells whether other programs can get the memory.
    pub(crate) fn is_exportable(&self) -> bool {
        self.is_exportable
    }

    /// Passes the guards before and behind the bytes in use to `each`, where the host maps them.
    fn guards(&mut self, mut each: impl FnMut(&mut [u8])) {
        let Some(at) = self.host else { return };
        for from in [0, self.start + self.len] {
            // SAFETY: sound, exclusive through `&mut self`; the memory is mapped for as long as the buffer
            // lives, with a guard of this size at both ends.
            each(unsafe {
                std::slice::from_raw_parts_mut(at.as_ptr().add(from as usize), self.start as usize)
            });
        }
    }

    /// Returns the bytes, where the host maps them. The caller must not have submitted work on them that
    /// has not ended.
    pub(crate) fn bytes_mut(&mut self) -> Option<&mut [u8]> {
        // SAFETY: sound, exclusive through `&mut self`; the memory is mapped for as long as the buffer
        // lives, and no work on it is in flight.
        self.host.map(|at| unsafe {
            std::slice::from_raw_parts_mut(at.as_ptr().add(self.start as usize), self.len as usize)
        })
    }

    /// Returns the bytes, where the host maps them. No work that writes to them may be in flight.
    pub(crate) fn bytes(&self) -> Option<&[u8]> {
        // SAFETY: sound, the memory is mapped for as long as the buffer lives, and no work that writes to
        // it is in flight.
        self.host.map(|at| unsafe {
            std::slice::from_raw_parts(at.as_ptr().add(self.start as usize), self.len as usize)
        })
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        if self.device.hangs() {
            return;
        }
        let mut is_whole = true;
        self.guards(|guard| is_whole &= guard.iter().all(|byte| *byte == GUARD_BYTE));
        assert!(is_whole || std::thread::panicking(), "a write outside a buffer of {} bytes", self.len);
        // SAFETY: sound, a submission's owner keeps the buffer until the submission has ended.
        unsafe {
            self.device.raw.destroy_buffer(self.raw, None);
            self.device.raw.free_memory(self.memory, None);
        }
    }
}
