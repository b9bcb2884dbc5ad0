//! Words of a resident block.

use super::versions::Grain;
use crate::vocabulary::words::{self, WORD};
use lanefs_format::{Field, Word};
use lanefs_sync::point;
use std::marker::PhantomData;
use std::ptr::NonNull;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

/// Most bytes that are copied between two points of a schedule test.
const COPIED_AT_ONCE_BYTES: usize = if cfg!(feature = "_shuttle") { 1024 } else { usize::MAX };

/// A structure inside a resident block: a block, an inode, an entry.
///
/// All accesses are atomic, relaxed, and by whole words of eight bytes (see the module `words`), so that
/// a reader without a lock sees old or new words and never undefined behaviour. A field of fewer bytes is a
/// part of its word; one writer at a time changes a word. Offsets past the end read as zero and write
/// nothing: a caller that takes an index from a volume's bytes checks it first.
#[derive(Clone, Copy)]
pub struct View<'a> {
    base: NonNull<u8>,
    at: u64,
    len: u32,
    /// The bytes that share an ownership record.
    grain: Grain,
    _store: PhantomData<&'a ()>,
}

impl<'a> View<'a> {
    /// # Safety
    /// `base` is the address of volume byte `at`, aligned to 8 at least, and valid for `len` bytes during
    /// `'a`.
    #[inline(always)]
    pub(crate) unsafe fn new(base: NonNull<u8>, at: u64, len: u32, grain: Grain) -> Self {
        View { base, at, len, grain, _store: PhantomData }
    }

    #[inline(always)]
    pub(crate) fn grain(&self) -> Grain {
        self.grain
    }

    /// Returns the same structure with another length, which the caller has checked to end in the same block.
    #[inline(always)]
    pub(crate) fn with_len(self, len: usize) -> Self {
        View { len: len as u32, ..self }
    }

    /// Returns the byte position in the volume.
    #[inline(always)]
    pub fn at(&self) -> u64 {
        self.at
    }

    /// Returns the length in bytes.
    #[inline(always)]
    #[allow(clippy::len_without_is_empty)]
    pub fn len(&self) -> usize {
        self.len as usize
    }

