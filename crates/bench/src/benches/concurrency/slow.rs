//! A device as slow as a disk. It stores only blocks that are not zero, so that a large one costs no memory.

use lanefs::{Device, IoBuf, IoBufMut};
use parking_lot::RwLock;
use std::cell::Cell;
use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

const BLOCK: u64 = 4096;

/// Shortest and longest time of a read, in microseconds.
const LEAST_US: u64 = 100;
const MOST_US: u64 = 200;

thread_local! {
    /// Whether this thread's reads are counted apart: all of its blocks should be resident.
    static EXPECTS_HITS: Cell<bool> = const { Cell::new(false) };
}

/// Declares the blocks that this thread reads resident.
pub(super) fn expect_hits(expected: bool) {
    EXPECTS_HITS.set(expected);
}

/// The device; clones share it.
#[derive(Clone)]
pub(super) struct SlowDevice(Arc<Inside>);

struct Inside {
    len: u64,
    blocks: RwLock<HashMap<u64, Box<[u8]>>>,
    slow: AtomicBool,
    reads: AtomicU64,
    missed_hits: AtomicU64,
}

impl SlowDevice {
    /// Makes a device of zeros, which is fast at first.
    pub(super) fn new(len: u64) -> Self {
        SlowDevice(Arc::new(Inside {
            len,
            blocks: RwLock::default(),
            slow: AtomicBool::new(false),
            reads: AtomicU64::new(0),
            missed_hits: AtomicU64::new(0),
        }))
    }

    /// Makes each read slow from now on.
    pub(super) fn slow_down(&self) {
        self.0.slow.store(true, Ordering::Relaxed);
    }

    /// Returns the number of reads so far.
    pub(super) fn reads(&self) -> u64 {
        self.0.reads.load(Ordering::Relaxed)
    }

    /// Returns the number of reads so far by threads that expected hits.
    pub(super) fn missed_hits(&self) -> u64 {
        self.0.missed_hits.load(Ordering::Relaxed)
    }

    /// Calls `each` with every block that a range overlaps, the offset of the overlap in the block, and its
    /// part of the range.
    fn split(
        &self,
        at: u64,
        len: usize,
    ) -> io::Result<impl Iterator<Item = (u64, usize, std::ops::Range<usize>)>> {
        let end = at.checked_add(len as u64).filter(|end| *end <= self.0.len);
        let end = end.ok_or(io::ErrorKind::UnexpectedEof)?;
        Ok((at / BLOCK..end.div_ceil(BLOCK)).map(move |block| {
            let (from, to) = ((block * BLOCK).max(at), ((block + 1) * BLOCK).min(end));
            (block, (from % BLOCK) as usize, (from - at) as usize..(to - at) as usize)
        }))
    }
}

impl Device for SlowDevice {
    fn len(&self) -> u64 {
        self.0.len
    }

    fn read_at(&self, at: u64, mut buffer: IoBufMut<'_>) -> io::Result<()> {
        let parts = self.split(at, buffer.len())?;
        let number = self.0.reads.fetch_add(1, Ordering::Relaxed);
        if EXPECTS_HITS.get() {
            self.0.missed_hits.fetch_add(1, Ordering::Relaxed);
        }
        if self.0.slow.load(Ordering::Relaxed) {
            // The same sequence of times in every run (a multiplicative hash of the read's number).
            let spread = (number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) % (MOST_US - LEAST_US + 1);
            std::thread::sleep(Duration::from_micros(LEAST_US + spread));
        }
        let blocks = self.0.blocks.read();
        for (block, inside, part) in parts {
            let mut part = buffer.part(part);
            match blocks.get(&block) {
                Some(bytes) => part.copy_from(&bytes[inside..inside + part.len()]),
                None => part.fill(0),
            }
        }
        Ok(())
    }

    fn write_at(&self, at: u64, data: IoBuf<'_>) -> io::Result<()> {
        let parts = self.split(at, data.len())?;
        let mut blocks = self.0.blocks.write();
        for (block, inside, part) in parts {
            let part = data.part(part).to_vec();
            if let Some(bytes) = blocks.get_mut(&block) {
                bytes[inside..inside + part.len()].copy_from_slice(&part);
            } else if part.iter().any(|byte| *byte != 0) {
                let mut bytes = vec![0; BLOCK as usize].into_boxed_slice();
                bytes[inside..inside + part.len()].copy_from_slice(&part);
                blocks.insert(block, bytes);
            }
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_keeps_what_was_written_and_nothing_else() {
        let device = SlowDevice::new(10 * BLOCK);
        let data: Vec<u8> = (0..9000u32).map(|i| (i % 251) as u8 + 1).collect();
        device.write_slice(5000, &data).unwrap();
        device.write_slice(7 * BLOCK, &vec![0; BLOCK as usize]).unwrap();
        assert_eq!(device.0.blocks.read().len(), 3);
        let mut read = vec![9; 9200];
        device.read_slice(4900, &mut read).unwrap();
        assert!(read[..100].iter().chain(&read[9100..]).all(|byte| *byte == 0));
        assert_eq!(read[100..9100], data);
        device.write_slice(5000, &vec![0; 9000]).unwrap();
        device.read_slice(4900, &mut read).unwrap();
        assert!(read.iter().all(|byte| *byte == 0));
        assert!(device.read_slice(10 * BLOCK - 1, &mut [0; 2]).is_err());
        assert!(device.write_slice(u64::MAX, &[0]).is_err());
    }

    #[test]
    fn reads_are_counted_and_those_of_a_thread_that_expected_hits_apart() {
        let device = SlowDevice::new(BLOCK);
        device.slow_down();
        device.read_slice(0, &mut [0]).unwrap();
        expect_hits(true);
        device.read_slice(0, &mut [0]).unwrap();
        expect_hits(false);
        device.read_slice(0, &mut [0]).unwrap();
        assert_eq!((device.reads(), device.missed_hits()), (3, 1));
    }
}
