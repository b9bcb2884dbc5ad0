//! Devices in memory.

use super::{Device, IoBuf, IoBufMut};
use std::io;

/// A device in memory, for an image that is given as bytes.
pub struct MemoryDevice {
    bytes: parking_lot::RwLock<Vec<u8>>,
}

impl MemoryDevice {
    /// Returns a device with these bytes.
    pub fn new(bytes: Vec<u8>) -> Self {
        MemoryDevice { bytes: bytes.into() }
    }
}

impl Device for MemoryDevice {
    fn len(&self) -> u64 {
        self.bytes.read().len() as u64
    }

    fn engine(&self) -> String {
        "memory".into()
    }

    fn read_at(&self, at: u64, mut buffer: IoBufMut<'_>) -> io::Result<()> {
        let bytes = self.bytes.read();
        let part = usize::try_from(at).ok().and_then(|at| bytes.get(at..at.checked_add(buffer.len())?));
        buffer.copy_from(part.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }

    fn write_at(&self, at: u64, data: IoBuf<'_>) -> io::Result<()> {
        let mut bytes = self.bytes.write();
        let part = usize::try_from(at).ok().and_then(|at| bytes.get_mut(at..at.checked_add(data.len())?));
        data.copy_to(part.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }

    fn flush(&self) -> io::Result<()> {
        Ok(())
    }

    fn discard(&self, _at: u64, _len: u64) -> io::Result<()> {
        Ok(())
    }

    fn resize(&self, len: u64) -> io::Result<()> {
        self.bytes.write().resize(len as usize, 0);
        Ok(())
    }
}
