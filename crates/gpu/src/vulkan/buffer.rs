//! Memory of a device.

use super::allocation::{Allocation, MemoryLocation, OPERATION};
use super::device::Device;
use crate::error::{Error, Result};
use ash::vk;
use std::sync::Arc;

/// Bytes of a guard, a multiple of every alignment of the kernels, and their value. (Buffers have guards in
/// tests only.)
const GUARD_BYTES: u64 = 256;
const GUARD_BYTE: u8 = 0xa5;

/// A buffer with an address for kernels, and one for the host where it maps the memory.
pub(crate) struct Buffer {
    pub(super) device: Arc<Device>,
    pub(super) allocation: Allocation,
    pub(crate) raw: vk::Buffer,
    /// In bytes.
    pub(crate) len: u64,
    /// Offset of the bytes in the allocation: after a guard, in tests.
    pub(crate) start: u64,
    /// Address for kernels.
    pub(crate) address: u64,
}

impl Buffer {
    /// Makes a buffer, whose bytes are undefined: its memory may be that of one that was dropped.
    ///
    /// # Errors
    /// [`Error::Device`], where memory is short: `ERROR_OUT_OF_DEVICE_MEMORY`.
    pub(crate) fn new(device: &Arc<Device>, len: u64, location: MemoryLocation) -> Result<Buffer> {
        let (len, whole) = sizes(device, len)?;
        let spare = device.spares.take(location, whole);
        let allocation = spare.map_or_else(|| allocated(device, location, whole), Ok)?;
        Ok(Buffer::of(device, allocation, len))
    }

    /// Makes a buffer whose memory no other one has before or after it: for files, or for another program.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub(crate) fn alone(device: &Arc<Device>, len: u64, location: MemoryLocation) -> Result<Buffer> {
        let (len, whole) = sizes(device, len)?;
        let mut allocation = allocated(device, location, whole)?;
        allocation.is_used_again = false;
        Ok(Buffer::of(device, allocation, len))
    }

    fn of(device: &Arc<Device>, allocation: Allocation, len: u64) -> Buffer {
        let start = guard(device);
        let (raw, address) = (allocation.raw, allocation.address + start);
        let mut buffer = Buffer { device: device.clone(), allocation, raw, len, start, address };
        buffer.guards(|guard| guard.fill(GUARD_BYTE));
        buffer
    }

    /// Tells whether other programs can get the memory.
    pub(crate) fn is_exportable(&self) -> bool {
        self.allocation.location == MemoryLocation::Exportable
    }

    /// Tells whether the host maps the bytes, and reads them as fast as its own memory.
    pub(crate) fn is_fast_to_read(&self) -> bool {
        self.allocation.host.is_some() && self.allocation.is_cached
    }

    /// Passes the guards before and after the bytes in use to `each`, where the host maps them.
    fn guards(&mut self, mut each: impl FnMut(&mut [u8])) {
        let Some(at) = self.allocation.host else { return };
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
        self.allocation.host.map(|at| unsafe {
            std::slice::from_raw_parts_mut(at.as_ptr().add(self.start as usize), self.len as usize)
        })
    }

    /// Returns the bytes, where the host maps them. No work that writes to them may be in flight.
    pub(crate) fn bytes(&self) -> Option<&[u8]> {
        // SAFETY: sound, the memory is mapped for as long as the buffer lives, and no work that writes to
        // it is in flight.
        self.allocation.host.map(|at| unsafe {
            std::slice::from_raw_parts(at.as_ptr().add(self.start as usize), self.len as usize)
        })
    }
}

/// Bytes of a guard.
fn guard(device: &Device) -> u64 {
    if device.is_guarded { GUARD_BYTES } else { 0 }
}

/// Allocates memory. Where it is short, the spares go back first.
fn allocated(device: &Device, location: MemoryLocation, bytes: u64) -> Result<Allocation> {
    Allocation::new(device, location, bytes).or_else(|error| {
        let is_freed = error.is_short_of_memory() && device.free_spares();
        if is_freed { Allocation::new(device, location, bytes) } else { Err(error) }
    })
}

/// Returns the bytes of a buffer, rounded up, and those with its guards.
fn sizes(device: &Device, len: u64) -> Result<(u64, u64)> {
    // Where the sum does not fit, the device has no such memory.
    let len = len.clamp(16, u64::MAX / 2).next_multiple_of(4);
    let whole = len + 2 * guard(device);
    if whole > device.largest {
        let code = vk::Result::ERROR_OUT_OF_DEVICE_MEMORY;
        return Err(Error::Device { operation: OPERATION, code });
    }
    Ok((len, whole))
}

impl Drop for Buffer {
    fn drop(&mut self) {
        if self.device.hangs() {
            return;
        }
        let mut is_whole = true;
        self.guards(|guard| is_whole &= guard.iter().all(|byte| *byte == GUARD_BYTE));
        assert!(is_whole || std::thread::panicking(), "a write outside a buffer of {} bytes", self.len);
        // A submission's owner keeps the buffer until the submission has ended.
        let allocation = std::mem::take(&mut self.allocation);
        self.device.keep_spare(allocation);
    }
}
