//! The copy of the metadata in device memory.
//!
//! A table has an address for each 2 MiB chunk of the volume, 0 for a chunk without a copy. Metadata lie in
//! chunks of their own, so a copy is a chunk. Blocks that the host does not have in memory, and blocks that
//! are not metadata, are all ones, which no structure is; a kernel that reads them answers *not resident*,
//! and the host decides.
//!
//! Each block of a copy has a version, which rises when the block changes or goes; the directory cache
//! compares it.
//!
//! The host refreshes the mirror before a batch: a [`Watch`](lanefs::Watch) names the blocks that changed,
//! and all of them are copied between two changes. So a batch sees the volume as it was then.

use super::dir_table::DirectoryTable;
use crate::error::{Error, Result};
use crate::vulkan::{Buffer, Commands, Device, MemoryLocation, Recording};
use ash::vk;
use lanefs::Watched;
use lanefs::format::{BLOCK, BLOCKS_PER_CHUNK, BlockKind, CHUNK};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Chunks of one allocation: 32 MiB. A driver has some thousand allocations.
const SLAB: u64 = 16;

/// Bytes that are copied to the device at a time.
const STAGING_BYTES: u64 = 8 << 20;

/// Most refreshes between a want of memory and the reload.
const MOST_PATIENCE: u32 = 1024;

/// Byte of which an absent block is made.
const NOTHING: u8 = 0xff;

