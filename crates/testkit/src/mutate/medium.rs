//! A device in memory whose bytes outlive the volume, so that the volume can be opened again.

use lanefs::{Device, IoBuf, IoBufMut};
use std::io;
use std::sync::{Arc, PoisonError, RwLock};

/// The device. Clones are the same device.
#[derive(Clone, Default)]
pub struct Medium(Arc<RwLock<Vec<u8>>>);

impl Medium {
    /// Makes a device with these bytes.
    pub fn new(bytes: Vec<u8>) -> Self {
        Medium(Arc::new(RwLock::new(bytes)))
    }

    /// Copies the bytes.
    pub fn bytes(&self) -> Vec<u8> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Device for Medium {
    fn len(&self) -> u64 {
        self.0.read().unwrap_or_else(PoisonError::into_inner).len() as u64
    }

    fn read_at(&self, at: u64, mut buffer: IoBufMut<'_>) -> io::Result<()> {
        let bytes = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let part = usize::try_from(at).ok().and_then(|at| bytes.get(at..at.checked_add(buffer.len())?));
        buffer.copy_from(part.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }

    fn write_at(&self, at: u64, data: IoBuf<'_>) -> io::Result<()> {
        let mut bytes = self.0.write().unwrap_or_else(PoisonError::into_inner);
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

    fn resize(&self, _len: u64) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }
}
