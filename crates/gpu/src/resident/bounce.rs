//! Bounce buffers: pinned memory of the host, through which bytes go to memory of a device that the host does
//! not map, while the host fills the next one.

use crate::error::Result;
use crate::vulkan::{Buffer, Commands, Device, MemoryLocation, SharedTimeline};
use std::sync::Arc;

/// Number of bounce buffers: one that the host fills, one that the device copies, and one after it, so that
/// neither waits for the other at once.
pub(crate) const BOUNCE_BUFFERS: usize = 3;

/// Bounce buffers, which are used in turn.
pub(crate) struct BounceBuffers {
    all: Vec<Bounce>,
    next: usize,
}

/// (Commands come first: dropping them waits for the end of their copy.)
struct Bounce {
    commands: Commands,
    memory: Buffer,
}

impl BounceBuffers {
    /// Makes bounce buffers of so many bytes each.
    ///
    /// # Errors
    /// An error of the device, also for want of memory.
    pub(crate) fn new(device: &Arc<Device>, bytes: u64) -> Result<BounceBuffers> {
        let one = |_| {
            let memory = Buffer::alone(device, bytes, MemoryLocation::Upload)?;
            Ok(Bounce { commands: Commands::of_copies(device)?, memory })
        };
        Ok(BounceBuffers { all: (0..BOUNCE_BUFFERS).map(one).collect::<Result<_>>()?, next: 0 })
    }

    /// Returns the memory of the next one, when its last copy has ended.
    ///
    /// # Errors
    /// An error of the device.
    pub(crate) fn memory(&mut self) -> Result<&mut [u8]> {
        let Bounce { commands, memory } = &mut self.all[self.next];
        commands.wait()?;
        Ok(memory.bytes_mut().unwrap_or(&mut []))
    }

    /// Has the device copy the first `len` bytes of that memory to `target`, from byte `at` on, after all
    /// copies so far.
    ///
    /// # Errors
    /// An error of the device.
    pub(crate) fn send(&mut self, target: &Buffer, at: u64, len: u64) -> Result<()> {
        let Bounce { commands, memory } = &mut self.all[self.next];
        commands.record(|recording| recording.copy(memory, target, &[(0, at, len)]))?;
        commands.submit()?;
        self.next = (self.next + 1) % self.all.len();
        Ok(())
    }

    /// Waits for the end of all copies.
    ///
    /// # Errors
    /// An error of the device: some bytes may not have been copied.
    pub(crate) fn finish(&self) -> Result<()> {
        self.all.iter().map(|bounce| bounce.commands.wait()).fold(Ok(()), Result::and)
    }

    /// Gives a buffer that can be exported to the programs that have it, after all copies.
    ///
    /// # Errors
    /// An error of the device.
    pub(crate) fn give_away(&mut self, target: &Buffer) -> Result<()> {
        let commands = &mut self.all[self.next].commands;
        commands.record(|recording| recording.give_away(target))?;
        commands.submit()?;
        commands.wait()
    }

    /// As [`give_away`](Self::give_away), without a wait: the end of the copies raises a timeline by one.
    ///
    /// # Errors
    /// As there; the timeline does not rise.
    pub(crate) fn give_away_later(&mut self, target: &Buffer, timeline: &mut SharedTimeline) -> Result<()> {
        let commands = &mut self.all[self.next].commands;
        commands.record(|recording| recording.give_away(target))?;
        commands.submit_raising(timeline).map(drop)
    }
}
