//! The allocator under measurement: blocks that can be had and given back.
//!
//! The C library's names are called through pointers that the compiler cannot see through, so that it neither leaves
//! a pair of calls out nor puts another function in their place, and so that every allocator is called by the very same code.

use crate::{Error, Result};
use std::ffi::c_void;
use std::hint::black_box;
use std::ptr::NonNull;
use std::sync::OnceLock;
use std::sync::atomic::AtomicU8;

/// Largest block that any workload asks for, in bytes.
pub(super) const LARGEST: usize = 1039;

/// A block of the allocator. It is given back by [`Calls::put`] alone: what is left over ends with the process.
#[derive(Debug)]
pub(super) struct Block(NonNull<u8>);

// SAFETY: a block has one owner, and an allocator takes it back from any thread.
unsafe impl Send for Block {}

impl Block {
    /// Writes the first byte, as a program does that wants the block for something.
    #[inline(always)]
    pub(super) fn mark(&mut self, byte: u8) {
        // SAFETY: the block is this value's alone and has a byte at least: `get` is asked for no block of none. Those of
        // the empty allocator are all the same byte of a static, which one thread writes only.
        unsafe { self.0.as_ptr().write_volatile(byte) };
    }

    /// The block as a pointer, which now owns it.
    #[inline(always)]
    pub(super) fn into_raw(self) -> *mut u8 {
        self.0.as_ptr()
    }

    /// # Safety
    /// A pointer that is not null came from [`Block::into_raw`] and is made a block once only.
    #[inline(always)]
    pub(super) unsafe fn from_raw(pointer: *mut u8) -> Option<Block> {
        NonNull::new(pointer).map(Block)
    }
}

/// Which allocator a process calls, for all its life: a block must never go back to another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Callee {
    /// `malloc` and `free`, whoever has these names.
    Real,
    /// Two functions that do nothing: what a loop costs without an allocator.
    Empty,
}

/// A pair of functions.
#[derive(Clone, Copy)]
pub(super) struct Calls {
    malloc: unsafe extern "C" fn(usize) -> *mut c_void,
    free: unsafe extern "C" fn(*mut c_void),
}

impl Calls {
    /// The pair of this process.
    ///
    /// # Errors
    /// [`Error::Arguments`] where the process has another kind already.
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

    /// A block of `size` bytes, at least 1 and at most [`LARGEST`].
    #[inline(always)]
    pub(super) fn get(&self, size: usize) -> Block {
        debug_assert!((1..=LARGEST).contains(&size));
        // SAFETY: any size may be asked for.
        let block = unsafe { (self.malloc)(size) };
        NonNull::new(block.cast()).map_or_else(|| out_of_memory(), Block)
    }

    /// Gives a block back.
    #[inline(always)]
    pub(super) fn put(&self, block: Block) {
        // SAFETY: the block came from the allocator of this process, and its only owner gives it away.
        unsafe { (self.free)(block.0.as_ptr().cast()) };
    }
}

/// No memory: there is nothing to measure any more.
#[cold]
fn out_of_memory() -> ! {
    eprintln!("malloc gave no memory");
    std::process::exit(1)
}

/// What all blocks of the empty allocator are.
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
        // SAFETY: the pointer is a block's, and is made one once.
        let two = unsafe { Block::from_raw(two.into_raw()) };
        calls.put(two.unwrap());
        assert!(Calls::of_process(Callee::Empty).is_err());
    }
}
