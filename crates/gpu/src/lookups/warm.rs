//! Filling the directory cache with all entries.

use super::mirrored::Mirrored;
use super::pending::MAX_PATHS;
use crate::error::Result;
use crate::resident::tables::{MirrorTables, PARAMETERS_BYTES};
use crate::shared::query::LookupQuery;
use crate::shared::structures::Parameters;
use crate::vulkan::{Buffer, Commands, MemoryLocation};
use lanefs::ResolveOptions;
use lanefs::format::BLOCK;

/// Blocks of a volume that one dispatch visits: few enough that a slow device is done within some 50 ms. A
/// desktop's watchdog resets a device that works for seconds.
const BLOCKS: u64 = 1 << 18;

// The kernel counts them in 32 bits.
const _: () = assert!(BLOCKS <= u32::MAX as u64);

impl Mirrored<'_> {
    /// Fills the directory cache with all entries, as far as they fit.
    ///
    /// # Errors
    /// An error of the device.
    pub fn warm(&self) -> Result<()> {
        if self.cache().buckets().1 == 0 {
            return Ok(());
        }
        self.with_mirror(|mirror| {
            let device = self.device();
            let mut parameter_buffer = Buffer::new(device, PARAMETERS_BYTES, MemoryLocation::Upload)?;
            let mut work = Commands::new(device)?;
            let blocks = self.volume().superblock().volume_bytes / BLOCK;
            for from in (0..blocks).step_by(BLOCKS as usize) {
                let query = LookupQuery { base: from * BLOCK, ..self.query(&ResolveOptions::default()) };
                let count = (blocks - from).min(BLOCKS) as u32;
                let parameters =
                    Parameters { count, ..MirrorTables::of(mirror).parameters(&query, self.cache()) };
                work.wait()?;
                parameters.write(parameter_buffer.bytes_mut().unwrap_or(&mut []));
                work.record(|commands| {
                    commands.dispatch(&self.kernels().warm, parameter_buffer.address, count.into());
                })?;
                work.submit()?;
            }
            work.wait()
        })
    }

    /// Tells whether to [`warm`](Self::warm) before the first batch, of so many paths. The notes of a
    /// submission are in the cache for the next one, so only the paths of the first one gain. Measured on
    /// llvmpipe, warming costs 3.7 µs an entry and a path of five components gains 1.4 µs: it pays from
    /// some three paths for each entry of the volume on.
    pub fn is_worth_warming(&self, paths: usize) -> bool {
        const PATHS_FOR_EACH: u64 = 3;
        let first = paths.min(MAX_PATHS) as u64;
        self.volume().statfs().is_ok_and(|volume| first >= PATHS_FOR_EACH.saturating_mul(volume.inodes))
    }
}
