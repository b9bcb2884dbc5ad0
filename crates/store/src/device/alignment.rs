//! What direct I/O asks of a request.

use super::{IoBufMut, system};
use rustix::fs::{AtFlags, OFlags, StatxFlags};
use std::fs::File;
use std::io;

/// Direct I/O without a word from the kernel about it: no disk in use has larger sectors, and a page is always enough.
const CAUTIOUS: Alignment = Alignment { position: 4096, memory: 4096 };

/// Values above this are not believed: bounce buffers would become absurd.
const MOST: u64 = 1 << 20;

/// What positions, lengths and addresses of direct I/O are multiples of, in bytes. Both are powers of two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Alignment {
    position: u64,
    memory: u64,
}

impl Alignment {
    /// No demands: the page cache takes everything.
    pub(super) const NONE: Alignment = Alignment { position: 1, memory: 1 };

    /// True when position and length need no rounding.
    pub(super) fn fits(&self, at: u64, len: usize) -> bool {
        (at | len as u64) & (self.position - 1) == 0
    }

    /// True when the memory can be used as it lies.
    pub(super) fn fits_memory(&self, address: usize) -> bool {
        address as u64 & (self.memory - 1) == 0
    }

    /// The last good position that is not above `at`.
    pub(super) fn down(&self, at: u64) -> u64 {
        at & !(self.position - 1)
    }

    /// The first good position that is not below `at`, which is a position in a file (so that this cannot overflow).
    pub(super) fn up(&self, at: u64) -> u64 {
        self.down(at + (self.position - 1))
    }

    /// A request that was done in part goes on at a multiple of this, counted from its start, so that what is left of
    /// it is aligned again.
    pub(super) fn grain(&self) -> usize {
        self.position.max(self.memory) as usize
    }
}

/// Turns direct I/O on for an open file and says what it asks for; `None` (and off) where it is refused.
pub(super) fn turn_direct(file: &File, raw: bool) -> Option<Alignment> {
    let alignment = known(file, raw)?;
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

/// What the kernel says, else what is safe to assume. `None` where the kernel says that direct I/O is not possible.
fn known(file: &File, raw: bool) -> Option<Alignment> {
    if let Ok(stat) = rustix::fs::statx(file, c"", AtFlags::EMPTY_PATH, StatxFlags::DIOALIGN)
        && StatxFlags::from_bits_retain(stat.stx_mask).contains(StatxFlags::DIOALIGN)
    {
        let position = u64::from(stat.stx_dio_offset_align);
        let memory = u64::from(stat.stx_dio_mem_align);
        let sound = |value: u64| value.is_power_of_two() && value <= MOST;
        return (sound(position) && sound(memory)).then_some(Alignment { position, memory });
    }
    if raw {
        // A raw device may end with a part of 4096 bytes, so its own sectors are asked for.
        let sector = u64::from(rustix::fs::ioctl_blksszget(file).ok()?);
        return (sector.is_power_of_two() && sector <= MOST)
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
    /// `len` zero bytes.
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
