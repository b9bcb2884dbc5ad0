//! The metadata in the device's memory.
//!
//! A table has a word for each 2 MiB chunk of the volume: the address of its copy, 0 where there is none. Metadata lies in chunks
//! of its own, so a copy is a chunk. Blocks of it that are not in the host's memory, or no metadata, are all ones, which no structure is; what
//! kernels meet there they answer with *not resident*, and the host decides.
//!
//! Before a batch the mirror is brought up to the present: a [`Watch`] names the blocks that changed, which are copied at one moment
//! between changes. So a batch sees the volume as it was at that moment.

use crate::error::{Error, Result};
use crate::vulkan::{Buffer, Device, Place, Submission};
use ash::vk;
use lanefs::Watch;
use lanefs::format::{BLOCK, CHUNK};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Chunks of one allocation: 32 MiB. A driver has some thousand allocations.
const SLAB: u64 = 16;

/// Bytes that are copied to the device at a time.
const STAGING: u64 = 8 << 20;

/// What a block that is not there is made of.
const NOTHING: u8 = 0xff;

/// A copy of the metadata, as far as the device has room.
pub(crate) struct Mirror {
    device: Arc<Device>,
    slabs: Vec<Buffer>,
    /// Where the copy of a chunk is: number of the slab, chunk in it.
    chunks: BTreeMap<u64, (usize, u64)>,
    /// Chunks of the last slab that are taken.
    taken: u64,
    /// Chunks at most.
    room: u64,
    /// An address for each chunk of the volume.
    table: Buffer,
    table_staging: Buffer,
    staging: Buffer,
    work: Submission,
    /// Blocks copied so far.
    pub(crate) copied: u64,
    /// A copy failed.
    is_stale: bool,
}

/// Blocks that are on their way.
#[derive(Default)]
struct Load {
    /// By slab: from where in the staging buffer, to where in the slab.
    parts: BTreeMap<usize, Vec<(u64, u64, u64)>>,
    used: u64,
}

impl Mirror {
    /// An empty mirror of a volume of `bytes` bytes, of up to `room` bytes.
    ///
    /// # Errors
    /// The device's, for want of memory too.
    pub(crate) fn new(device: &Arc<Device>, bytes: u64, room: u64) -> Result<Mirror> {
        let words = bytes.div_ceil(CHUNK).max(1) * 8;
        let mut mirror = Mirror {
            device: device.clone(),
            slabs: Vec::new(),
            chunks: BTreeMap::new(),
            taken: SLAB,
            room: room / CHUNK,
            table: Buffer::new(device, words, Place::Device)?,
            table_staging: Buffer::new(device, words, Place::Upload)?,
            staging: Buffer::new(device, STAGING, Place::Upload)?,
            work: Submission::new(device)?,
            copied: 0,
            is_stale: false,
        };
        mirror.work.begin()?;
        mirror.work.fill(&mirror.table, 0);
        mirror.work.submit()?;
        mirror.work.wait()?;
        if let Some(bytes) = mirror.table_staging.bytes_mut() {
            bytes.fill(0);
        }
        Ok(mirror)
    }

    /// Address of the table, and chunks in it.
    pub(crate) fn table(&self) -> (u64, u64) {
        (self.table.address, self.table.len / 8)
    }

    /// Copies what changed since the last time.
    ///
    /// # Errors
    /// The device's; from then on the mirror is of no more use, for what did not reach it is not named again.
    pub(crate) fn refresh(&mut self, watch: &mut Watch<'_>) -> Result<()> {
        if self.is_stale {
            let code = vk::Result::ERROR_DEVICE_LOST;
            return Err(Error::Device { doing: "using a mirror that could not be kept up to date", code });
        }
        // Until all has been copied.
        self.is_stale = true;
        self.copy_changes(watch)?;
        self.is_stale = false;
        Ok(())
    }

    fn copy_changes(&mut self, watch: &mut Watch<'_>) -> Result<()> {
        let (mut load, mut outcome, mut is_new) = (Load::default(), Ok(()), false);
        watch.changes(&mut |block| {
            if outcome.is_err() {
                return;
            }
            let known = self.chunks.len();
            let Some((slab, chunk)) = self.place(block.at / CHUNK, block.kind.is_some(), &mut outcome) else {
                return;
            };
            is_new |= self.chunks.len() > known;
            if load.used + BLOCK > STAGING {
                outcome = self.send(&mut load);
            }
            let from = load.used as usize..(load.used + BLOCK) as usize;
            if let Some(staging) = self.staging.bytes_mut().and_then(|bytes| bytes.get_mut(from)) {
                match block.kind {
                    Some(_) => staging.copy_from_slice(block.bytes),
                    None => staging.fill(NOTHING),
                }
            }
            let to = chunk * CHUNK + block.at % CHUNK;
            load.parts.entry(slab).or_default().push((load.used, to, BLOCK));
            load.used += BLOCK;
            self.copied += 1;
        });
        outcome?;
        self.send(&mut load)?;
        if is_new {
            self.work.begin()?;
            self.work.copy(&self.table_staging, &self.table, &[(0, 0, self.table_staging.len)]);
            self.work.submit()?;
            self.work.wait()?;
        }
        Ok(())
    }

    /// Where a chunk's copy is, or is going to be where it is `needed` and there is room.
    fn place(&mut self, chunk: u64, needed: bool, outcome: &mut Result<()>) -> Option<(usize, u64)> {
        if let Some(place) = self.chunks.get(&chunk) {
            return Some(*place);
        }
        if !needed || self.chunks.len() as u64 >= self.room {
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
        let word = chunk as usize * 8..chunk as usize * 8 + 8;
        if let Some(word) = self.table_staging.bytes_mut().and_then(|bytes| bytes.get_mut(word)) {
            word.copy_from_slice(&address.to_le_bytes());
        }
        Some(place)
    }

    /// Room for more chunks, all ones.
    fn grow(&mut self) -> Result<()> {
        let slab = Buffer::new(&self.device, SLAB * CHUNK, Place::Device)?;
        self.work.begin()?;
        self.work.fill(&slab, u32::MAX);
        self.work.submit()?;
        self.work.wait()?;
        self.slabs.push(slab);
        self.taken = 0;
        Ok(())
    }

    /// Copies what has gathered in the staging buffer.
    fn send(&mut self, load: &mut Load) -> Result<()> {
        if load.used == 0 {
            return Ok(());
        }
        self.work.begin()?;
        for (slab, parts) in &load.parts {
            self.work.copy(&self.staging, &self.slabs[*slab], parts);
        }
        *load = Load::default();
        self.work.submit()?;
        self.work.wait()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vulkan::Choice;
    use lanefs::{CreateOptions, Volume};

    #[test]
    fn a_mirror_that_missed_a_change_is_not_used_again() {
        let device = Device::open(&Choice::Best).expect("a Vulkan device");
        let options = CreateOptions { size: 16 << 20, ..CreateOptions::default() };
        let volume = Volume::create_memory(&options).expect("volume");
        let mut watch = volume.watch().expect("watch").expect("nobody else watches");
        let mut mirror = Mirror::new(&device, 16 << 20, 16 << 20).expect("mirror");
        mirror.refresh(&mut watch).expect("refreshed");
        mirror.is_stale = true;
        assert!(matches!(mirror.refresh(&mut watch), Err(Error::Device { .. })));
    }
}
