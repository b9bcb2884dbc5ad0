//! The metadata in the device's memory.
//!
//! A table has a word for each 2 MiB chunk of the volume: the address of its copy, 0 where there is none. Metadata lies in chunks
//! of its own, so a copy is a chunk. Blocks of it that are not in the host's memory, or no metadata, are all ones, which no structure is; what
//! kernels meet there they answer with *not resident*, and the host decides.
//!
//! Each block of a copy has a version, which is raised when the block changes or goes; the directory cache asks it.
//!
//! Before a batch the mirror is brought up to the present: a [`Watch`] names the blocks that changed, which are copied at one moment
//! between changes. So a batch sees the volume as it was at that moment.

use crate::error::{Error, Result};
use crate::vulkan::{Buffer, Commands, Device, MemoryLocation};
use ash::vk;
use lanefs::Watched;
use lanefs::format::{BLOCK, BLOCKS_PER_CHUNK, BlockKind, CHUNK};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Chunks of one allocation: 32 MiB. A driver has some thousand allocations.
const SLAB: u64 = 16;

/// Bytes that are copied to the device at a time.
const STAGING: u64 = 8 << 20;

/// What a block that is not there is made of.
const NOTHING: u8 = 0xff;

/// Who takes blocks that changed.
pub(crate) type Take<'t> = &'t mut dyn FnMut(Watched<'_>);

/// A copy of the metadata, as far as the device has room.
pub(crate) struct Mirror {
    // First, for it waits for its end before the buffers go.
    work: Commands,
    device: Arc<Device>,
    slabs: Vec<Buffer>,
    /// Where the copy of a chunk is: number of the slab, chunk in it.
    chunks: BTreeMap<u64, (usize, u64)>,
    /// Positions of the leaf blocks that it has.
    pub(crate) leaves: BTreeSet<u64>,
    /// Chunks of the last slab that are taken.
    taken: u64,
    /// Chunks at most, and chunks of the volume.
    room: u64,
    count: u64,
    /// An address for each chunk of the volume, and behind them the number of each one's copy.
    table: Buffer,
    table_staging: Buffer,
    /// A version for each block of all copies, as the device is to have them.
    versions: Buffer,
    raised: Vec<u32>,
    staging: Buffer,
    version_staging: Buffer,
    /// Blocks copied so far: the generation. It rises whenever the device sees other bytes.
    generation: u64,
    /// A copy failed.
    is_stale: bool,
}

/// Blocks that are on their way.
#[derive(Default)]
struct Load {
    /// By slab: from where in the staging buffer, to where in the slab, how many bytes.
    parts: BTreeMap<usize, Vec<(u64, u64, u64)>>,
    /// The same for versions.
    versions: Vec<(u64, u64, u64)>,
    used: u64,
}

/// Adds a part, to the last one where it goes on there.
fn push(parts: &mut Vec<(u64, u64, u64)>, from: u64, to: u64, len: u64) {
    match parts.last_mut() {
        Some(last) if last.0 + last.2 == from && last.1 + last.2 == to => last.2 += len,
        _ => parts.push((from, to, len)),
    }
}

impl Mirror {
    /// An empty mirror of a volume of `bytes` bytes, of up to `room` bytes.
    ///
    /// # Errors
    /// The device's, for want of memory too.
    pub(crate) fn new(device: &Arc<Device>, bytes: u64, room: u64) -> Result<Mirror> {
        let count = bytes.div_ceil(CHUNK).max(1);
        let room = (room / CHUNK).min(count);
        let blocks = room * BLOCKS_PER_CHUNK;
        let mut mirror = Mirror {
            device: device.clone(),
            slabs: Vec::new(),
            chunks: BTreeMap::new(),
            leaves: BTreeSet::new(),
            taken: SLAB,
            room,
            count,
            table: Buffer::new(device, count * 12, MemoryLocation::Device)?,
            table_staging: Buffer::new(device, count * 12, MemoryLocation::Upload)?,
            versions: Buffer::new(device, blocks * 4, MemoryLocation::Device)?,
            raised: vec![0; blocks as usize],
            staging: Buffer::new(device, STAGING, MemoryLocation::Upload)?,
            version_staging: Buffer::new(device, STAGING / BLOCK * 4, MemoryLocation::Upload)?,
            work: Commands::new(device)?,
            generation: 0,
            is_stale: false,
        };
        let Mirror { table, versions, work, .. } = &mut mirror;
        work.record(|commands| {
            commands.fill(table, table.len, 0);
            commands.fill(versions, versions.len, 0);
        })?;
        work.submit()?;
        work.wait()?;
        if let Some(bytes) = mirror.table_staging.bytes_mut() {
            bytes.fill(0);
        }
        Ok(mirror)
    }

    /// Addresses of the chunks' addresses and of the numbers of their copies, and how many chunks there are.
    pub(crate) fn table(&self) -> (u64, u64, u64) {
        (self.table.address, self.table.address + self.count * 8, self.count)
    }

    /// Address of the versions, and how many there are.
    pub(crate) fn versions(&self) -> (u64, u32) {
        (self.versions.address, self.raised.len() as u32)
    }

    /// Returns the generation: the number of blocks copied so far.
    pub(crate) fn generation(&self) -> u64 {
        self.generation
    }

    /// The versions as the device has them, and the number of each chunk's copy.
    pub(crate) fn snapshot(&self) -> (Vec<u32>, BTreeMap<u64, u32>) {
        (
            self.raised.clone(),
            self.chunks.iter().map(|(chunk, place)| (*chunk, number_of(*place) as u32)).collect(),
        )
    }

    /// Has the device copy what changed since the last time, before what is submitted later. `changes` gives the blocks, as
    /// [`Watch::changes`](lanefs::Watch::changes) does.
    ///
    /// # Errors
    /// The device's; from then on the mirror is of no more use, for what did not reach it is not named again.
    pub(crate) fn refresh(&mut self, changes: impl FnOnce(Take<'_>)) -> Result<()> {
        if self.is_stale {
            let code = vk::Result::ERROR_DEVICE_LOST;
            return Err(Error::Device {
                operation: "using a mirror that could not be kept up to date",
                code,
            });
        }
        // Until all has been copied.
        self.is_stale = true;
        self.copy_changes(changes)?;
        self.is_stale = false;
        Ok(())
    }

    fn copy_changes(&mut self, changes: impl FnOnce(Take<'_>)) -> Result<()> {
        // What was sent the last time must have left the staging buffers.
        self.work.wait()?;
        let (mut load, mut outcome, mut is_new) = (Load::default(), Ok(()), false);
        changes(&mut |block| {
            if outcome.is_err() {
                return;
            }
            let known = self.chunks.len();
            let Some((slab, chunk)) = self.place(block.at / CHUNK, block.kind.is_some(), &mut outcome) else {
                return;
            };
            is_new |= self.chunks.len() > known;
            if block.kind == Some(BlockKind::Leaf) {
                self.leaves.insert(block.at);
            } else {
                self.leaves.remove(&block.at);
            }
            if load.used + BLOCK > STAGING {
                outcome = self.send(&mut load, false).and_then(|()| self.work.wait());
            }
            let from = load.used as usize..(load.used + BLOCK) as usize;
            if let Some(staging) = self.staging.bytes_mut().and_then(|bytes| bytes.get_mut(from)) {
                match block.kind {
                    Some(_) => staging.copy_from_slice(block.bytes),
                    None => staging.fill(NOTHING),
                }
            }
            push(load.parts.entry(slab).or_default(), load.used, chunk * CHUNK + block.at % CHUNK, BLOCK);
            self.raise(number_of((slab, chunk)) * BLOCKS_PER_CHUNK + block.at % CHUNK / BLOCK, &mut load);
            load.used += BLOCK;
            self.generation += 1;
        });
        outcome?;
        self.send(&mut load, is_new)
    }

    /// Raises the version of a block.
    fn raise(&mut self, number: u64, load: &mut Load) {
        let Some(version) = self.raised.get_mut(number as usize) else { return };
        *version = version.wrapping_add(1);
        let from = load.used / BLOCK * 4;
        let staging = self.version_staging.bytes_mut();
        if let Some(word) = staging.and_then(|bytes| bytes.get_mut(from as usize..from as usize + 4)) {
            word.copy_from_slice(&version.to_le_bytes());
        }
        push(&mut load.versions, from, number * 4, 4);
    }

    /// Where a chunk's copy is, or is going to be where it is `needed` and there is room.
    fn place(&mut self, chunk: u64, needed: bool, outcome: &mut Result<()>) -> Option<(usize, u64)> {
        if let Some(place) = self.chunks.get(&chunk) {
            return Some(*place);
        }
        if !needed || chunk >= self.count || self.chunks.len() as u64 >= self.room {
            return None;
        }
        if self.taken == SLAB {
            match self.grow() {
                Ok(()) => {}
                // What does not fit is not resident.
                Err(Error::Device { code: vk::Result::ERROR_OUT_OF_DEVICE_MEMORY, .. }) => {
                    self.room = self.chunks.len() as u64;
                    return None;
                }
                Err(error) => {
                    *outcome = Err(error);
                    return None;
                }
            }
        }
        let place = (self.slabs.len() - 1, self.taken);
        self.taken += 1;
        self.chunks.insert(chunk, place);
        let address = self.slabs[place.0].address + place.1 * CHUNK;
        let (at, behind) = (chunk as usize * 8, (self.count * 8 + chunk * 4) as usize);
        if let Some(bytes) = self.table_staging.bytes_mut() {
            bytes[at..at + 8].copy_from_slice(&address.to_le_bytes());
            bytes[behind..behind + 4].copy_from_slice(&(number_of(place) as u32).to_le_bytes());
        }
        Some(place)
    }

    /// Room for more chunks, all ones.
    fn grow(&mut self) -> Result<()> {
        let slab = Buffer::new(&self.device, SLAB * CHUNK, MemoryLocation::Device)?;
        self.work.record(|commands| commands.fill(&slab, slab.len, u32::MAX))?;
        self.work.submit()?;
        self.work.wait()?;
        self.slabs.push(slab);
        self.taken = 0;
        Ok(())
    }

    /// Has what has gathered in the staging buffers copied, the table too where it changed.
    fn send(&mut self, load: &mut Load, is_new: bool) -> Result<()> {
        if load.used == 0 {
            return Ok(());
        }
        let Mirror { slabs, table, table_staging, versions, staging, version_staging, work, .. } = self;
        let Load { parts, versions: raised, .. } = std::mem::take(load);
        work.record(|commands| {
            for (slab, parts) in &parts {
                commands.copy(staging, &slabs[*slab], parts);
            }
            commands.copy(version_staging, versions, &raised);
            if is_new {
                commands.copy(table_staging, table, &[(0, 0, table.len)]);
            }
        })?;
        work.submit().map(drop)
    }
}

/// The number of a copy among all of them.
fn number_of((slab, chunk): (usize, u64)) -> u64 {
    slab as u64 * SLAB + chunk
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vulkan::Choice;
    use lanefs::{CreateOptions, Volume};

    #[test]
    fn a_mirror_that_missed_a_change_is_not_used_again() {
        let device = Device::open(&Choice::Best, true, false).expect("a Vulkan device");
        let options = CreateOptions { size: 16 << 20, ..CreateOptions::default() };
        let volume = Volume::create_memory(&options).expect("volume");
        let mut watch = volume.watch().expect("watch").expect("nobody else watches");
        let mut mirror = Mirror::new(&device, 16 << 20, 16 << 20).expect("mirror");
        mirror.refresh(|take| watch.changes(take)).expect("refreshed");
        mirror.is_stale = true;
        assert!(matches!(mirror.refresh(|take| watch.changes(take)), Err(Error::Device { .. })));
    }
}
