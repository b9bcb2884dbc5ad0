//! Raw buffers: memory that a device reads or fills, as an address and a length, like the kernel's `iovec`.
//!
//! No reference stands for this memory, because it may be a block's frame, which other threads access at the
//! same time. A device passes the address to the kernel, or copies with the methods here.

use crate::vocabulary::words;
use std::fmt;
use std::marker::PhantomData;
use std::ops::{Bound, RangeBounds};
use std::ptr::NonNull;

/// Address and length of memory, and how it may be accessed.
#[derive(Clone, Copy)]
struct RawMemory {
    address: NonNull<u8>,
    len: usize,
    /// True for frames, which are accessed by words (see [`words`]). Other memory is borrowed from a slice:
    /// plain copies are sound, and the words at its ends may belong to other values.
    is_shared: bool,
}

impl RawMemory {
    /// Returns a part.
    ///
    /// # Panics
    /// Where the range is not inside, as for a slice.
    fn part(self, range: impl RangeBounds<usize>) -> Self {
        let start = match range.start_bound() {
            Bound::Included(start) => *start,
            Bound::Excluded(before) => before + 1,
            Bound::Unbounded => 0,
        };
        let end = match range.end_bound() {
            Bound::Included(last) => last + 1,
            Bound::Excluded(end) => *end,
            Bound::Unbounded => self.len,
        };
        assert!(start <= end && end <= self.len, "range {start}..{end} of {} bytes", self.len);
        // SAFETY: `start` is not above the length, so the address is inside the same memory, or at its end.
        let address = unsafe { self.address.add(start) };
        RawMemory { address, len: end - start, ..self }
    }

    fn copy_to(self, out: &mut [u8]) {
        assert_eq!(self.len, out.len(), "lengths of a copy");
        if self.is_shared {
            // SAFETY: `from_shared` was promised that these are words of shared memory; `out` is borrowed
            // exclusively.
            unsafe { words::copy_out(self.address.as_ptr(), out.as_mut_ptr(), self.len) }
        } else {
            // SAFETY: borrowed from a slice for as long as this value lives; `out` is borrowed exclusively,
            // so the two do not overlap.
            unsafe { std::ptr::copy_nonoverlapping(self.address.as_ptr(), out.as_mut_ptr(), self.len) }
        }
    }

    /// # Safety
    /// The memory is a target's.
    unsafe fn copy_from(self, data: &[u8]) {
        assert_eq!(self.len, data.len(), "lengths of a copy");
        if self.is_shared {
            // SAFETY: `from_shared` was promised that these are words of shared memory that no other thread
            // writes.
            unsafe { words::copy_in(data.as_ptr(), self.address.as_ptr(), self.len) }
        } else {
            // SAFETY: borrowed exclusively from a slice for as long as this value lives, so the two do not
            // overlap.
            unsafe { std::ptr::copy_nonoverlapping(data.as_ptr(), self.address.as_ptr(), self.len) }
        }
    }
}

/// Bytes that a device writes.
#[derive(Clone, Copy)]
pub struct IoBuf<'m> {
    memory: RawMemory,
    borrow: PhantomData<&'m [u8]>,
}

// SAFETY: as a `&[u8]`, or memory that all threads access by words.
unsafe impl Send for IoBuf<'_> {}
// SAFETY: as above.
unsafe impl Sync for IoBuf<'_> {}

impl<'m> IoBuf<'m> {
    /// Wraps the bytes of a slice.
    pub fn new(bytes: &'m [u8]) -> Self {
        let memory = RawMemory { address: NonNull::from(bytes).cast(), len: bytes.len(), is_shared: false };
        IoBuf { memory, borrow: PhantomData }
    }

    /// Wraps bytes of shared memory, which other threads may change meanwhile.
    ///
    /// # Safety
    /// All words that the bytes belong to are shared memory as [`words`] says, and stay valid during `'m`.
    pub(crate) unsafe fn from_shared(address: NonNull<u8>, len: usize) -> Self {
        IoBuf { memory: RawMemory { address, len, is_shared: true }, borrow: PhantomData }
    }

    /// Returns the length in bytes.
    pub fn len(&self) -> usize {
        self.memory.len
    }

    /// Returns true for no bytes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the address for the kernel, valid for reads of [`len`](Self::len) bytes during `'m`. Other
    /// threads may write there meanwhile.
    pub fn as_ptr(&self) -> *const u8 {
        self.memory.address.as_ptr()
    }

    /// Returns the address as a number.
    pub(super) fn address(&self) -> usize {
        self.as_ptr().addr()
    }

    /// Returns a part.
    ///
    /// # Panics
    /// Where the range is not inside, as for a slice.
    #[must_use]
    pub fn part(&self, range: impl RangeBounds<usize>) -> IoBuf<'m> {
        IoBuf { memory: self.memory.part(range), ..*self }
    }

    /// Copies all bytes.
    ///
    /// # Panics
    /// Where the lengths differ, as [`slice::copy_from_slice`].
    pub fn copy_to(&self, out: &mut [u8]) {
        self.memory.copy_to(out);
    }

    /// Returns a copy of all bytes.
    pub fn to_vec(&self) -> Vec<u8> {
        let mut bytes = vec![0; self.len()];
        self.copy_to(&mut bytes);
        bytes
    }
}

impl<'m> From<&'m [u8]> for IoBuf<'m> {
    fn from(bytes: &'m [u8]) -> Self {
        IoBuf::new(bytes)
    }
}

