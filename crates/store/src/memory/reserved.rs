//! The memory that a volume reserves when it is opened.

use crate::memory::arena::Arena;
use crate::memory::frames::{Frames, LARGEST_RANGE};
use lanefs_format::BLOCK;

/// The memory of a volume's bytes, and of what is known of each block.
pub(crate) struct Memory {
    pub(crate) frames: Frames,
    /// One byte a block.
    pub(crate) states: Arena,
    /// One byte a block.
    pub(crate) dirty: Arena,
    /// One word of four bytes a block of a device.
    pub(crate) ages: Arena,
    /// Number of blocks for which there is room.
    pub(crate) room: u64,
}

impl Memory {
    /// Reserves memory for a volume of `bytes` bytes that can grow up to `room` bytes, with a cache of
    /// `budget` blocks, or without a device. Under a limit on address space the volume still opens, but it
    /// cannot grow while it is open, or is sparse.
    pub(crate) fn reserve(bytes: u64, room: u64, budget: Option<u64>) -> std::io::Result<Self> {
        let in_one_range = |room: u64| Self::with(Frames::in_one_range(room), room, budget);
        let in_slots = |room: u64| Self::with(Frames::in_slots(room, budget), room, budget);
        let room = room.max(bytes);
        let mut made = in_one_range(room);
        if room > LARGEST_RANGE {
            made = made.or_else(|_| in_slots(room));
        }
        made.or_else(|_| in_one_range(bytes))
            .or_else(|_| in_slots(room))
            .or_else(|_| in_slots(bytes))
            .map_err(|_| {
                let least = Frames::least() + bytes / BLOCK * Self::bytes_of_a_block(budget);
                std::io::Error::new(
                    std::io::ErrorKind::OutOfMemory,
                    format!(
                        "the process has too little address space for a volume of {bytes} bytes, which takes \
                         {least} at least; raise its limit (ulimit -v)"
                    ),
                )
            })
    }

    /// Bytes that are kept of each block, beside its frame.
    fn bytes_of_a_block(budget: Option<u64>) -> u64 {
        2 + if budget.is_some() { size_of::<u32>() as u64 } else { 0 }
    }

    /// Reserves what belongs to frames for `room` bytes.
    pub(crate) fn with(
        frames: std::io::Result<Frames>,
        room: u64,
        budget: Option<u64>,
    ) -> std::io::Result<Self> {
        let room = room / BLOCK;
        let ages = Self::bytes_of_a_block(budget) - 2;
        let [states, dirty, ages] = [1, 1, ages].map(|bytes| Arena::reserve((room * bytes) as usize));
        Ok(Memory { frames: frames?, states: states?, dirty: dirty?, ages: ages?, room })
    }
}
