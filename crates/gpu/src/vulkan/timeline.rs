//! A timeline semaphore that other programs get as a file descriptor (`VK_KHR_external_semaphore_fd`), so
//! that their work waits on the device for that of this one.

use super::device::{Device, QueueUse};
use super::external::SEMAPHORE_HANDLE;
use crate::error::{During, Error, Result};
use ash::vk;
use std::os::fd::{FromRawFd, OwnedFd};
use std::sync::Arc;

/// A timeline of a device beside those that count its submissions.
pub(crate) struct SharedTimeline {
    device: Arc<Device>,
    raw: vk::Semaphore,
    /// The value that it gets by the last submission that raises it.
    value: u64,
    is_exportable: bool,
}

const OPERATION: &str = "exporting a semaphore";

impl SharedTimeline {
    /// Makes a timeline that can be exported.
    ///
    /// # Errors
    /// [`Error::NotExportable`] for a device that exports none; an error of the device.
    pub(crate) fn new(device: &Arc<Device>) -> Result<SharedTimeline> {
        device.semaphore_functions()?;
        Self::make(device, true)
    }

    /// Makes one of this process alone, which every device has.
    #[cfg(test)]
    pub(crate) fn unshared(device: &Arc<Device>) -> Result<SharedTimeline> {
        Self::make(device, false)
    }

    fn make(device: &Arc<Device>, is_exportable: bool) -> Result<SharedTimeline> {
        let mut kind = vk::SemaphoreTypeCreateInfo::default().semaphore_type(vk::SemaphoreType::TIMELINE);
        let mut export = vk::ExportSemaphoreCreateInfo::default().handle_types(SEMAPHORE_HANDLE);
        let create = vk::SemaphoreCreateInfo::default().push_next(&mut kind);
        let create = if is_exportable { create.push_next(&mut export) } else { create };
        // SAFETY: sound, the device lives, and the arguments live until the call returns.
        let raw = unsafe { device.raw.create_semaphore(&create, None) }.during(OPERATION)?;
        Ok(SharedTimeline { device: device.clone(), raw, value: 0, is_exportable })
    }

    /// Returns the value that it gets by the last submission that raises it; 0 before the first.
    pub(crate) fn value(&self) -> u64 {
        self.value
    }

    /// Returns what the next submission raises, and the value.
    pub(super) fn next(&self) -> (vk::Semaphore, u64) {
        (self.raw, self.value + 1)
    }

    /// Notes that there is such a submission.
    pub(super) fn rise(&mut self) {
        self.value += 1;
    }

    /// Gives it to another program. Each call makes another descriptor.
    ///
    /// # Errors
    /// [`Error::NotExportable`] for one of this process alone; an error of the device.
    pub(crate) fn export(&self) -> Result<OwnedFd> {
        if !self.is_exportable {
            return Err(Error::NotExportable("the semaphore is of this process alone"));
        }
        let functions = self.device.semaphore_functions()?;
        let info = vk::SemaphoreGetFdInfoKHR::default().semaphore(self.raw).handle_type(SEMAPHORE_HANDLE);
        let mut fd = -1;
        // SAFETY: sound, the semaphore is this device's and was made for such handles.
        let code = unsafe { (functions.get_semaphore_fd_khr)(self.device.raw.handle(), &info, &mut fd) };
        code.result().during(OPERATION)?;
        if fd < 0 {
            return Err(vk::Result::ERROR_INVALID_EXTERNAL_HANDLE).during(OPERATION);
        }
        // SAFETY: sound, each successful call makes a new descriptor, which belongs to the caller.
        Ok(unsafe { OwnedFd::from_raw_fd(fd) })
    }

    /// Returns the value that it has when it has been raised, as another program sees it.
    #[cfg(test)]
    pub(crate) fn reached(&self) -> u64 {
        // The end of a submission raises two semaphores, one after the other.
        let _ = self.device.wait_until_idle(QueueUse::Copies);
        // SAFETY: sound, the semaphore is this device's.
        unsafe { self.device.raw.get_semaphore_counter_value(self.raw) }.expect("a value")
    }
}

impl Drop for SharedTimeline {
    fn drop(&mut self) {
        // The driver must have raised it for the last time. That the queue's own timeline has the number of
        // the submission does not say so: the end raises both, one after the other. (After an error of a
        // device that does not hang nothing is in flight, either.)
        let _ = self.device.wait_until_idle(QueueUse::Copies);
        if !self.device.hangs() {
            // SAFETY: sound, no submission that raises it is in flight. Importers keep what they have.
            unsafe { self.device.raw.destroy_semaphore(self.raw, None) };
        }
    }
}
