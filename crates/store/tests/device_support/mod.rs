//! A tester of devices: random requests, compared with a vector of bytes.

use lanefs_store::{Device, IoBuf, IoBufMut, MemoryDevice, Read, Write};
use std::io;
use std::path::Path;

/// Directories on different file systems: the build's own (a disk, mostly), and memory where there is such a
/// directory.
pub(crate) struct Directories {
    dirs: Vec<tempfile::TempDir>,
}

impl Directories {
    pub(crate) fn new() -> Self {
        let disk = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory for tests");
        let memory = tempfile::tempdir_in("/dev/shm").ok();
        Directories { dirs: std::iter::once(disk).chain(memory).collect() }
    }

    pub(crate) fn all(&self) -> Vec<&Path> {
        self.dirs.iter().map(tempfile::TempDir::path).collect()
    }
}

/// A small generator of random numbers, so that a seed gives the same everywhere.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    pub(crate) fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % n.max(1)
    }
}

/// Bytes at an address that is a multiple of 4096, or `skew` bytes after one.
struct Memory {
    bytes: Vec<u8>,
    start: usize,
    len: usize,
}

impl Memory {
    fn new(len: usize, skew: usize, fill: u8) -> Self {
        let bytes = vec![fill; len + skew + 4096];
        let start = bytes.as_ptr().align_offset(4096) + skew;
        Memory { bytes, start, len }
    }

    fn get(&self) -> &[u8] {
        &self.bytes[self.start..self.start + self.len]
    }

    fn get_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[self.start..self.start + self.len]
    }
}

/// Returns disjoint ranges of one batch, ascending, inside `len` bytes.
fn ranges(random: &mut Random, base: u64, len: u64) -> Vec<(u64, usize)> {
    let mut all = Vec::new();
    let mut at = 0;
    let aligned = random.below(2) == 0;
    let count = 1 + random.below(40);
    let gap = [1, 3000, 20_000][random.below(3) as usize];
    let longest = [10, 5000, 70_000][random.below(3) as usize];
    while at < len && all.len() < count as usize {
        at += random.below(gap);
        let mut size = random.below(longest).min(len.saturating_sub(at));
        if aligned {
            // Aligned on the device, not in the range.
            at = (base + at).next_multiple_of(4096) - base;
            size = size.next_multiple_of(4096);
        }
        if at + size > len {
            break;
        }
        all.push((at, size as usize));
        at += size;
    }
    all
}

/// One thread's part of the device, and its expected content.
struct Part<'d> {
    device: &'d dyn Device,
    base: u64,
    oracle: Vec<u8>,
    random: Random,
}

impl Part<'_> {
    fn step(&mut self) -> Result<(), String> {
        let ranges = ranges(&mut self.random, self.base, self.oracle.len() as u64);
        let skew = [0, 0, 1, 512][self.random.below(4) as usize];
        let many = self.random.below(2) == 0;
        if self.random.below(2) == 0 {
            self.write(&ranges, skew, many)
        } else {
            self.read(&ranges, skew, many)
        }
    }

    fn write(&mut self, ranges: &[(u64, usize)], skew: usize, many: bool) -> Result<(), String> {
        let memory: Vec<Memory> = ranges
            .iter()
            .map(|(_, len)| {
                let mut memory = Memory::new(*len, skew, 0);
                let first = self.random.below(256);
                memory.get_mut().iter_mut().enumerate().for_each(|(i, b)| *b = (first + i as u64 * 3) as u8);
                memory
            })
            .collect();
        let mut requests: Vec<Write<'_>> = ranges
            .iter()
            .zip(&memory)
            .map(|((at, _), memory)| Write { at: self.base + at, data: IoBuf::new(memory.get()) })
            .collect();
        if self.random.below(2) == 0 {
            requests.reverse();
        }
        let done = if many {
            self.device.write_many(&requests)
        } else {
            requests.iter().try_for_each(|request| self.device.write_at(request.at, request.data))
        };
        done.map_err(|error| format!("a write failed: {error}"))?;
        for ((at, len), memory) in ranges.iter().zip(&memory) {
            self.oracle[*at as usize..*at as usize + len].copy_from_slice(memory.get());
        }
        Ok(())
    }

    fn read(&mut self, ranges: &[(u64, usize)], skew: usize, many: bool) -> Result<(), String> {
        let mut memory: Vec<Memory> = ranges.iter().map(|(_, len)| Memory::new(*len, skew, 0xEE)).collect();
        let mut requests: Vec<Read<'_>> = ranges
            .iter()
            .zip(&mut memory)
            .map(|((at, _), memory)| Read { at: self.base + at, buffer: IoBufMut::new(memory.get_mut()) })
            .collect();
        if many {
            self.device.read_many(&mut requests).map_err(|error| format!("a read failed: {error}"))?;
        } else {
            for request in &mut requests {
                let read = self.device.read_at(request.at, request.buffer.reborrow());
                read.map_err(|error| format!("a read failed: {error}"))?;
            }
        }
        for ((at, len), memory) in ranges.iter().zip(&memory) {
            if memory.get() != &self.oracle[*at as usize..*at as usize + len] {
                return Err(format!("{len} bytes at {} differ", self.base + at));
            }
        }
        Ok(())
    }
}

