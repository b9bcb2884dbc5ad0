//! Memory of a device that other programs get as a file descriptor (`VK_KHR_external_memory_fd`).

use super::buffer::Buffer;
use super::external::HANDLE;
use crate::error::{During, Error, Result};
use ash::vk;
use std::os::fd::{FromRawFd, OwnedFd};
#[cfg(test)]
use {
    super::allocation::Allocation, super::device::Device, super::external::USAGE, std::os::fd::IntoRawFd,
    std::sync::Arc,
};

/// Memory of a device, for another program or another interface such as CUDA: all that
/// `cudaImportExternalMemory` and `cudaExternalMemoryGetMappedBuffer` ask for.
#[derive(Debug)]
pub struct ExportedMemory {
    /// The memory, as an opaque file descriptor. It keeps the memory alive. An importer takes it over.
    pub fd: OwnedFd,
    /// Bytes of the whole allocation. It is not dedicated to one resource.
    pub allocation_bytes: u64,
    /// Byte of the allocation at which the bytes of the files begin.
    pub offset: u64,
}

impl Buffer {
    /// Gives the memory to other programs, which must have ended their work on it before this device works on
    /// it again.
    ///
    /// # Errors
    /// [`Error::NotExportable`] for a buffer in other memory; an error of the device.
    pub(crate) fn export(&self) -> Result<ExportedMemory> {
        const OPERATION: &str = "exporting memory";
        if !self.is_exportable() {
            return Err(Error::NotExportable("it was made without the option `exportable`"));
        }
        let functions = self.device.export_functions()?;
        let info = vk::MemoryGetFdInfoKHR::default().memory(self.allocation.memory).handle_type(HANDLE);
        let mut fd = -1;
        // SAFETY: sound, the memory is this device's and was allocated for such handles.
        let code = unsafe { (functions.get_memory_fd_khr)(self.device.raw.handle(), &info, &mut fd) };
        code.result().during(OPERATION)?;
        if fd < 0 {
            return Err(vk::Result::ERROR_INVALID_EXTERNAL_HANDLE).during(OPERATION);
        }
        // SAFETY: sound, each successful call makes a new descriptor, which belongs to the caller.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        Ok(ExportedMemory { fd, allocation_bytes: self.allocation.allocated, offset: self.start })
    }
}

#[cfg(test)]
impl Buffer {
    /// Takes memory over that another device of the same kind has exported, as another program does: a buffer
    /// of its first `len` bytes.
    pub(crate) fn import(device: &Arc<Device>, exported: ExportedMemory, len: u64) -> Result<Buffer> {
        const OPERATION: &str = "importing memory";
        let ExportedMemory { fd, allocation_bytes, offset } = exported;
        let mut external = vk::ExternalMemoryBufferCreateInfo::default().handle_types(HANDLE);
        let create = vk::BufferCreateInfo::default().size(offset + len).usage(USAGE).push_next(&mut external);
        // SAFETY: sound, the device lives, and `drop` frees the handles.
        let raw = unsafe { device.raw.create_buffer(&create, None) }.during(OPERATION)?;
        let mut buffer = Buffer {
            device: device.clone(),
            allocation: Allocation { raw, allocated: allocation_bytes, ..Allocation::default() },
            raw,
            len,
            start: offset,
            address: 0,
        };
        // SAFETY: sound, the buffer is the device's.
        let needs = unsafe { device.raw.get_buffer_memory_requirements(raw) };
        let own = vk::MemoryPropertyFlags::DEVICE_LOCAL;
        let kind = device.memory_kinds(needs.memory_type_bits, own, vk::MemoryPropertyFlags::empty())[0];
        let fd = fd.into_raw_fd();
        let mut import = vk::ImportMemoryFdInfoKHR::default().handle_type(HANDLE).fd(fd);
        let mut with_address =
            vk::MemoryAllocateFlagsInfo::default().flags(vk::MemoryAllocateFlags::DEVICE_ADDRESS);
        let allocate = vk::MemoryAllocateInfo::default()
            .allocation_size(allocation_bytes)
            .memory_type_index(kind)
            .push_next(&mut with_address)
            .push_next(&mut import);
        // SAFETY: sound, the descriptor is of such memory, of this size and kind; a device takes it over.
        buffer.allocation.memory =
            unsafe { device.raw.allocate_memory(&allocate, None) }.during(OPERATION)?;
        // SAFETY: sound, the handles are of this device; the memory is as large as the buffer needs.
        unsafe { device.raw.bind_buffer_memory(raw, buffer.allocation.memory, 0) }.during(OPERATION)?;
        Ok(buffer)
    }
}
