//! A layer between the engine and the driver: empty, but in tests, where a chosen call fails.
//! (`vkDeviceWaitIdle` always works: it ends the work of a lost device.)

#[cfg(not(test))]
use super::external::{ExportFunctions, SemaphoreFunctions};

#[cfg(not(test))]
pub(super) fn between(device: ash::Device, _: &ash::Instance) -> ash::Device {
    device
}

#[cfg(not(test))]
pub(super) fn export_functions(device: &ash::Device, instance: &ash::Instance) -> ExportFunctions {
    ash::khr::external_memory_fd::Device::new(instance, device).fp().clone()
}

#[cfg(not(test))]
pub(super) fn semaphore_functions(device: &ash::Device, instance: &ash::Instance) -> SemaphoreFunctions {
    ash::khr::external_semaphore_fd::Device::new(instance, device).fp().clone()
}

#[cfg(test)]
pub(super) use tests::{between, export_functions, semaphore_functions};
#[cfg(test)]
pub(crate) use tests::{calls, fail_call, failed_call};

#[cfg(test)]
mod tests {
    use crate::vulkan::external::{ExportFunctions, SemaphoreFunctions};
    use ash::vk;
    use std::cell::Cell;
    use std::ffi::{CStr, c_int, c_void};
    use std::sync::atomic::{AtomicUsize, Ordering};

    thread_local! {
        /// Number of the first call that fails, with its error; and the calls so far.
        static FAILS: Cell<Option<(u64, vk::Result)>> = const { Cell::new(None) };
        static CALLS: Cell<u64> = const { Cell::new(0) };
        /// Name of the first call that failed.
        static FAILED: Cell<Option<&'static str>> = const { Cell::new(None) };
    }

    /// Makes the call with this number on this thread fail, and with [`vk::Result::ERROR_DEVICE_LOST`] all
    /// calls after it. With [`vk::Result::TIMEOUT`] all waits from that call on end so, and no submission is
    /// seen to end. `None`: no call fails.
    pub(crate) fn fail_call(fails: Option<(u64, vk::Result)>) {
        FAILS.set(fails);
        CALLS.set(0);
        FAILED.set(None);
    }

