//! Which metadata blocks are no longer as somebody outside has them: a mirror in another memory.
//!
//! While a watch is kept, every change of a block, and every block that comes or goes, leaves a mark for the block and one for its
//! chunk. Who keeps the watch collects them with the gate closed. Without one, a change costs a look at one word.

use crate::Store;
use crate::arena::Arena;
use crate::state;
use lanefs_format::{BLOCK, BLOCKS_PER_CHUNK, BlockKind, CHUNK};
use lanefs_sync::point;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};

#[derive(Default)]
pub(crate) struct Watch {
    is_kept: AtomicBool,
    marks: OnceLock<Marks>,
}

/// A byte for each block and one for each chunk.
struct Marks {
    blocks: Arena,
    chunks: Arena,
}

impl Marks {
    fn byte(marks: &Arena, index: u64) -> Option<&AtomicU8> {
        ((index as usize) < marks.capacity()).then(|| marks.byte(index))
    }

    fn set(&self, index: u64) {
        for (marks, index) in [(&self.blocks, index), (&self.chunks, index / BLOCKS_PER_CHUNK)] {
            if let Some(byte) = Self::byte(marks, index).filter(|byte| byte.load(Ordering::Relaxed) == 0) {
                byte.store(1, Ordering::Relaxed);
            }
        }
    }
}

/// A metadata block, for who keeps the watch.
#[derive(Clone, Copy, Debug)]
pub struct Watched<'s> {
    /// Its position.
    pub at: u64,
    /// What it is now; `None` where it is not in memory, or no metadata.
    pub kind: Option<BlockKind>,
    /// Its bytes, where it is something.
    pub bytes: &'s [u8; BLOCK as usize],
}

impl Store {
    /// Begins a watch, of which there is one at a time: false where there is one already. At first all blocks in memory count as
    /// changed. The caller has closed the gate.
    ///
    /// # Errors
    /// The host's, without address space.
    pub fn keep_watch(&self) -> std::io::Result<bool> {
        if self.watch.is_kept.swap(true, Ordering::SeqCst) {
            return Ok(false);
        }
        let blocks = self.room() / BLOCK;
        let marks = match self.watch.marks.get() {
            Some(marks) => marks,
            None => {
                let new = Arena::reserve(blocks as usize).and_then(|blocks| {
                    Ok(Marks {
                        chunks: Arena::reserve(blocks.capacity() / BLOCKS_PER_CHUNK as usize + 1)?,
                        blocks,
                    })
                });
                let new = new.inspect_err(|_| self.watch.is_kept.store(false, Ordering::SeqCst))?;
                self.watch.marks.get_or_init(|| new)
            }
        };
        for index in 0..self.bytes() / BLOCK {
            if state::kind(self.state(index)).is_some() {
                marks.set(index);
            }
        }
        Ok(true)
    }

    /// Ends the watch.
    pub fn end_watch(&self) {
        self.watch.is_kept.store(false, Ordering::SeqCst);
    }

    /// The block is no longer what it was.
    #[inline(always)]
    pub(crate) fn note_for_watch(&self, index: u64) {
        if self.watch.is_kept.load(Ordering::Relaxed) {
            self.note_it(index);
        }
    }

    #[cold]
    fn note_it(&self, index: u64) {
        point();
        if let Some(marks) = self.watch.marks.get() {
            marks.set(index);
        }
    }

    /// Gives every block that changed since the last call, in order. The caller keeps the watch and has closed the gate.
    pub fn watched(&self, take: &mut dyn FnMut(Watched<'_>)) {
        let Some(marks) = self.watch.marks.get() else { return };
        let mut bytes = [0; BLOCK as usize];
        let take_mark = |marks: &Arena, index: u64| {
            let byte = Marks::byte(marks, index).filter(|byte| byte.load(Ordering::Relaxed) != 0);
            byte.is_some_and(|byte| byte.swap(0, Ordering::SeqCst) != 0)
        };
        let end = self.bytes() / BLOCK;
        for chunk in 0..self.bytes().div_ceil(CHUNK) {
            if !take_mark(&marks.chunks, chunk) {
                continue;
            }
            for index in chunk * BLOCKS_PER_CHUNK..((chunk + 1) * BLOCKS_PER_CHUNK).min(end) {
                if take_mark(&marks.blocks, index) {
                    let kind = state::kind(self.state(index));
                    if kind.is_some() {
                        self.view(index * BLOCK).copy_to(0, &mut bytes);
                    }
                    // It may have left while it was copied; then it is marked anew.
                    let kind = kind.filter(|kind| state::kind(self.state(index)) == Some(*kind));
                    take(Watched { at: index * BLOCK, kind, bytes: &bytes });
                }
            }
        }
    }
}
