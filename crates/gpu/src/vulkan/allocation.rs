//! Allocations of a device's memory, and those that wait to be used again.

use ash::vk;
use lanefs_sync::lock::Mutex;
use std::ptr::NonNull;

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

/// Bytes of a spare allocation and of all of them at most, and how many there are. A driver takes long to
/// allocate memory, and each search and each batch of changes needs some buffers of a few MiB.
pub(super) const SPARE_BYTES: u64 = 16 << 20;
pub(super) const SPARES_BYTES: u64 = 64 << 20;
pub(super) const SPARE_COUNT: usize = 64;

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
    /// Frees the memory. No work on it may be in flight.
    pub(super) fn free(&self, device: &ash::Device) {
        // SAFETY: sound, the handles are of this device or null, nothing uses them, and this is the last use:
        // each owner drops the allocation below it.
        unsafe {
            device.destroy_buffer(self.raw, None);
            device.free_memory(self.memory, None);
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

    /// Keeps an allocation. Returns those that are too many, the oldest ones, for the caller to free.
    #[must_use]
    pub(super) fn keep(&self, allocation: Allocation) -> Vec<Allocation> {
        if !allocation.is_used_again {
            return vec![allocation];
        }
        let mut spares = self.0.lock();
        spares.push(allocation);
        let mut sum: u64 = spares.iter().map(|spare| spare.capacity).sum();
        let mut excess = 0;
        while sum > SPARES_BYTES || spares.len() - excess > SPARE_COUNT {
            sum -= spares[excess].capacity;
            excess += 1;
        }
        spares.drain(..excess).collect()
    }

    /// Returns all, for the caller to free.
    #[must_use]
    pub(super) fn take_all(&self) -> Vec<Allocation> {
        std::mem::take(&mut *self.0.lock())
    }

    /// Bytes of each.
    #[cfg(test)]
    pub(super) fn capacities(&self) -> Vec<u64> {
        self.0.lock().iter().map(|spare| spare.capacity).collect()
    }
}
