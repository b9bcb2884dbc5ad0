//! Device memory that the host fills or reads: in place where both map it, else by a copy.

use super::allocation::MemoryLocation;
use super::buffer::Buffer;
use super::commands::{Commands, Recording};
use super::device::Device;
use crate::error::Result;
use std::sync::Arc;

/// A byte of answers before a kernel that is probed writes them.
const NO_ANSWER: u8 = 0xa5;

/// Direction of a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    /// To the device.
    ToDevice,
    /// To the host.
    ToHost,
}

/// A buffer in device memory, with one of the host beside it where the host does not map it.
pub(crate) struct Staged {
    buffer: Buffer,
    host: Option<Buffer>,
    direction: Direction,
}

impl Staged {
    /// # Errors
    /// As [`Buffer::new`].
    pub(crate) fn new(device: &Arc<Device>, len: u64, direction: Direction) -> Result<Staged> {
        let buffer = Buffer::new(device, len, MemoryLocation::Device)?;
        // Reads of memory that the host maps without its caches take longer than a copy.
        let (is_in_place, location) = match direction {
            Direction::ToDevice => (buffer.bytes().is_some(), MemoryLocation::Upload),
            Direction::ToHost => (buffer.is_fast_to_read(), MemoryLocation::Download),
        };
        let host = (!is_in_place).then(|| Buffer::new(device, len, location)).transpose()?;
        let mut staged = Staged { buffer, host, direction };
        if direction == Direction::ToHost && device.is_probed() {
            staged.forget()?;
        }
        Ok(staged)
    }

    /// Fills the answers with no answer: the memory may be that of an earlier probe, which had the right
    /// ones.
    fn forget(&mut self) -> Result<()> {
        if let (None, Some(bytes)) = (&self.host, self.buffer.bytes_mut()) {
            bytes.fill(NO_ANSWER);
            return Ok(());
        }
        let mut commands = Commands::new(&self.buffer.device)?;
        commands.record(|recording| {
            recording.fill(&self.buffer, self.buffer.len, u32::from_ne_bytes([NO_ANSWER; 4]));
        })?;
        commands.submit()?;
        commands.wait()
    }

    /// In bytes.
    pub(crate) fn len(&self) -> u64 {
        self.buffer.len
    }

    /// Tells whether a copy brings the bytes from one side to the other.
    pub(crate) fn is_copied(&self) -> bool {
        self.host.is_some()
    }

    /// Address for kernels.
    pub(crate) fn address(&self) -> u64 {
        self.buffer.address
    }

    /// Copies the first `len` bytes to the side that reads them.
    pub(crate) fn transfer(&self, recording: &Recording<'_>, len: u64) {
        match (&self.host, self.direction) {
            (None, _) => {}
            (Some(host), Direction::ToDevice) => recording.copy(host, &self.buffer, &[(0, 0, len)]),
            (Some(host), Direction::ToHost) => recording.copy(&self.buffer, host, &[(0, 0, len)]),
        }
    }

    /// Copies `len` bytes from `from` on to another buffer of the device, at `to`.
    pub(crate) fn copy(&self, recording: &Recording<'_>, from: u64, target: &Buffer, to: u64, len: u64) {
        recording.copy(&self.buffer, target, &[(from, to, len)]);
    }

    /// Zeroes the first `len` bytes on the device.
    pub(crate) fn clear(&self, recording: &Recording<'_>, len: u64) {
        recording.fill(&self.buffer, len, 0);
    }

    /// Returns the host's bytes. No work on them may be in flight.
    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        self.host.as_mut().unwrap_or(&mut self.buffer).bytes_mut().unwrap_or(&mut [])
    }

    /// As above.
    pub(crate) fn bytes(&self) -> &[u8] {
        self.host.as_ref().unwrap_or(&self.buffer).bytes().unwrap_or(&[])
    }
}
