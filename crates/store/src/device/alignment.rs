//! Alignment: the demands of direct I/O on a request.

use super::{IoBufMut, system};
use rustix::fs::{AtFlags, OFlags, StatxFlags};
use std::fs::File;
use std::io;

/// Alignment where the kernel gives none: no disk in use has larger sectors, and a page is always enough.
const CAUTIOUS: Alignment = Alignment { position: 4096, memory: 4096 };

/// Largest alignment that is believed, in bytes: a larger one makes bounce buffers absurd.
const MAX_ALIGNMENT_BYTES: u64 = 1 << 20;

/// The numbers of bytes of which positions and lengths, and addresses, of direct I/O are multiples. Both are
/// powers of two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Alignment {
    position: u64,
    memory: u64,
}

impl Alignment {
    /// No demands: the page cache takes everything.
    pub(super) const NONE: Alignment = Alignment { position: 1, memory: 1 };

    /// Returns true when position and length need no rounding.
    pub(super) fn fits(&self, at: u64, len: usize) -> bool {
        (at | len as u64) & (self.position - 1) == 0
    }

    /// Returns true when memory at this address needs no bounce buffer.
    pub(super) fn fits_memory(&self, address: usize) -> bool {
        address as u64 & (self.memory - 1) == 0
    }

    /// Returns the last aligned position that is not above `at`.
    pub(super) fn down(&self, at: u64) -> u64 {
        at & !(self.position - 1)
    }

    /// Returns the first aligned position that is not below `at`, which is a position in a file (so this
    /// cannot overflow).
    pub(super) fn up(&self, at: u64) -> u64 {
        self.down(at + (self.position - 1))
    }

    /// Returns the unit of progress: a request that was done in part continues at a multiple of it, counted
    /// from the request's start, so that the rest is aligned too.
    pub(super) fn unit(&self) -> usize {
        self.position.max(self.memory) as usize
    }
}

/// Turns direct I/O on for an open file and returns its alignment; `None` (and off) where it is refused.
pub(super) fn turn_direct(file: &File, raw: bool) -> Option<Alignment> {
    let alignment = alignment_of(file, raw)?;
    let flags = rustix::fs::fcntl_getfl(file).ok()?;
    rustix::fs::fcntl_setfl(file, flags | OFlags::DIRECT).ok()?;
    // Some file systems take the flag and refuse the reads.
    let mut probe = Aligned::new(alignment.up(1), &alignment);
    match system::read_some(file, 0, &mut IoBufMut::new(probe.bytes())) {
        Err(e) if e.kind() == io::ErrorKind::InvalidInput => {
            rustix::fs::fcntl_setfl(file, flags).ok()?;
            None
        }
        _ => Some(alignment),
    }
}

/// Returns the kernel's alignment, else a safe one. `None` where the kernel says that direct I/O is not
/// possible.
fn alignment_of(file: &File, raw: bool) -> Option<Alignment> {
    if let Ok(stat) = rustix::fs::statx(file, c"", AtFlags::EMPTY_PATH, StatxFlags::DIOALIGN)
        && StatxFlags::from_bits_retain(stat.stx_mask).contains(StatxFlags::DIOALIGN)
    {
        let position = u64::from(stat.stx_dio_offset_align);
        let memory = u64::from(stat.stx_dio_mem_align);
        let sound = |value: u64| value.is_power_of_two() && value <= MAX_ALIGNMENT_BYTES;
        return (sound(position) && sound(memory)).then_some(Alignment { position, memory });
    }
    if raw {
        // A raw device may end with a part of 4096 bytes, so the size of its own sectors counts.
        let sector = u64::from(rustix::fs::ioctl_blksszget(file).ok()?);
        return (sector.is_power_of_two() && sector <= MAX_ALIGNMENT_BYTES)
            .then_some(Alignment { position: sector, memory: sector });
    }
    Some(CAUTIOUS)
}

/// Memory for direct I/O.
pub(super) struct Aligned {
    memory: Vec<u8>,
    skip: usize,
    len: usize,
}

impl Aligned {
    /// Returns `len` zero bytes.
    pub(super) fn new(len: u64, alignment: &Alignment) -> Self {
        let (len, multiple) = (len as usize, alignment.memory as usize);
        let memory = vec![0; len + multiple - 1];
        let skip = memory.as_ptr().addr().wrapping_neg() & (multiple - 1);
        Aligned { memory, skip, len }
    }

    pub(super) fn bytes(&mut self) -> &mut [u8] {
        &mut self.memory[self.skip..self.skip + self.len]
    }
}