/// Does random requests by `threads` threads, each on its own part of a device of zeros. The parts meet
/// inside blocks, so that a careless write of one thread destroys bytes of another.
pub(crate) fn exercise(device: &dyn Device, seed: u64, threads: u64, steps: u32) -> Result<(), String> {
    let len = device.len();
    let bound = |thread: u64| if thread == threads { len } else { (len / threads * thread) | (thread * 13) };
    let parts: Vec<Result<Part<'_>, String>> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads)
            .map(|thread| {
                scope.spawn(move || {
                    let oracle = vec![0; (bound(thread + 1) - bound(thread)) as usize];
                    let random = Random::new(seed * 100 + thread);
                    let mut part = Part { device, base: bound(thread), oracle, random };
                    for step in 0..steps {
                        part.step()
                            .map_err(|why| format!("seed {seed}, thread {thread}, step {step}: {why}"))?;
                    }
                    Ok(part)
                })
            })
            .collect();
        workers.into_iter().map(|worker| worker.join().expect("a worker")).collect()
    });
    let mut all = vec![0; len as usize];
    device.read_slice(0, &mut all).map_err(|error| error.to_string())?;
    for part in parts {
        let part = part?;
        let start = part.base as usize;
        if all[start..start + part.oracle.len()] != part.oracle {
            return Err(format!("seed {seed}: the end state differs in the part at {start}"));
        }
    }
    Ok(())
}

/// Bugs that the tester must find.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Planted {
    /// No bug: a device with the required methods only.
    Nothing,
    /// An aligned read returns the block before it.
    WrongResult,
    /// A write loses the bytes after its last whole block.
    LostWrite,
    /// A write writes one byte too many.
    LateByte,
}

impl Planted {
    pub(crate) fn plant(self, below: MemoryDevice) -> impl Device {
        Faulty { below, bug: self }
    }
}

struct Faulty {
    below: MemoryDevice,
    bug: Planted,
}

impl Device for Faulty {
    fn len(&self) -> u64 {
        self.below.len()
    }

    fn read_at(&self, at: u64, buffer: IoBufMut<'_>) -> io::Result<()> {
        let wrong = self.bug == Planted::WrongResult && at > 4096 && at.is_multiple_of(4096);
        self.below.read_at(if wrong { at - 4096 } else { at }, buffer)
    }

    fn write_at(&self, at: u64, data: IoBuf<'_>) -> io::Result<()> {
        match self.bug {
            Planted::LostWrite if data.len() > 4096 => {
                self.below.write_at(at, data.part(..data.len() - data.len() % 4096))
            }
            Planted::LateByte if at + (data.len() as u64) < self.len() => {
                self.below.write_slice(at, &[data.to_vec(), vec![0x55]].concat())
            }
            _ => self.below.write_at(at, data),
        }
    }

    fn flush(&self) -> io::Result<()> {
        self.below.flush()
    }

    fn discard(&self, at: u64, len: u64) -> io::Result<()> {
        self.below.discard(at, len)
    }

    fn resize(&self, len: u64) -> io::Result<()> {
        self.below.resize(len)
    }
}
