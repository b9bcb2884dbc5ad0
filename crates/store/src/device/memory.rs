//! Devices in memory.

use super::{Device, IoBuf, IoBufMut};
use std::io;
use std::sync::Arc;

/// A device in memory, for an image that is given as bytes. Clones are the same device, so its bytes can
/// outlive a volume on it.
#[derive(Clone)]
pub struct MemoryDevice {
    bytes: Arc<lanefs_sync::lock::RwLock<Vec<u8>>>,
}

impl MemoryDevice {
    /// Returns a device with these bytes.
    pub fn new(bytes: Vec<u8>) -> Self {
        MemoryDevice { bytes: Arc::new(bytes.into()) }
    }

    /// Returns a copy of all bytes.
    pub fn bytes(&self) -> Vec<u8> {
        self.bytes.read().clone()
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
        let mut bytes = self.bytes.write();
        let len = usize::try_from(len).map_err(|_| io::ErrorKind::OutOfMemory)?;
        let more = len.saturating_sub(bytes.len());
        bytes.try_reserve(more).map_err(|_| io::ErrorKind::OutOfMemory)?;
        bytes.resize(len, 0);
        Ok(())
    }
}