/// Receiver of blocks that changed.
pub(crate) type Take<'t> = &'t mut dyn FnMut(Watched<'_>);

/// A copy of the metadata, as far as the device has room.
pub(crate) struct Mirror {
    // Dropped first: it waits for its end before the buffers are freed.
    work: Commands,
    device: Arc<Device>,
    slabs: Vec<Buffer>,
    /// Copy of each chunk: number of the slab, chunk in it.
    chunks: BTreeMap<u64, (usize, u64)>,
    /// Positions of the leaf blocks that the mirror has.
    pub(crate) leaves: BTreeSet<u64>,
    /// The device had no memory for another slab during this refresh.
    is_full: bool,
    /// Refreshes until all blocks are loaded again, since some found no memory; `None`: none did.
    until_reload: Option<u32>,
    /// Refreshes between a want of memory and the reload. Each reload in vain doubles them, one that finds
    /// room for all sets them back.
    patience: u32,
    /// Chunks in use of the last slab.
    taken: u64,
    /// Most chunks of the mirror, and chunks of the volume.
    room: u64,
    count: u64,
    /// An address for each chunk of the volume, and after them the number of each one's copy.
    table: Buffer,
    table_staging: Buffer,
    /// Version of each block of all copies: on the device, and as it must become.
    versions: Buffer,
    raised: Vec<u32>,
    staging: Buffer,
    version_staging: Buffer,
    /// Chunks whose copies the table on the device does not have yet.
    new_chunks: Vec<u64>,
    /// Blocks copied so far: the generation. It rises whenever the device sees other bytes.
    generation: u64,
    /// The paths of directories that lookups have walked, as of the last refresh.
    pub(crate) directories: DirectoryTable,
    /// A refresh failed, and the blocks that it should have copied are not named again.
    is_stale: bool,
}

/// Blocks in the staging buffers.
#[derive(Default)]
struct Load {
    /// For each slab: offset in the staging buffer, offset in the slab, bytes.
    parts: BTreeMap<usize, Vec<(u64, u64, u64)>>,
    /// The same for versions.
    versions: Vec<(u64, u64, u64)>,
    used: u64,
}

/// Adds a part, or extends the last one that it continues.
fn push(parts: &mut Vec<(u64, u64, u64)>, from: u64, to: u64, len: u64) {
    match parts.last_mut() {
        Some(last) if last.0 + last.2 == from && last.1 + last.2 == to => last.2 += len,
        _ => parts.push((from, to, len)),
    }
}

impl Mirror {
    /// Makes an empty mirror for a volume of `bytes` bytes, of up to `room` bytes, beside a table of the
    /// paths of its directories.
    ///
    /// # Errors
    /// An error of the device, also for want of memory.
    pub(crate) fn new(
        device: &Arc<Device>,
        bytes: u64,
        room: u64,
        directories: DirectoryTable,
    ) -> Result<Mirror> {
        let count = bytes.div_ceil(CHUNK).max(1);
        let room = (room / CHUNK).min(count);
        let blocks = room * BLOCKS_PER_CHUNK;
        let mut mirror = Mirror {
            device: device.clone(),
            slabs: Vec::new(),
            chunks: BTreeMap::new(),
            leaves: BTreeSet::new(),
            is_full: false,
            until_reload: None,
            patience: 1,
            taken: SLAB,
            room,
            count,
            table: Buffer::new(device, count * 12, MemoryLocation::Device)?,
            table_staging: Buffer::new(device, count * 12, MemoryLocation::Upload)?,
            versions: Buffer::new(device, blocks * 4, MemoryLocation::Device)?,
            raised: vec![0; blocks as usize],
            staging: Buffer::new(device, STAGING_BYTES, MemoryLocation::Upload)?,
            version_staging: Buffer::new(device, STAGING_BYTES / BLOCK * 4, MemoryLocation::Upload)?,
            work: Commands::new(device)?,
            new_chunks: Vec::new(),
            generation: 0,
            directories,
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

    /// Returns the addresses of the table and of the numbers of the copies, and the number of chunks.
    pub(crate) fn table(&self) -> (u64, u64, u64) {
        (self.table.address, self.table.address + self.count * 8, self.count)
    }

    /// Returns the address of the versions, and their number.
    pub(crate) fn versions(&self) -> (u64, u32) {
        (self.versions.address, self.raised.len() as u32)
    }

    /// Returns the numbers of the chunks that have a copy, in order.
    pub(crate) fn chunk_numbers(&self) -> impl Iterator<Item = u64> {
        self.chunks.keys().copied()
    }

    /// Returns the number of versions of all copies that there are.
    pub(crate) fn version_count(&self) -> u32 {
        (self.slabs.len() as u64 * SLAB * BLOCKS_PER_CHUNK).min(self.raised.len() as u64) as u32
    }

    /// Has the device copy chunks to another buffer, each to its offset.
    pub(crate) fn copy_chunks(&self, recording: &Recording<'_>, to: &Buffer, copies: &[(u64, u64)]) {
        let mut parts: BTreeMap<usize, Vec<(u64, u64, u64)>> = BTreeMap::new();
        for (number, offset) in copies {
            if let Some((slab, chunk)) = self.chunks.get(number) {
                push(parts.entry(*slab).or_default(), chunk * CHUNK, *offset, CHUNK);
            }
        }
        parts.iter().for_each(|(slab, parts)| recording.copy(&self.slabs[*slab], to, parts));
    }

    /// Has the device copy the first versions to an offset of another buffer.
    pub(crate) fn copy_versions(&self, recording: &Recording<'_>, to: &Buffer, at: u64, count: u32) {
        if count > 0 {
            recording.copy(&self.versions, to, &[(0, at, u64::from(count) * 4)]);
        }
    }

    /// Returns the generation: the number of blocks copied so far.
    pub(crate) fn generation(&self) -> u64 {
        self.generation
    }

    /// Returns the versions as the device has them, and the number of each chunk's copy.
    pub(crate) fn snapshot(&self) -> (Vec<u32>, BTreeMap<u64, u32>) {
        (
            self.raised.clone(),
            self.chunks.iter().map(|(chunk, copy)| (*chunk, number_of(*copy) as u32)).collect(),
        )
    }

    /// Has the device copy the blocks that changed since the last refresh, before all later submissions.
    /// `changes` gives the blocks, as [`Watch::changes`](lanefs::Watch::changes) does.
    ///
    /// # Errors
    /// An error of the device; the mirror [needs a reload](Self::needs_reload) then, and refuses all use
    /// until it was emptied.
    pub(crate) fn refresh(&mut self, changes: impl FnOnce(Take<'_>) -> u64) -> Result<()> {
        if self.is_stale {
            let operation = "using a mirror that could not be kept up to date";
            return Err(Error::Device { operation, code: vk::Result::ERROR_OUT_OF_HOST_MEMORY });
        }
        // Until all blocks have been copied.
        self.is_stale = true;
        let before = self.generation;
        self.copy_changes(changes)?;
        debug_assert!(before <= self.generation, "generations only rise");
        debug_assert!(self.chunks.len() as u64 <= self.room && self.taken <= SLAB, "more copies than room");
        self.is_stale = false;
        Ok(())
    }

    /// Tells whether to load all blocks again: a refresh failed, and a block that did not reach the device is
    /// not named again; or some blocks found no memory a while ago.
    pub(crate) fn needs_reload(&self) -> bool {
        self.is_stale || self.until_reload == Some(0)
    }

    /// Forgets all blocks, so that a refresh which passes all resident blocks makes the mirror whole again.
    /// Versions rise above all that were in use: no slot of the directory cache counts any more.
    ///
    /// # Errors
    /// An error of the device; the mirror is then as stale as before.
    pub(crate) fn empty(&mut self) -> Result<()> {
        let next = self.raised.iter().max().map_or(0, |version| version.wrapping_add(1));
        let Mirror { work, slabs, versions, .. } = self;
        work.record(|commands| {
            slabs.iter().for_each(|slab| commands.fill(slab, slab.len, u32::MAX));
            commands.fill(versions, versions.len, next);
        })?;
        work.submit()?;
        work.wait()?;
        self.raised.fill(next);
        self.leaves.clear();
        self.new_chunks = self.chunks.keys().copied().collect();
        self.generation += 1;
        if self.until_reload.take() == Some(0) {
            self.patience = (2 * self.patience).min(MOST_PATIENCE);
        }
        self.is_stale = false;
        Ok(())
    }

    fn copy_changes(&mut self, changes: impl FnOnce(Take<'_>) -> u64) -> Result<()> {
        // The staging buffers are free when the last copies have ended.
        self.work.wait()?;
        let (mut load, mut outcome) = (Load::default(), Ok(()));
        self.is_full = false;
        self.until_reload = self.until_reload.map(|left| left.saturating_sub(1));
        let moves = changes(&mut |block| {
            if outcome.is_err() {
                return;
            }
            let Some((slab, chunk)) = self.copy_of(block.at / CHUNK, block.kind.is_some(), &mut outcome)
            else {
                return;
            };
            if block.kind == Some(BlockKind::Leaf) {
                self.leaves.insert(block.at);
            } else {
                self.leaves.remove(&block.at);
            }
            debug_assert!(
                load.used.is_multiple_of(BLOCK) && load.used <= STAGING_BYTES,
                "the staging buffer overflows"
            );
            if load.used + BLOCK > STAGING_BYTES {
                outcome = self.send(&mut load).and_then(|()| self.work.wait());
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
        self.send(&mut load)?;
        if self.until_reload.is_none() {
            self.patience = 1;
        }
        self.directories.follow(moves)
    }

    /// Raises the version of a block.
    fn raise(&mut self, number: u64, load: &mut Load) {
        debug_assert!((number as usize) < self.raised.len(), "a copy without versions");
        let Some(version) = self.raised.get_mut(number as usize) else { return };
        *version = version.wrapping_add(1);
        let from = load.used / BLOCK * 4;
        let staging = self.version_staging.bytes_mut();
        if let Some(word) = staging.and_then(|bytes| bytes.get_mut(from as usize..from as usize + 4)) {
            word.copy_from_slice(&version.to_le_bytes());
        }
        push(&mut load.versions, from, number * 4, 4);
    }

    /// Finds a chunk's copy, or makes one where it is `needed` and the mirror has room.
    fn copy_of(&mut self, chunk: u64, needed: bool, outcome: &mut Result<()>) -> Option<(usize, u64)> {
        if let Some(copy) = self.chunks.get(&chunk) {
            return Some(*copy);
        }
        if !needed || chunk >= self.count || self.chunks.len() as u64 >= self.room || self.is_full {
            return None;
        }
        if self.taken == SLAB {
            match self.grow() {
                Ok(()) => {}
                // A chunk that does not fit is not resident. The want of memory may pass, so all blocks are
                // loaded again later.
                Err(error) if error.is_short_of_memory() => {
                    self.is_full = true;
                    self.until_reload.get_or_insert(self.patience);
                    return None;
                }
                Err(error) => {
                    *outcome = Err(error);
                    return None;
                }
            }
        }
        let copy = (self.slabs.len() - 1, self.taken);
        self.taken += 1;
        self.chunks.insert(chunk, copy);
        self.new_chunks.push(chunk);
        let address = self.slabs[copy.0].address + copy.1 * CHUNK;
        let (at, behind) = (chunk as usize * 8, (self.count * 8 + chunk * 4) as usize);
        if let Some(bytes) = self.table_staging.bytes_mut() {
            bytes[at..at + 8].copy_from_slice(&address.to_le_bytes());
            bytes[behind..behind + 4].copy_from_slice(&(number_of(copy) as u32).to_le_bytes());
        }
        Some(copy)
    }

    /// Allocates a slab, all ones.
    fn grow(&mut self) -> Result<()> {
        let slab = Buffer::new(&self.device, SLAB * CHUNK, MemoryLocation::Device)?;
        self.work.record(|commands| commands.fill(&slab, slab.len, u32::MAX))?;
        self.work.submit()?;
        self.work.wait()?;
        self.slabs.push(slab);
        self.taken = 0;
        Ok(())
    }

    /// Submits the copies of the staging buffers, and of the entries of new chunks in the table.
    fn send(&mut self, load: &mut Load) -> Result<()> {
        if load.used == 0 {
            return Ok(());
        }
        let entries = self.new_entries();
        let Mirror { slabs, table, table_staging, versions, staging, version_staging, work, .. } = self;
        let Load { parts, versions: raised, .. } = std::mem::take(load);
        work.record(|commands| {
            for (slab, parts) in &parts {
                commands.copy(staging, &slabs[*slab], parts);
            }
            commands.copy(version_staging, versions, &raised);
            if !entries.is_empty() {
                commands.copy(table_staging, table, &entries);
            }
        })?;
        work.submit()?;
        self.new_chunks.clear();
        Ok(())
    }

    /// Returns the parts of the table that have entries of new chunks.
    fn new_entries(&mut self) -> Vec<(u64, u64, u64)> {
        self.new_chunks.sort_unstable();
        let (mut addresses, mut numbers) = (Vec::new(), Vec::new());
        for chunk in &self.new_chunks {
            push(&mut addresses, chunk * 8, chunk * 8, 8);
            let number = self.count * 8 + chunk * 4;
            push(&mut numbers, number, number, 4);
        }
        addresses.append(&mut numbers);
        addresses
    }
}

/// Returns the number of a copy among all of them.
fn number_of((slab, chunk): (usize, u64)) -> u64 {
    slab as u64 * SLAB + chunk
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vulkan::Choice;
    use lanefs::{CreateOptions, Volume};

    #[test]
    fn a_mirror_that_missed_a_change_is_used_again_once_it_was_emptied() {
        let device = Device::open(&Choice::Best, true, false).expect("a Vulkan device");
        let options = CreateOptions { size: 16 << 20, ..CreateOptions::default() };
        let volume = Volume::create_memory(&options).expect("volume");
        let mut watch = volume.watch().expect("watch").expect("no other engine watches");
        let directories = DirectoryTable::new(&device, 0, 0).expect("no table");
        let mut mirror = Mirror::new(&device, 16 << 20, 16 << 20, directories).expect("mirror");
        mirror.refresh(|take| watch.changes(take)).expect("refreshed");
        mirror.is_stale = true;
        assert!(matches!(mirror.refresh(|take| watch.changes(take)), Err(Error::Device { .. })));
        let (leaves, versions) = (mirror.leaves.clone(), mirror.raised.clone());
        mirror.empty().expect("emptied");
        assert!(mirror.leaves.is_empty());
        watch.again();
        mirror.refresh(|take| watch.changes(take)).expect("refreshed");
        assert_eq!(mirror.leaves, leaves);
        let rises = |(new, old): (&u32, &u32)| new > old;
        assert!(mirror.raised.iter().zip(&versions).all(rises), "an old version came again");
    }
}
