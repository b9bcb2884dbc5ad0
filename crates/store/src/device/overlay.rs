//! A device whose writes stay in memory: the device below is only read.

use super::{Device, FileId, IoBuf, IoBufMut, Read, ReadErrors};
use lanefs_format::BLOCK;
use lanefs_sync::Mutex;
use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

/// A device that keeps what is written to it in memory, block by block. Clones are the same device, whose
/// written blocks end with the last of them.
#[derive(Clone)]
pub struct Overlay(Arc<OverlayState>);

struct OverlayState {
    device: Box<dyn Device>,
    /// Blocks that do not read as on the device below, by their numbers.
    changed: Mutex<BTreeMap<u64, Content>>,
}

/// The content of a block that was changed.
#[derive(Clone)]
enum Content {
    Written(Arc<[u8]>),
    /// That of a block of the device below, at this position.
    Below(u64),
}

impl Overlay {
    /// Returns a device with the content of this one, which it never writes to.
    pub fn new(device: Box<dyn Device>) -> Self {
        Overlay(Arc::new(OverlayState { device, changed: Mutex::new(BTreeMap::new()) }))
    }

    /// Puts changed blocks over those of many reads of the device below.
    fn put_over_all(&self, requests: &mut [Read<'_>]) -> Result<(), ReadErrors> {
        let mut errors = ReadErrors::default();
        for (index, request) in requests.iter_mut().enumerate() {
            if let Err(error) = self.put_over(request.at, &mut request.buffer) {
                errors.add(index, error);
            }
        }
        errors.into_result()
    }

    /// Puts changed blocks over bytes that were read from the device below.
    fn put_over(&self, at: u64, buffer: &mut IoBufMut<'_>) -> io::Result<()> {
        let end = at + buffer.len() as u64;
        let changed: Vec<(u64, Content)> = {
            let changed = self.0.changed.lock();
            let touched = changed.range(at / BLOCK..end.div_ceil(BLOCK));
            touched.map(|(number, content)| (number * BLOCK, content.clone())).collect()
        };
        for (start, content) in changed {
            let (from, to) = (start.max(at), (start + BLOCK).min(end));
            let mut part = buffer.part((from - at) as usize..(to - at) as usize);
            match content {
                Content::Written(bytes) => {
                    part.copy_from(&bytes[(from - start) as usize..(to - start) as usize]);
                }
                Content::Below(other) => self.0.device.read_at(other + (from - start), part)?,
            }
        }
        Ok(())
    }
}

impl Device for Overlay {
    fn len(&self) -> u64 {
        self.0.device.len()
    }

    fn given(&self) -> u64 {
        self.0.device.given()
    }

    fn engine(&self) -> String {
        self.0.device.engine()
    }

    fn file_id(&self) -> Option<FileId> {
        self.0.device.file_id()
    }

    fn read_at(&self, at: u64, mut buffer: IoBufMut<'_>) -> io::Result<()> {
        self.0.device.read_at(at, buffer.reborrow())?;
        self.put_over(at, &mut buffer)
    }

    fn read_many(&self, requests: &mut [Read<'_>]) -> Result<(), ReadErrors> {
        self.0.device.read_many(requests)?;
        self.put_over_all(requests)
    }

    fn read_batch(&self, requests: &mut [Read<'_>]) -> Result<(), ReadErrors> {
        self.0.device.read_batch(requests)?;
        self.put_over_all(requests)
    }

    fn write_at(&self, at: u64, data: IoBuf<'_>) -> io::Result<()> {
        let end = at.checked_add(data.len() as u64).filter(|end| *end <= self.len());
        let end = end.ok_or(io::ErrorKind::UnexpectedEof)?;
        for number in at / BLOCK..end.div_ceil(BLOCK) {
            let start = number * BLOCK;
            let (from, to) = (start.max(at), (start + BLOCK).min(end));
            let mut block = vec![0; BLOCK as usize];
            if to - from < BLOCK {
                let len = BLOCK.min(self.len() - start) as usize;
                self.read_at(start, IoBufMut::new(&mut block[..len]))?;
            }
            let part = data.part((from - at) as usize..(to - at) as usize);
            part.copy_to(&mut block[(from - start) as usize..(to - start) as usize]);
            self.0.changed.lock().insert(number, Content::Written(block.into()));
        }
        Ok(())
    }

    fn take_from(&self, at: u64, from: u64) -> bool {
        let mut changed = self.0.changed.lock();
        // The block below is another one where this device has changed it.
        let is_below = !changed.contains_key(&(from / BLOCK));
        if is_below {
            changed.insert(at / BLOCK, Content::Below(from));
        }
        is_below
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::MemoryDevice;

    #[test]
    fn writes_are_read_again_and_stay_in_memory() {
        let below = MemoryDevice::new(vec![7; 3 * BLOCK as usize]);
        let device = Overlay::new(Box::new(below.clone()));
        device.write_slice(BLOCK - 1, &[1; 2]).expect("write");
        device.write_slice(2 * BLOCK, &[2; BLOCK as usize]).expect("write");
        assert!(device.write_slice(3 * BLOCK - 1, &[3; 2]).is_err());
        assert!(!device.take_from(BLOCK, 2 * BLOCK), "block 2 differs from the one below");
        let mut expected = vec![7; 3 * BLOCK as usize];
        expected[BLOCK as usize - 1..BLOCK as usize + 1].fill(1);
        expected[2 * BLOCK as usize..].fill(2);
        for (at, len) in [(0, 3 * BLOCK), (BLOCK - 2, 4), (BLOCK, 1), (2 * BLOCK - 1, 2)] {
            let mut read = vec![0; len as usize];
            device.clone().read_slice(at, &mut read).expect("read");
            assert_eq!(read, &expected[at as usize..(at + len) as usize]);
            let mut read = vec![0; len as usize];
            let mut requests = [Read { at, buffer: IoBufMut::new(&mut read) }];
            device.read_many(&mut requests).expect("read");
            assert_eq!(read, &expected[at as usize..(at + len) as usize]);
        }
        assert_eq!(below.bytes(), vec![7; 3 * BLOCK as usize]);
    }

    #[test]
    fn a_block_reads_as_another_one_below() {
        let bytes: Vec<u8> = (0..3 * BLOCK).map(|i| (i / 16) as u8 ^ (i >> 12) as u8).collect();
        let device = Overlay::new(Box::new(MemoryDevice::new(bytes.clone())));
        assert!(device.take_from(0, 2 * BLOCK));
        device.write_slice(2 * BLOCK, &[9; BLOCK as usize]).expect("write");
        let mut read = vec![0; BLOCK as usize];
        device.read_slice(100, &mut read).expect("read");
        let block = BLOCK as usize;
        assert_eq!(read[..block - 100], bytes[2 * block + 100..]);
        assert_eq!(read[block - 100..], bytes[block..block + 100]);
    }
}