impl fmt::Debug for IoBuf<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "IoBuf({} bytes at {:p})", self.len(), self.as_ptr())
    }
}

/// Memory that a device fills.
pub struct IoBufMut<'m> {
    memory: RawMemory,
    borrow: PhantomData<&'m mut [u8]>,
}

// SAFETY: as a `&mut [u8]`, or memory that all threads access by words and that only the owner of this value
// writes.
unsafe impl Send for IoBufMut<'_> {}
// SAFETY: as above; a shared reference gives reads only.
unsafe impl Sync for IoBufMut<'_> {}

impl<'m> IoBufMut<'m> {
    /// Wraps the memory of a slice.
    pub fn new(bytes: &'m mut [u8]) -> Self {
        let len = bytes.len();
        let memory = RawMemory { address: NonNull::from(bytes).cast(), len, is_shared: false };
        IoBufMut { memory, borrow: PhantomData }
    }

    /// Wraps shared memory, which other threads may read meanwhile.
    ///
    /// # Safety
    /// All words that the bytes belong to are shared memory as [`words`] says, and stay valid during `'m`; no
    /// other thread writes them as long.
    pub(crate) unsafe fn from_shared(address: NonNull<u8>, len: usize) -> Self {
        IoBufMut { memory: RawMemory { address, len, is_shared: true }, borrow: PhantomData }
    }

    /// Returns the length in bytes.
    pub fn len(&self) -> usize {
        self.memory.len
    }

    /// Returns true for no memory.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the address for the kernel, valid for writes of [`len`](Self::len) bytes during `'m`. Other
    /// threads may read there meanwhile.
    pub fn as_mut_ptr(&mut self) -> *mut u8 {
        self.memory.address.as_ptr()
    }

    /// Returns the address as a number.
    pub(super) fn address(&self) -> usize {
        self.memory.address.as_ptr().addr()
    }

    /// Returns the same memory, for as long as this value is borrowed.
    pub fn reborrow(&mut self) -> IoBufMut<'_> {
        IoBufMut { memory: self.memory, borrow: PhantomData }
    }

    /// Returns a part, for as long as this value is borrowed.
    ///
    /// # Panics
    /// Where the range is not inside, as for a slice.
    #[must_use]
    pub fn part(&mut self, range: impl RangeBounds<usize>) -> IoBufMut<'_> {
        IoBufMut { memory: self.memory.part(range), borrow: PhantomData }
    }

    /// Fills all of it.
    ///
    /// # Panics
    /// Where the lengths differ, as [`slice::copy_from_slice`].
    pub fn copy_from(&mut self, data: &[u8]) {
        // SAFETY: this is a target.
        unsafe { self.memory.copy_from(data) }
    }

    /// Copies the present bytes.
    ///
    /// # Panics
    /// Where the lengths differ, as [`slice::copy_from_slice`].
    pub fn copy_to(&self, out: &mut [u8]) {
        self.memory.copy_to(out);
    }

    /// Fills all of it with one byte.
    pub fn fill(&mut self, byte: u8) {
        let bytes = [byte; 512];
        let mut done = 0;
        while done < self.len() {
            let count = bytes.len().min(self.len() - done);
            self.part(done..done + count).copy_from(&bytes[..count]);
            done += count;
        }
    }
}

impl<'m> From<&'m mut [u8]> for IoBufMut<'m> {
    fn from(bytes: &'m mut [u8]) -> Self {
        IoBufMut::new(bytes)
    }
}

impl fmt::Debug for IoBufMut<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "IoBufMut({} bytes at {:#x})", self.len(), self.address())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_private_memory_are_copied_like_slices() {
        let mut bytes = *b"0123456789";
        let mut target = IoBufMut::new(&mut bytes);
        target.part(1..3).copy_from(b"ab");
        target.part(8..).fill(b'z');
        let mut two = [0; 2];
        target.part(..=1).copy_to(&mut two);
        assert_eq!(&two, b"0a");
        let source = IoBuf::new(&bytes);
        assert_eq!(source.part(2..).to_vec(), b"b34567zz");
        assert!(source.part(10..).is_empty() && source.part(3..3).is_empty());
    }

    #[test]
    #[should_panic(expected = "range 3..11 of 10 bytes")]
    fn a_part_beyond_the_end_panics() {
        let _ = IoBuf::new(&[0; 10]).part(3..11);
    }

    #[test]
    #[should_panic(expected = "lengths of a copy")]
    fn a_copy_of_another_length_panics() {
        IoBufMut::new(&mut [0; 10]).copy_from(&[0; 11]);
    }

    #[test]
    fn parts_of_shared_memory_leave_the_rest_of_their_words() {
        let mut memory = [u64::from_ne_bytes([1; 8]); 100];
        let base = NonNull::from(&mut memory).cast::<u8>();
        // SAFETY: this thread alone has the memory, which is whole words.
        let mut target = unsafe { IoBufMut::from_shared(base, 800) };
        target.part(3..13).copy_from(&[2; 10]);
        target.part(101..790).fill(3);
        // SAFETY: as above.
        let all = unsafe { IoBuf::from_shared(base, 800) }.to_vec();
        let count = |byte: u8| all.iter().filter(|b| **b == byte).count();
        assert_eq!((count(1), count(2), count(3)), (101, 10, 689));
        assert_eq!((all[2], all[3], all[12], all[13], all[789], all[790]), (1, 2, 2, 1, 3, 1));
    }
}
