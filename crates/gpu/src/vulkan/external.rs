//! The form in which memory and semaphores are exported, and the use of buffers that it is asked for.

use ash::vk;

/// The kind of descriptor: one that only a driver of the same device understands.
pub(super) const HANDLE: vk::ExternalMemoryHandleTypeFlags = vk::ExternalMemoryHandleTypeFlags::OPAQUE_FD;

/// The same for semaphores.
pub(super) const SEMAPHORE_HANDLE: vk::ExternalSemaphoreHandleTypeFlags =
    vk::ExternalSemaphoreHandleTypeFlags::OPAQUE_FD;

/// The functions of `VK_KHR_external_memory_fd`.
pub(super) type ExportFunctions = ash::khr::external_memory_fd::DeviceFn;

/// The functions of `VK_KHR_external_semaphore_fd`.
pub(super) type SemaphoreFunctions = ash::khr::external_semaphore_fd::DeviceFn;

/// The ways in which all buffers are used.
pub(super) const USAGE: vk::BufferUsageFlags = vk::BufferUsageFlags::from_raw(
    vk::BufferUsageFlags::STORAGE_BUFFER.as_raw()
        | vk::BufferUsageFlags::SHADER_DEVICE_ADDRESS.as_raw()
        | vk::BufferUsageFlags::INDIRECT_BUFFER.as_raw()
        | vk::BufferUsageFlags::TRANSFER_SRC.as_raw()
        | vk::BufferUsageFlags::TRANSFER_DST.as_raw(),
);