    /// Returns the name of the first call on this thread that failed since then.
    pub(crate) fn failed_call() -> Option<&'static str> {
        FAILED.get()
    }

    /// Returns the calls on this thread since then.
    pub(crate) fn calls() -> u64 {
        CALLS.get()
    }

    /// Returns the error of this call, if it must fail.
    fn failure(name: &'static str) -> Option<vk::Result> {
        let call = CALLS.get();
        CALLS.set(call + 1);
        let (number, code) = FAILS.get()?;
        let is_turn = match code {
            vk::Result::ERROR_DEVICE_LOST => call >= number,
            vk::Result::TIMEOUT => {
                call >= number && ["vkWaitSemaphores", "vkGetSemaphoreCounterValue"].contains(&name)
            }
            _ => call == number,
        };
        if is_turn && FAILED.get().is_none() {
            FAILED.set(Some(name));
        }
        is_turn.then_some(code)
    }

    /// Writes the counter of a device that never ended a submission.
    fn nothing_ended(counter: *mut u64) -> vk::Result {
        // SAFETY: sound, the caller gives the memory of one counter.
        unsafe { counter.write(0) };
        vk::Result::SUCCESS
    }

    /// Replaces functions of the driver, by name. An expression after a function is its result on a device
    /// that hangs.
    macro_rules! between {
        ($($name:literal $static:ident $function:ident ($($arg:ident: $ty:ty),*) $(=> $hangs:expr)?;)*) => {
            $(
                static $static: AtomicUsize = AtomicUsize::new(0);

                extern "system" fn $function($($arg: $ty),*) -> vk::Result {
                    if let Some(code) = failure($name) {
                        $(if code == vk::Result::TIMEOUT {
                            return $hangs;
                        })?
                        return code;
                    }
                    type Function = extern "system" fn($($ty),*) -> vk::Result;
                    let real = $static.load(Ordering::Relaxed);
                    // SAFETY: sound, the loader gave the function for this name, and this is the type of
                    // that name.
                    let real: Function = unsafe { std::mem::transmute::<usize, Function>(real) };
                    real($($arg),*)
                }
            )*

            fn ours(name: &CStr, real: *const c_void) -> *const c_void {
                match name.to_str() {
                    $(Ok($name) => {
                        // Stored again for each device: without one the loader may unload its drivers.
                        $static.store(real as usize, Ordering::Relaxed);
                        $function as *const c_void
                    })*
                    _ => real,
                }
            }
        };
    }

    type Allocator = *const c_void;

    between! {
        "vkAllocateMemory" ALLOCATE_MEMORY allocate_memory(d: vk::Device, i: *const c_void, a: Allocator, o: *mut c_void);
        "vkCreateBuffer" CREATE_BUFFER create_buffer(d: vk::Device, i: *const c_void, a: Allocator, o: *mut c_void);
        "vkBindBufferMemory" BIND_BUFFER bind_buffer(d: vk::Device, b: vk::Buffer, m: vk::DeviceMemory, o: vk::DeviceSize);
        "vkMapMemory" MAP_MEMORY map_memory(d: vk::Device, m: vk::DeviceMemory, f: u64, s: u64, g: vk::MemoryMapFlags, o: *mut *mut c_void);
        "vkCreateCommandPool" CREATE_POOL create_pool(d: vk::Device, i: *const c_void, a: Allocator, o: *mut c_void);
        "vkAllocateCommandBuffers" ALLOCATE_COMMANDS allocate_commands(d: vk::Device, i: *const c_void, o: *mut c_void);
        "vkCreateSemaphore" CREATE_SEMAPHORE create_semaphore(d: vk::Device, i: *const c_void, a: Allocator, o: *mut c_void);
        "vkCreatePipelineLayout" CREATE_LAYOUT create_layout(d: vk::Device, i: *const c_void, a: Allocator, o: *mut c_void);
        "vkCreateShaderModule" CREATE_MODULE create_module(d: vk::Device, i: *const c_void, a: Allocator, o: *mut c_void);
        "vkBeginCommandBuffer" BEGIN begin(c: vk::CommandBuffer, i: *const c_void);
        "vkEndCommandBuffer" END end(c: vk::CommandBuffer);
        "vkQueueSubmit" SUBMIT submit(q: vk::Queue, n: u32, i: *const c_void, f: vk::Fence);
        "vkWaitSemaphores" WAIT wait(d: vk::Device, i: *const c_void, t: u64);
        "vkGetSemaphoreCounterValue" COUNTER counter(d: vk::Device, s: vk::Semaphore, o: *mut u64) => nothing_ended(o);
        "vkGetSemaphoreFdKHR" GET_SEMAPHORE get_semaphore(d: vk::Device, i: *const c_void, o: *mut c_int);
        "vkGetMemoryFdKHR" GET_FD get_fd(d: vk::Device, i: *const c_void, o: *mut c_int);
        "vkCreateComputePipelines" CREATE_PIPELINES create_pipelines(d: vk::Device, c: vk::PipelineCache, n: u32, i: *const c_void, a: Allocator, o: *mut c_void);
    }

    /// Finds functions of a device, or their replacements, by name.
    fn functions(device: vk::Device, instance: &ash::Instance) -> impl Fn(&CStr) -> *const c_void {
        let get = instance.fp_v1_0().get_device_proc_addr;
        move |name| {
            // SAFETY: sound, the handle is of this instance, which lives as long as its devices.
            let real = unsafe { get(device, name.as_ptr()) }.map_or(std::ptr::null(), |f| f as *const c_void);
            if real.is_null() { real } else { ours(name, real) }
        }
    }

    pub(in crate::vulkan) fn between(device: ash::Device, instance: &ash::Instance) -> ash::Device {
        let handle = device.handle();
        // SAFETY: sound, functions are found by their names, and the replacements have the drivers' types.
        unsafe { ash::Device::load_with(functions(handle, instance), handle) }
    }

    pub(in crate::vulkan) fn export_functions(
        device: &ash::Device,
        instance: &ash::Instance,
    ) -> ExportFunctions {
        ExportFunctions::load(functions(device.handle(), instance))
    }

    pub(in crate::vulkan) fn semaphore_functions(
        device: &ash::Device,
        instance: &ash::Instance,
    ) -> SemaphoreFunctions {
        SemaphoreFunctions::load(functions(device.handle(), instance))
    }
}
