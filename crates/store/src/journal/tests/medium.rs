//! A device that records, and its states after a power cut.

use crate::device::{Device, IoBuf, IoBufMut, MemoryDevice};
use lanefs_sync::lock::Mutex;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};

/// A small generator of random numbers, so that a seed gives the same everywhere.
pub(super) struct Random(pub(super) u64);

impl Random {
    pub(super) fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % n
    }

    pub(super) fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }
}

#[derive(Clone, Debug)]
pub(super) enum Event {
    Write(u64, Vec<u8>),
    Flush,
    /// The commit that leads to this state of the model is about to be written.
    Begun(usize),
    /// That commit was acknowledged.
    Durable(usize),
}

/// A device that records all calls and passes them on.
pub(super) struct Recorder {
    below: MemoryDevice,
    log: Mutex<Vec<Event>>,
    /// Flushes do nothing while this is set: a planted bug.
    pub(super) loses_flushes: AtomicBool,
    /// Writes fail while this is set.
    pub(super) fails: AtomicBool,
    /// A read of this byte fails until it is written.
    pub(super) bad: Mutex<Option<u64>>,
}

impl Recorder {
    pub(super) fn new(bytes: Vec<u8>) -> Self {
        Recorder {
            below: MemoryDevice::new(bytes),
            log: Mutex::default(),
            loses_flushes: AtomicBool::new(false),
            fails: AtomicBool::new(false),
            bad: Mutex::default(),
        }
    }

    pub(super) fn note(&self, event: Event) {
        self.log.lock().push(event);
    }

    /// Returns the number of events so far.
    pub(super) fn now(&self) -> usize {
        self.log.lock().len()
    }

    /// Returns the events since the last call.
    pub(super) fn take(&self) -> Vec<Event> {
        std::mem::take(&mut *self.log.lock())
    }

    pub(super) fn bytes(&self) -> Vec<u8> {
        let mut bytes = vec![0; self.below.len() as usize];
        self.below.read_slice(0, &mut bytes).expect("memory");
        bytes
    }
}

impl Device for Recorder {
    fn len(&self) -> u64 {
        self.below.len()
    }
    fn read_at(&self, at: u64, buffer: IoBufMut<'_>) -> io::Result<()> {
        let end = at + buffer.len() as u64;
        if self.bad.lock().is_some_and(|bad| (at..end).contains(&bad)) {
            return Err(io::ErrorKind::Other.into());
        }
        self.below.read_at(at, buffer)
    }
    fn write_at(&self, at: u64, data: IoBuf<'_>) -> io::Result<()> {
        assert!(data.as_ptr().addr().is_multiple_of(4096), "a write from memory that is not aligned");
        if self.fails.load(Ordering::Relaxed) {
            return Err(io::ErrorKind::Other.into());
        }
        self.bad.lock().take_if(|bad| (at..at + data.len() as u64).contains(bad));
        self.note(Event::Write(at, data.to_vec()));
        self.below.write_at(at, data)
    }
    fn flush(&self) -> io::Result<()> {
        if !self.loses_flushes.load(Ordering::Relaxed) {
            self.note(Event::Flush);
        }
        Ok(())
    }
    fn discard(&self, _at: u64, _len: u64) -> io::Result<()> {
        Ok(())
    }
    fn resize(&self, len: u64) -> io::Result<()> {
        self.below.resize(len)
    }
}

/// Returns the index after the last flush.
pub(super) fn flushed(events: &[Event]) -> usize {
    events.iter().rposition(|event| matches!(event, Event::Flush)).map_or(0, |i| i + 1)
}

/// Returns `base` after these events; writes after the last flush may be lost or torn at 512 bytes.
pub(super) fn crashed(base: &[u8], events: &[Event], random: &mut Random) -> Vec<u8> {
    let flushed = flushed(events);
    let mut image = base.to_vec();
    let way = random.below(5);
    for (i, event) in events.iter().enumerate() {
        let Event::Write(at, data) = event else { continue };
        let at = *at as usize;
        if i < flushed {
            image[at..at + data.len()].copy_from_slice(data);
            continue;
        }
        // By whole writes or by sectors, so that both "one of two writes" and "all except a sector" are
        // frequent.
        let whole = random.one_in(2);
        for (sector, bytes) in data.chunks(512).enumerate() {
            let lands = match way {
                0 => true,
                1 => false,
                2 => whole,
                3 => random.one_in(2),
                _ => !random.one_in(20),
            };
            if lands {
                image[at + sector * 512..][..bytes.len()].copy_from_slice(bytes);
            }
        }
    }
    image
}

/// Returns a block in which every sector has the tag.
pub(super) fn block(tag: u64) -> [u8; 4096] {
    let mut bytes = [0; 4096];
    for (i, word) in bytes.as_chunks_mut::<8>().0.iter_mut().enumerate() {
        let mixed = (tag * 512 + i as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        *word = (mixed ^ (mixed >> 29)).to_le_bytes();
    }
    bytes
}
