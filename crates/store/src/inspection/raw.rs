//! Raw access: whole volumes, superblocks, single blocks for inspection.

use crate::device::IoBufMut;
use crate::journal::AlignedBuffer;
use crate::memory::state;
use crate::store::Store;
use crate::vocabulary::fault::{Fault, io_fault};
use crate::writing::seal::Sealer;
use lanefs_format::{BLOCK, BlockKind, Code};
use std::collections::BTreeSet;
use zerocopy::FromZeros;

/// Bytes that are read from a device at a time where all of it is copied.
const COPY_BYTES: usize = 256 << 10;

/// Copies blocks into memory that is zero, and writes only the blocks that have another byte.
fn copy_nonzero(blocks: &[u8], out: &mut [u8]) {
    const ZEROS: &[u8] = &[0; BLOCK as usize];
    for (block, out) in blocks.chunks(BLOCK as usize).zip(out.chunks_mut(BLOCK as usize)) {
        if block != &ZEROS[..block.len()] {
            out.copy_from_slice(block);
        }
    }
}

impl Store {
    /// Returns all bytes of the volume with right checksums. The caller has committed, emptied the journal,
    /// and closed the gate.
    ///
    /// # Errors
    /// [`Fault::Io`]; `NoMemory` where the host has no room for so many bytes.
    pub fn image(&self) -> Result<Vec<u8>, Fault> {
        // The system gives memory as it is written to: blocks of zeros, most of a new volume, take none.
        let mut bytes = usize::try_from(self.bytes())
            .ok()
            .and_then(|len| u8::new_vec_zeroed(len).ok())
            .ok_or(Fault::Code(Code::NoMemory))?;
        if let Some(device) = self.device() {
            let mut piece = AlignedBuffer::zeroed(COPY_BYTES);
            for (at, out) in (0..).step_by(COPY_BYTES).zip(bytes.chunks_mut(COPY_BYTES)) {
                let piece = &mut piece[..out.len()];
                device.read_slice(at, piece).map_err(|e| io_fault(at, "reading", &e))?;
                copy_nonzero(piece, out);
            }
            return Ok(bytes);
        }
        let mut all: BTreeSet<u64> =
            (0..self.bytes() / BLOCK).filter(|index| state::kind(self.state(*index)).is_some()).collect();
        Sealer::new(self).seal_tables(&mut all)?;
        let mut block = [0; BLOCK as usize];
        for (at, out) in (0..).step_by(BLOCK as usize).zip(bytes.chunks_exact_mut(BLOCK as usize)) {
            Sealer::new(self).copy(at, &mut block);
            copy_nonzero(&block, out);
        }
        Ok(bytes)
    }

    /// Writes a block that is never resident (the superblock) and makes it durable.
    ///
    /// # Errors
    /// [`Fault::Io`], [`Fault::Damaged`] for a position outside the volume.
    pub fn write_raw(&self, at: u64, block: &[u8]) -> Result<(), Fault> {
        let Some(device) = self.device() else {
            self.inside(at, block.len())?;
            self.find_frame(at / BLOCK)?;
            self.fill(at, block);
            return Ok(());
        };
        let mut aligned = AlignedBuffer::zeroed(block.len());
        aligned.copy_from_slice(block);
        device.write_slice(at, &aligned).map_err(|e| io_fault(at, "writing", &e))?;
        device.flush().map_err(|e| io_fault(at, "flushing", &e))
    }

    /// Reads bytes of a closed volume as they lie on its device, without verification and past the cache.
    ///
    /// # Errors
    /// [`Fault::Io`]; [`Fault::Damaged`] for positions outside the volume; `Unsupported` for a volume in
    /// memory, which has no device.
    pub fn read_image(&self, at: u64, out: &mut [u8]) -> Result<(), Fault> {
        self.inside(at, out.len())?;
        let device = self.device().ok_or(Fault::Code(Code::Unsupported))?;
        device.read_slice(at, out).map_err(|e| io_fault(at, "reading", &e))
    }

    /// Copies a block of metadata and verifies it; false where it does not verify. An absent block stays
    /// absent and takes no memory, unlike one that is fetched: for blocks that are read once, and for
    /// positions at which there may be none. The caller has closed the gate, or locks the block's writers out
    /// in another way. `kind` has its checksum in the block itself, as the first block of a chunk table has.
    ///
    /// # Errors
    /// [`Fault::Io`], or [`Fault::Damaged`] for a position outside the volume.
    pub fn examine(&self, at: u64, kind: BlockKind, out: &mut [u8; BLOCK as usize]) -> Result<bool, Fault> {
        self.inside(at, out.len())?;
        let content = state::content(self.state(at / BLOCK));
        if content == Some(kind as u8) {
            self.view(at).copy_to(0, out);
            return Ok(true);
        }
        let Some(device) = self.device().filter(|_| content.is_none_or(|content| content == state::DATA))
        else {
            return Ok(false);
        };
        if !self.commits.copy_committed(at, &mut IoBufMut::new(out)) {
            device.read_slice(at, out).map_err(|e| io_fault(at, "reading", &e))?;
        }
        Ok(match kind {
            BlockKind::ChunkHeader => self.is_table(at, out),
            _ => self.sums.verify(kind, at, out, self.inode_size().bytes() as usize, &[]),
        })
    }

    /// Reads metadata blocks in a row without verification and past the cache, from the journal or the
    /// device: for hints. Blocks that are resident may have changed since.
    ///
    /// # Errors
    /// [`Fault::Io`]; [`Fault::Damaged`] for positions outside the volume; `Unsupported` for a volume in
    /// memory, where all blocks are resident.
    pub fn read_hints(&self, at: u64, out: &mut [u8]) -> Result<(), Fault> {
        self.read_image(at, out)?;
        for (at, block) in (at..).step_by(BLOCK as usize).zip(out.chunks_exact_mut(BLOCK as usize)) {
            self.commits.copy_committed(at, &mut IoBufMut::new(block));
        }
        Ok(())
    }

    /// Copies a metadata block without verification: from memory, else from the journal, else from the
    /// device.
    ///
    /// # Errors
    /// [`Fault::Io`], or [`Fault::Damaged`] for a position outside the volume.
    pub fn read_raw(&self, at: u64, out: &mut [u8; BLOCK as usize]) -> Result<(), Fault> {
        self.inside(at, out.len())?;
        match self.device() {
            Some(device) if state::content(self.state(at / BLOCK)).is_none() => {
                if self.commits.copy_committed(at, &mut IoBufMut::new(out)) {
                    return Ok(());
                }
                device.read_slice(at, out).map_err(|e| io_fault(at, "reading", &e))
            }
            _ => {
                self.view(at).copy_to(0, out);
                Ok(())
            }
        }
    }
}
