//! Words of a resident block.

use crate::versions::Grain;
use lanefs_format::{Field, Word};
use lanefs_sync::point;
use std::marker::PhantomData;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering::Relaxed};

/// A structure inside a resident block: a block, an inode, an entry.
///
/// All words are read and written atomically (relaxed; a plain load or store on every machine of today), so that a
/// reader without a lock sees old or new words and never undefined behaviour. Offsets past the end read as zero and
/// write nothing: whoever takes an index from a volume's bytes checks it first.
#[derive(Clone, Copy)]
pub struct View<'a> {
    base: NonNull<u8>,
    at: u64,
    len: u32,
    /// What is locked together.
    grain: Grain,
    _store: PhantomData<&'a ()>,
}

impl<'a> View<'a> {
    /// # Safety
    /// `base` is the address of volume byte `at`, aligned to 8 at least, and valid for `len` bytes during `'a`.
    #[inline(always)]
    pub(crate) unsafe fn new(base: NonNull<u8>, at: u64, len: u32, grain: Grain) -> Self {
        View { base, at, len, grain, _store: PhantomData }
    }

    #[inline(always)]
    pub(crate) fn grain(&self) -> Grain {
        self.grain
    }

    /// The same place with another length, which the caller has checked to end in the same block.
    #[inline(always)]
    pub(crate) fn with_len(self, len: usize) -> Self {
        View { len: len as u32, ..self }
    }

    /// Byte position in the volume.
    #[inline(always)]
    pub fn at(&self) -> u64 {
        self.at
    }

    /// Length in bytes.
    #[inline(always)]
    #[allow(clippy::len_without_is_empty)]
    pub fn len(&self) -> usize {
        self.len as usize
    }

    /// The part from `offset` (a multiple of 8) on, `len` bytes long; `None` where that is not inside.
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

    /// The caller has checked that the word ends inside.
    #[inline(always)]
    fn load_inside(&self, offset: usize, bytes: usize) -> u64 {
        debug_assert!(offset + bytes <= self.len());
        // SAFETY: inside the view, and a field is aligned to its size; the memory is only ever accessed atomically.
        unsafe {
            let p = self.base.as_ptr().add(offset);
            match bytes {
                1 => u64::from(AtomicU8::from_ptr(p).load(Relaxed)),
                2 => u64::from(u16::from_le(AtomicU16::from_ptr(p.cast()).load(Relaxed))),
                4 => u64::from(u32::from_le(AtomicU32::from_ptr(p.cast()).load(Relaxed))),
                _ => u64::from_le(AtomicU64::from_ptr(p.cast()).load(Relaxed)),
            }
        }
    }

    #[inline(always)]
    pub(crate) fn store(&self, offset: usize, bytes: usize, bits: u64) {
        if offset + bytes > self.len() {
            return;
        }
        point();
        // SAFETY: as in `load`.
        unsafe {
            let p = self.base.as_ptr().add(offset);
            match bytes {
                1 => AtomicU8::from_ptr(p).store(bits as u8, Relaxed),
                2 => AtomicU16::from_ptr(p.cast()).store((bits as u16).to_le(), Relaxed),
                4 => AtomicU32::from_ptr(p.cast()).store((bits as u32).to_le(), Relaxed),
                _ => AtomicU64::from_ptr(p.cast()).store(bits.to_le(), Relaxed),
            }
        }
    }

    /// Makes a field at least `value`, whoever else does so at the same time.
    #[inline(always)]
    pub(crate) fn raise(&self, field: Field<i64>, value: i64) {
        if field.offset + 8 > self.len() {
            return;
        }
        // SAFETY: as in `load`.
        let word = unsafe { AtomicU64::from_ptr(self.base.as_ptr().add(field.offset).cast()) };
        point();
        let mut old = word.load(Relaxed);
        while (u64::from_le(old) as i64) < value {
            match word.compare_exchange_weak(old, (value as u64).to_le(), Relaxed, Relaxed) {
                Ok(_) => return,
                Err(now) => old = now,
            }
        }
    }

    /// Compares `expected` with the bytes from `offset` on. `offset` must be a multiple of 8; eight bytes at a time.
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

    /// Which of the 32 bytes from `offset` (a multiple of 8) on equal `byte`, as bits. Bytes past the end count as zero.
    #[inline(always)]
    pub fn positions_of(&self, offset: usize, byte: u8) -> u32 {
        let words: [u64; 4] = std::array::from_fn(|i| self.load(offset + 8 * i, 8));
        #[cfg(target_arch = "x86_64")]
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
        #[cfg(not(target_arch = "x86_64"))]
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

    /// Copies the bytes from `offset` on; `false` (and nothing copied) where they reach past the end.
    pub fn copy_to(&self, offset: usize, out: &mut [u8]) -> bool {
        if offset.checked_add(out.len()).is_none_or(|end| end > self.len()) {
            return false;
        }
        let mut at = offset;
        let mut out = out;
        while !out.is_empty() {
            let step = if at.is_multiple_of(8) && out.len() >= 8 { 8 } else { 1 };
            let (now, later) = out.split_at_mut(step);
            // A moment now and then; one at each word would drown all others.
            if at.is_multiple_of(1024) {
                point();
            }
            now.copy_from_slice(&self.load_inside(at, step).to_le_bytes()[..step]);
            (out, at) = (later, at + step);
        }
        true
    }

    /// Has the line at `offset` brought into the processor's cache.
    #[inline(always)]
    pub fn prefetch(&self, offset: usize) {
        if offset < self.len() {
            // SAFETY: the address lies inside the view.
            prefetch(unsafe { self.base.as_ptr().add(offset) });
        }
    }
}

/// Has the line at an address brought into the processor's cache: a hint, which never faults.
#[inline(always)]
pub fn prefetch(address: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch has no effect that a program can see, whatever the address.
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(address.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = address;
}