    /// Returns the part from `offset` (a multiple of 8) on, `len` bytes long; `None` where it is not inside.
    #[inline(always)]
    pub fn part(&self, offset: usize, len: usize) -> Option<View<'a>> {
        if offset.checked_add(len)? > self.len() || !offset.is_multiple_of(8) {
            return None;
        }
        // SAFETY: the part lies inside this view and keeps its alignment.
        Some(unsafe { View::new(self.base.add(offset), self.at + offset as u64, len as u32, self.grain) })
    }

    /// Reads a field.
    #[inline(always)]
    pub fn get<T: Word>(&self, field: Field<T>) -> T {
        T::from_bits(self.load(field.offset, T::BYTES))
    }

    #[inline(always)]
    pub(crate) fn load(&self, offset: usize, bytes: usize) -> u64 {
        if offset + bytes > self.len() {
            return 0;
        }
        point();
        self.load_inside(offset, bytes)
    }

    /// Returns the word that contains the byte at `offset`, which is inside.
    #[inline(always)]
    fn word(&self, offset: usize) -> &'a AtomicU64 {
        debug_assert!(offset < self.len());
        // SAFETY: a view begins at a multiple of 8 and lies in a block, so the whole word does. All accesses
        // to blocks are atomic and by words.
        unsafe { AtomicU64::from_ptr(self.base.as_ptr().add(offset & !(WORD - 1)).cast()) }
    }

    /// Loads a field of 1, 2, 4 or 8 bytes. The caller has checked that it ends inside.
    #[inline(always)]
    fn load_inside(&self, offset: usize, bytes: usize) -> u64 {
        debug_assert!(offset + bytes <= self.len() && offset.is_multiple_of(bytes));
        let word = u64::from_le(self.word(offset).load(Relaxed));
        let field = word >> (offset % WORD * 8);
        match bytes {
            1 => u64::from(field as u8),
            2 => u64::from(field as u16),
            4 => u64::from(field as u32),
            _ => field,
        }
    }

    /// Writes a field of 1, 2, 4 or 8 bytes. No other thread writes its word meanwhile: the caller has locked
    /// the ownership record, or owns the block.
    #[inline(always)]
    pub(crate) fn store(&self, offset: usize, bytes: usize, bits: u64) {
        if offset + bytes > self.len() {
            return;
        }
        debug_assert!(offset.is_multiple_of(bytes));
        point();
        let word = self.word(offset);
        let value = if bytes == WORD {
            bits
        } else {
            let shift = offset % WORD * 8;
            let mask = ((1 << (8 * bytes)) - 1) << shift;
            u64::from_le(word.load(Relaxed)) & !mask | bits << shift & mask
        };
        word.store(value.to_le(), Relaxed);
    }

    /// Writes fewer than eight bytes at `offset`, a multiple of 8, as [`store`](Self::store).
    #[inline(always)]
    pub(crate) fn store_tail(&self, offset: usize, bytes: &[u8]) {
        debug_assert!(offset.is_multiple_of(WORD) && bytes.len() < WORD);
        if bytes.is_empty() || offset + bytes.len() > self.len() {
            return;
        }
        point();
        let word = self.word(offset);
        let mut value = word.load(Relaxed).to_ne_bytes();
        value[..bytes.len()].copy_from_slice(bytes);
        word.store(u64::from_ne_bytes(value), Relaxed);
    }

    /// Writes a field of four bytes, also while other threads write the other half of its word.
    pub(crate) fn store_shared(&self, field: Field<u32>, value: u32) {
        if field.offset + 4 > self.len() {
            return;
        }
        let shift = field.offset % WORD * 8;
        let word = self.word(field.offset);
        point();
        let change = |old: u64| {
            let bits = u64::from_le(old) & !(u64::from(u32::MAX) << shift) | u64::from(value) << shift;
            Some(bits.to_le())
        };
        let _ = word.fetch_update(Relaxed, Relaxed, change);
    }

    /// Makes a field at least `value`, also while other threads do so.
    #[inline(always)]
    pub(crate) fn raise(&self, field: Field<i64>, value: i64) {
        if field.offset + 8 > self.len() {
            return;
        }
        debug_assert!(field.offset.is_multiple_of(WORD));
        let word = self.word(field.offset);
        point();
        let mut old = word.load(Relaxed);
        while (u64::from_le(old) as i64) < value {
            match word.compare_exchange_weak(old, (value as u64).to_le(), Relaxed, Relaxed) {
                Ok(_) => return,
                Err(now) => old = now,
            }
        }
    }

    /// Compares `expected` with the bytes from `offset` on. `offset` must be a multiple of 8; eight bytes at
    /// a time.
    #[inline(always)]
    pub fn equals(&self, offset: usize, expected: &[u8]) -> bool {
        if !offset.is_multiple_of(8) || offset + expected.len().next_multiple_of(8) > self.len() {
            return self.equals_slowly(offset, expected);
        }
        let mut at = offset;
        let (eights, rest) = expected.as_chunks::<8>();
        for eight in eights {
            if self.load(at, 8) != u64::from_le_bytes(*eight) {
                return false;
            }
            at += 8;
        }
        if rest.is_empty() {
            return true;
        }
        let mut last = [0u8; 8];
        last[..rest.len()].copy_from_slice(rest);
        let mask = u64::MAX >> (64 - 8 * rest.len());
        self.load(at, 8) & mask == u64::from_le_bytes(last)
    }

    #[cold]
    fn equals_slowly(&self, offset: usize, expected: &[u8]) -> bool {
        offset + expected.len() <= self.len()
            && expected.iter().enumerate().all(|(i, b)| self.load(offset + i, 1) == u64::from(*b))
    }

    /// Returns the positions of `byte` among the 32 bytes from `offset` (a multiple of 8) on, as bits. Bytes
    /// past the end count as zero.
    #[inline(always)]
    pub fn positions_of(&self, offset: usize, byte: u8) -> u32 {
        let words: [u64; 4] = std::array::from_fn(|i| self.load(offset + 8 * i, 8));
        #[cfg(all(target_arch = "x86_64", not(lanefs_no_asm)))]
        {
            use std::arch::x86_64::{_mm_cmpeq_epi8, _mm_movemask_epi8, _mm_set_epi64x, _mm_set1_epi8};
            // SAFETY: these are SSE2, which every x86-64 has; they compute on values.
            let half = |low: u64, high: u64| unsafe {
                let equal =
                    _mm_cmpeq_epi8(_mm_set_epi64x(high as i64, low as i64), _mm_set1_epi8(byte as i8));
                _mm_movemask_epi8(equal) as u32
            };
            half(words[0], words[1]) | half(words[2], words[3]) << 16
        }
        #[cfg(not(all(target_arch = "x86_64", not(lanefs_no_asm))))]
        {
            const ONES: u64 = 0x0101_0101_0101_0101;
            let mut bits = 0;
            for (i, word) in words.iter().enumerate() {
                let differs = word ^ (ONES * u64::from(byte));
                let low = (differs & !(ONES << 7)) + !(ONES << 7);
                let zeros = !(low | differs) & (ONES << 7);
                bits |= (((zeros >> 7).wrapping_mul(0x0102_0408_1020_4080) >> 56) as u32) << (8 * i);
            }
            bits
        }
    }

    /// Copies the bytes from `offset` on. Returns false, and copies nothing, where they reach past the end.
    pub fn copy_to(&self, offset: usize, out: &mut [u8]) -> bool {
        if offset.checked_add(out.len()).is_none_or(|end| end > self.len()) {
            return false;
        }
        let mut done = 0;
        while done < out.len() {
            // A point at each word would crowd out all others.
            point();
            let end = out.len().min(done.saturating_add(COPIED_AT_ONCE_BYTES));
            // SAFETY: inside the view, whose words lie in its block; by words. `out` is borrowed exclusively.
            unsafe {
                let from = self.base.as_ptr().add(offset + done);
                words::copy_out(from, out[done..end].as_mut_ptr(), end - done);
            }
            done = end;
        }
        true
    }

    /// Prefetches the cache line at `offset`.
    #[inline(always)]
    pub fn prefetch(&self, offset: usize) {
        if offset < self.len() {
            // SAFETY: the address lies inside the view.
            prefetch(unsafe { self.base.as_ptr().add(offset) });
        }
    }
}

/// Prefetches the cache line at an address: a hint, which never faults.
#[inline(always)]
pub fn prefetch(address: *const u8) {
    #[cfg(all(target_arch = "x86_64", not(lanefs_no_asm)))]
    // SAFETY: a prefetch has no effect that a program can see, whatever the address.
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(address.cast());
    }
    #[cfg(not(all(target_arch = "x86_64", not(lanefs_no_asm))))]
    let _ = address;
}
