//! The allocator under measurement: allocates and frees blocks.
//!
//! Calls go to the C library's names through pointers that the compiler cannot see through. So it neither
//! removes a pair of calls nor substitutes another function, and the very same code calls every allocator.

use crate::error::{Error, Result};
use std::ffi::c_void;
use std::hint::black_box;
use std::ptr::NonNull;
use std::sync::OnceLock;
use std::sync::atomic::AtomicU8;

/// Size of the largest block of any workload, in bytes.
pub(super) const LARGEST_BYTES: usize = 1039;

/// A block of the allocator. Only [`Calls::put`] frees it: blocks that remain end with the process.
#[derive(Debug)]
pub(super) struct Block(NonNull<u8>);

// SAFETY: a block has one owner, and an allocator takes it back from any thread.
unsafe impl Send for Block {}

impl Block {
    /// Writes the first byte, as a program that uses the block does.
    #[inline(always)]
    pub(super) fn mark(&mut self, byte: u8) {
        // SAFETY: this value owns the block, and the block has at least one byte, because `get` is never
        // called for size 0. The blocks of the empty allocator are all the same byte of a static, which only
        // one thread writes.
        unsafe { self.0.as_ptr().write_volatile(byte) };
    }

    /// Converts the block to a pointer, which now owns it.
    #[inline(always)]
    pub(super) fn into_raw(self) -> *mut u8 {
        self.0.as_ptr()
    }

    /// # Safety
    /// A pointer that is not null came from [`Block::into_raw`] and is converted back only once.
    #[inline(always)]
    pub(super) unsafe fn from_raw(pointer: *mut u8) -> Option<Block> {
        NonNull::new(pointer).map(Block)
    }
}

/// Functions that a process calls for its whole life: no block must ever go back to another allocator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Callee {
    /// `malloc` and `free` of the loaded library.
    Real,
    /// Two functions that do nothing, to measure the cost of a loop alone.
    Empty,
}

/// A pair of functions that allocates and frees.
#[derive(Clone, Copy)]
pub(super) struct Calls {
    malloc: unsafe extern "C" fn(usize) -> *mut c_void,
    free: unsafe extern "C" fn(*mut c_void),
}

impl Calls {
    /// Returns the pair of this process.
    ///
    /// # Errors
    /// [`Error::Arguments`] if the process has the other pair already.
    pub(super) fn of_process(kind: Callee) -> Result<Calls> {
        static CHOSEN: OnceLock<Callee> = OnceLock::new();
        if *CHOSEN.get_or_init(|| kind) != kind {
            return Err(Error::Arguments("a process measures one allocator".into()));
        }
        let calls = match kind {
            Callee::Real => Calls { malloc: libc::malloc, free: libc::free },
            Callee::Empty => Calls { malloc: nothing, free: forget },
        };
        Ok(black_box(calls))
    }

    /// Allocates a block of `size` bytes, from 1 to [`LARGEST_BYTES`].
    #[inline(always)]
    pub(super) fn get(&self, size: usize) -> Block {
        debug_assert!((1..=LARGEST_BYTES).contains(&size));
        // SAFETY: `malloc` accepts any size.
        let block = unsafe { (self.malloc)(size) };
        NonNull::new(block.cast()).map_or_else(|| out_of_memory(), Block)
    }

    /// Frees a block.
    #[inline(always)]
    pub(super) fn put(&self, block: Block) {
        // SAFETY: the block came from the allocator of this process, and its only owner frees it here.
        unsafe { (self.free)(block.0.as_ptr().cast()) };
    }
}

/// Ends the process, which has no memory left to measure with.
#[cold]
fn out_of_memory() -> ! {
    eprintln!("malloc gave no memory");
    std::process::exit(1)
}

/// The one block of the empty allocator.
static ROOM: AtomicU8 = AtomicU8::new(0);

extern "C" fn nothing(_size: usize) -> *mut c_void {
    ROOM.as_ptr().cast()
}

extern "C" fn forget(_block: *mut c_void) {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_measures_one_allocator() {
        let calls = Calls::of_process(Callee::Real).unwrap();
        let (mut one, two) = (calls.get(64), calls.get(64));
        assert_ne!(one.0, two.0);
        one.mark(1);
        calls.put(one);
        // SAFETY: the pointer came from a block and is converted back once.
        let two = unsafe { Block::from_raw(two.into_raw()) };
        calls.put(two.unwrap());
        assert!(Calls::of_process(Callee::Empty).is_err());
    }
}
