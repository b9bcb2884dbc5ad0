//! Blocks of metadata that nothing names yet: the tables of a volume that is made or grows. They may be more
//! than fit into memory, so they go to the device past the cache.

use crate::journal::AlignedBuffer;
use crate::memory::state::FIXED;
use crate::store::Store;
use crate::vocabulary::fault::{Fault, io_fault};
use lanefs_format::{BLOCK, BlockKind, Code};
use std::sync::atomic::Ordering;

impl Store {
    /// Writes `count` blocks of metadata from `at` on, which are free and whose kind has the common header.
    /// `fill` gets the number of each, from 0 on, and its bytes, which are zeros. Afterwards the blocks are
    /// absent, and the next commit makes them durable before anything of its own. The caller has closed the
    /// gate.
    ///
    /// # Errors
    /// Those of `fill`; [`Fault::Io`]; [`Fault::Damaged`] for blocks that are in use; `Unsupported` for a
    /// volume in memory, where no block is absent. Nothing that has a name has changed.
    pub fn write_unnamed(
        &self,
        at: u64,
        kind: BlockKind,
        count: u64,
        mut fill: impl FnMut(u64, &mut [u8]) -> Result<(), Fault>,
    ) -> Result<(), Fault> {
        debug_assert!(kind.has_header(), "{kind:?} has its checksum elsewhere");
        let device = self.device().ok_or(Fault::Code(Code::Unsupported))?;
        self.check_failure()?;
        let mut bytes = AlignedBuffer::zeroed((count * BLOCK) as usize);
        self.inside(at, bytes.len())?;
        for (number, block) in (0..).zip(bytes.chunks_exact_mut(BLOCK as usize)) {
            fill(number, block)?;
            let _ = self.sums.seal(kind, at + number * BLOCK, block, 0);
        }
        let first = at / BLOCK;
        if (first..first + count).any(|index| self.state_is(index, FIXED)) {
            return Err(Fault::damaged(at, "a block in use is marked free"));
        }
        // Nobody fetches them meanwhile.
        let written = self
            .fix(at, count)
            .and_then(|()| device.write_slice(at, &bytes).map_err(|error| io_fault(at, "writing", &error)));
        self.release_fixed(at, count);
        self.commits.wrote_data.store(true, Ordering::SeqCst);
        written
    }
}
