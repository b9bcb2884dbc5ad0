//! Marks on blocks that changed while a watch is kept (see [`watch`](crate::inspection::watch)).

use crate::memory::arena::Arena;
use lanefs_format::BLOCKS_PER_CHUNK;
use lanefs_sync::point;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};

/// The marks of a volume, once a watch was kept.
#[derive(Default)]
pub(crate) struct Marks {
    is_kept: AtomicBool,
    arrays: OnceLock<Arrays>,
}

/// A byte for each block and one for each chunk.
struct Arrays {
    blocks: Arena,
    chunks: Arena,
}

impl Arrays {
    fn new(blocks: u64) -> std::io::Result<Self> {
        Ok(Arrays {
            blocks: Arena::reserve(blocks as usize)?,
            chunks: Arena::reserve((blocks / BLOCKS_PER_CHUNK) as usize + 1)?,
        })
    }
}

fn byte(array: &Arena, index: u64) -> Option<&AtomicU8> {
    ((index as usize) < array.capacity()).then(|| array.byte(index))
}

fn take(array: &Arena, index: u64) -> bool {
    let byte = byte(array, index).filter(|byte| byte.load(Ordering::Relaxed) != 0);
    byte.is_some_and(|byte| byte.swap(0, Ordering::SeqCst) != 0)
}

impl Marks {
    /// Begins to mark, with room for `blocks` blocks. Returns false where a watch is kept already.
    ///
    /// # Errors
    /// The host's error when it has no address space left.
    pub(crate) fn begin(&self, blocks: u64) -> std::io::Result<bool> {
        if self.is_kept.swap(true, Ordering::SeqCst) {
            return Ok(false);
        }
        if self.arrays.get().is_none() {
            let new = Arrays::new(blocks).inspect_err(|_| self.end())?;
            self.arrays.get_or_init(|| new);
        }
        Ok(true)
    }

    /// Ends marking.
    pub(crate) fn end(&self) {
        self.is_kept.store(false, Ordering::SeqCst);
    }

    /// Marks a block where a watch is kept. Without one this is a load and a comparison.
    #[inline(always)]
    pub(crate) fn mark(&self, index: u64) {
        if self.is_kept.load(Ordering::Relaxed) {
            self.set(index);
        }
    }

    /// Marks a block and its chunk.
    #[cold]
    pub(crate) fn set(&self, index: u64) {
        point();
        let Some(arrays) = self.arrays.get() else { return };
        for (array, index) in [(&arrays.blocks, index), (&arrays.chunks, index / BLOCKS_PER_CHUNK)] {
            if let Some(byte) = byte(array, index).filter(|byte| byte.load(Ordering::Relaxed) == 0) {
                byte.store(1, Ordering::Relaxed);
            }
        }
    }

    /// Removes the mark of a chunk, and returns whether there was one.
    pub(crate) fn take_chunk(&self, chunk: u64) -> bool {
        self.arrays.get().is_some_and(|arrays| take(&arrays.chunks, chunk))
    }

    /// Removes the mark of a block, and returns whether there was one.
    pub(crate) fn take_block(&self, index: u64) -> bool {
        self.arrays.get().is_some_and(|arrays| take(&arrays.blocks, index))
    }
}
