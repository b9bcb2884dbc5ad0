//! Copies to and from memory that other threads access at the same time.
//!
//! The rule for shared memory: Rust code accesses it by whole, aligned words of eight bytes, relaxed. All
//! words have one size, because Rust's memory model forbids races of atomic accesses that overlap in part.
//! One thread at a time writes a word: it owns the block, or it has locked the ownership record. So a write
//! of a part of a word is a load, a change and a store. The kernel's reads and writes (`pread`, io_uring) are
//! outside the language, as those of another process are.
//!
//! A long copy is one instruction on x86-64 (`rep movsb`), or a loop over vectors; a short one, and all on
//! other processors, are a loop over [`AtomicU64`]. Compilers do not vectorise such a loop: it copies 4 KiB
//! at a third of the speed (`examples/copies.rs`).

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Bytes of a word.
pub(crate) const WORD: usize = size_of::<u64>();

/// Least length in bytes for which copies use the processor's instruction: its start costs as much as some
/// words.
const LONG_BYTES: usize = 512;

/// True where copies may be inline assembly: neither Miri nor ThreadSanitizer sees into it.
const HAS_ASM: bool = cfg!(all(target_arch = "x86_64", not(miri), not(lanefs_no_asm)));

/// Returns the word at an address.
///
/// # Safety
/// The address is that of a word of shared memory, aligned.
#[inline(always)]
unsafe fn word<'a>(address: *const u8) -> &'a AtomicU64 {
    debug_assert!(address.addr().is_multiple_of(WORD));
    // SAFETY: the caller's promise. Shared memory is written through such references too, so nothing assumes
    // that it stays.
    unsafe { AtomicU64::from_ptr(address.cast_mut().cast()) }
}

/// Copies `len` bytes of shared memory into private memory.
///
/// # Safety
/// All words that the bytes at `shared` belong to are shared memory, valid during the call. `out` is valid
/// for `len` bytes, and no other thread accesses it.
#[inline]
pub(crate) unsafe fn copy_out(shared: *const u8, out: *mut u8, len: usize) {
    if HAS_ASM && len >= LONG_BYTES {
        // SAFETY: the caller's ranges. The instruction's effect is that of a load of the word that contains
        // each byte, and of plain stores into private memory.
        unsafe { move_bytes(shared, out, len) }
    } else {
        // SAFETY: the caller's promise is this function's.
        unsafe { copy_out_by_words(shared, out, len) }
    }
}

/// Copies `len` bytes of private memory into shared memory.
///
/// # Safety
/// All words that the bytes at `shared` belong to are shared memory, valid during the call, and no other
/// thread writes them. `bytes` is valid for `len` bytes, and no other thread writes it.
#[inline]
pub(crate) unsafe fn copy_in(bytes: *const u8, shared: *mut u8, len: usize) {
    if HAS_ASM && len >= LONG_BYTES {
        // SAFETY: the caller's ranges. The instruction's effect is that of a store of the word that contains
        // each byte, with this byte changed; no other thread writes that word.
        unsafe { move_bytes(bytes, shared, len) }
    } else {
        // SAFETY: the caller's promise is this function's.
        unsafe { copy_in_by_words(bytes, shared, len) }
    }
}

/// Fills `len` bytes of shared memory, whole words, with zeros.
///
/// # Safety
/// As the target of [`copy_in`]; address and length are multiples of [`WORD`].
#[inline]
pub(crate) unsafe fn zero(shared: *mut u8, len: usize) {
    debug_assert!(shared.addr().is_multiple_of(WORD) && len.is_multiple_of(WORD));
    if HAS_ASM {
        // SAFETY: the caller's range. The instruction's effect is that of a store of zero to each word.
        unsafe { zero_bytes(shared, len) }
    } else {
        for at in (0..len).step_by(WORD) {
            // SAFETY: the caller's range, by whole words.
            unsafe { word(shared.add(at)).store(0, Relaxed) }
        }
    }
}

/// # Safety
/// As [`copy_out`].
unsafe fn copy_out_by_words(shared: *const u8, out: *mut u8, len: usize) {
    let mut done = 0;
    let skew = shared.addr() % WORD;
    if skew != 0 {
        done = len.min(WORD - skew);
        // SAFETY: the word that contains the first byte, of which `done` bytes are wanted.
        unsafe {
            let bytes = word(shared.sub(skew)).load(Relaxed).to_ne_bytes();
            std::ptr::copy_nonoverlapping(bytes.as_ptr().add(skew), out, done);
        }
    }
    while len - done >= WORD {
        // SAFETY: a whole word inside the caller's range.
        unsafe {
            let value = word(shared.add(done)).load(Relaxed);
            out.add(done).cast::<u64>().write_unaligned(value);
        }
        done += WORD;
    }
    if done < len {
        // SAFETY: the word that contains the last bytes, which begins at the first of them.
        unsafe {
            let bytes = word(shared.add(done)).load(Relaxed).to_ne_bytes();
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), out.add(done), len - done);
        }
    }
}

/// # Safety
/// As [`copy_in`].
unsafe fn copy_in_by_words(bytes: *const u8, shared: *mut u8, len: usize) {
    let mut done = 0;
    let skew = shared.addr() % WORD;
    if skew != 0 {
        done = len.min(WORD - skew);
        // SAFETY: the word that contains the first byte; `done` bytes from `skew` on are inside.
        unsafe { change_word(shared.sub(skew), skew, bytes, done) }
    }
    while len - done >= WORD {
        // SAFETY: a whole word inside the caller's range.
        unsafe {
            let value = bytes.add(done).cast::<u64>().read_unaligned();
            word(shared.add(done)).store(value, Relaxed);
        }
        done += WORD;
    }
    if done < len {
        // SAFETY: the word that contains the last bytes, which begins at the first of them.
        unsafe { change_word(shared.add(done), 0, bytes.add(done), len - done) }
    }
}

/// Changes `count` bytes of a word from byte `first` on.
///
/// # Safety
/// The address is that of a word of shared memory, aligned, which no other thread writes; `bytes` is valid
/// for `count` bytes; the bytes lie inside the word.
unsafe fn change_word(address: *mut u8, first: usize, bytes: *const u8, count: usize) {
    debug_assert!(first + count <= WORD);
    // SAFETY: the caller's promises.
    unsafe {
        let word = word(address);
        let mut value = word.load(Relaxed).to_ne_bytes();
        std::ptr::copy_nonoverlapping(bytes, value.as_mut_ptr().add(first), count);
        word.store(u64::from_ne_bytes(value), Relaxed);
    }
}

/// `rep movsb` is slow where the target begins less than this after the source, by their offsets in a page:
/// the processor takes its loads for ones that wait for its stores. On one EPYC, 4 KiB took 1,400 ns at
/// distances of 1 to 31 bytes, and 50 to 70 ns at all others (`examples/copies.rs`).
#[cfg(all(target_arch = "x86_64", not(miri), not(lanefs_no_asm)))]
const CLOSE: usize = 64;

/// # Safety
/// Both ranges are valid for `len` bytes, 64 at least, and do not overlap.
#[cfg(all(target_arch = "x86_64", not(miri), not(lanefs_no_asm)))]
#[inline(always)]
unsafe fn move_bytes(from: *const u8, to: *mut u8, len: usize) {
    let distance = to.addr().wrapping_sub(from.addr()) % 4096;
    if (1..CLOSE).contains(&distance) {
        // SAFETY: the caller's promise.
        return unsafe { move_vectors(from, to, len) };
    }
    // SAFETY: the caller's ranges; the direction flag is clear by the ABI. To the compiler this is a call of
    // foreign code. Such code may do what Rust code could do with atomic accesses: the callers say which
    // accesses these are. The processor moves each byte once, and a word perhaps in parts: that is a store of
    // the word for each part.
    unsafe {
        std::arch::asm!(
            "rep movsb",
            inout("rcx") len => _, inout("rsi") from => _, inout("rdi") to => _,
            options(nostack, preserves_flags)
        );
    }
}

/// As [`move_bytes`], by vectors of 16 bytes.
///
/// # Safety
/// As [`move_bytes`].
#[cfg(all(target_arch = "x86_64", not(miri), not(lanefs_no_asm)))]
#[inline(never)]
unsafe fn move_vectors(from: *const u8, to: *mut u8, len: usize) {
    debug_assert!(len >= 64);
    // The first vector ends after the first aligned byte of the target, where the loop begins. The last four
    // vectors end with the range; they begin where the loop has been, or at its end.
    // SAFETY: as in `move_bytes`, but for bytes that are moved twice: a second store of the same value to
    // their word.
    unsafe {
        std::arch::asm!(
            "movdqu {a}, [{from}]",
            "movdqu [{to}], {a}",
            "jmp 3f",
            "2:",
            "movdqu {a}, [{from} + {at}]",
            "movdqu {b}, [{from} + {at} + 16]",
            "movdqu {c}, [{from} + {at} + 32]",
            "movdqu {d}, [{from} + {at} + 48]",
            "movdqa [{to} + {at}], {a}",
            "movdqa [{to} + {at} + 16], {b}",
            "movdqa [{to} + {at} + 32], {c}",
            "movdqa [{to} + {at} + 48], {d}",
            "add {at}, 64",
            "3:",
            "cmp {at}, {last}",
            "jb 2b",
            "movdqu {a}, [{from} + {last}]",
            "movdqu {b}, [{from} + {last} + 16]",
            "movdqu {c}, [{from} + {last} + 32]",
            "movdqu {d}, [{from} + {last} + 48]",
            "movdqu [{to} + {last}], {a}",
            "movdqu [{to} + {last} + 16], {b}",
            "movdqu [{to} + {last} + 32], {c}",
            "movdqu [{to} + {last} + 48], {d}",
            from = in(reg) from,
            to = in(reg) to,
            at = inout(reg) 16 - to.addr() % 16 => _,
            last = in(reg) len - 64,
            a = out(xmm_reg) _, b = out(xmm_reg) _, c = out(xmm_reg) _, d = out(xmm_reg) _,
            options(nostack)
        );
    }
}

/// # Safety
/// The range is valid for `len` bytes.
#[cfg(all(target_arch = "x86_64", not(miri), not(lanefs_no_asm)))]
#[inline(always)]
unsafe fn zero_bytes(at: *mut u8, len: usize) {
    // SAFETY: as in `move_bytes`.
    unsafe {
        std::arch::asm!(
            "rep stosb",
            inout("rcx") len => _, inout("rdi") at => _, in("al") 0u8,
            options(nostack, preserves_flags)
        );
    }
}

/// Never called: see [`HAS_ASM`].
#[cfg(not(all(target_arch = "x86_64", not(miri), not(lanefs_no_asm))))]
unsafe fn move_bytes(_from: *const u8, _to: *mut u8, _len: usize) {}

/// Never called: see [`HAS_ASM`].
#[cfg(not(all(target_arch = "x86_64", not(miri), not(lanefs_no_asm))))]
unsafe fn zero_bytes(_at: *mut u8, _len: usize) {}

#[cfg(test)]
mod tests {
    use super::*;

    /// Shared memory of some words.
    fn words(count: usize) -> Vec<AtomicU64> {
        (0..count).map(|_| AtomicU64::new(u64::from_ne_bytes([0xee; WORD]))).collect()
    }

    fn bytes_of(words: &[AtomicU64]) -> Vec<u8> {
        words.iter().flat_map(|word| word.load(Relaxed).to_ne_bytes()).collect()
    }

    fn base(words: &[AtomicU64]) -> *mut u8 {
        words.as_ptr().cast_mut().cast()
    }

    #[test]
    fn copies_of_every_alignment_and_length_move_their_bytes_and_no_others() {
        let lengths =
            if cfg!(miri) { vec![0, 1, 7, 8, 9, 25] } else { (0..40).chain([255, 511, 512, 600]).collect() };
        for (skew, len) in (0..WORD).flat_map(|skew| lengths.iter().map(move |len| (skew, *len))) {
            let source: Vec<u8> = (0..len).map(|i| (i % 200) as u8).collect();
            for by_words in [false, true] {
                let shared = words(len / WORD + 3);
                let mut back = vec![0; len];
                // SAFETY: the vectors are long enough, and this thread alone has them.
                unsafe {
                    let at = base(&shared).add(skew);
                    if by_words {
                        copy_in_by_words(source.as_ptr(), at, len);
                        copy_out_by_words(at, back.as_mut_ptr(), len);
                    } else {
                        copy_in(source.as_ptr(), at, len);
                        copy_out(at, back.as_mut_ptr(), len);
                    }
                }
                assert_eq!(back, source, "{len} bytes at {skew}");
                let all = bytes_of(&shared);
                assert!(all[..skew].iter().chain(&all[skew + len..]).all(|byte| *byte == 0xee));
                assert_eq!(all[skew..skew + len], source);
            }
        }
    }

    #[test]
    fn copies_at_every_distance_of_their_pages_move_their_bytes_and_no_others() {
        let distances = if cfg!(miri) { vec![0, 1] } else { (0..66).chain([100, 4095]).collect() };
        let lengths = if cfg!(miri) { vec![520] } else { vec![512, 513, 527, 528, 575, 576, 577, 640, 4099] };
        for (distance, len) in distances.iter().flat_map(|d| lengths.iter().map(move |len| (*d, *len))) {
            let shared = words(3 * 4096 / WORD);
            let private: Vec<u8> = (0..4 * 4096).map(|i| (i % 251) as u8).collect();
            // SAFETY: both ranges lie in their vectors, which this thread alone has.
            unsafe {
                let to = base(&shared).add(WORD + distance % WORD);
                // The offset in its page is that of the target, less the distance.
                let skew = to.addr().wrapping_sub(private.as_ptr().addr()).wrapping_sub(distance) % 4096;
                let source = private[skew..skew + len].to_vec();
                copy_in(private.as_ptr().add(skew), to, len);
                let all = bytes_of(&shared);
                let first = WORD + distance % WORD;
                assert_eq!(all[first..first + len], source, "{len} bytes in, at a distance of {distance}");
                assert!(all[..first].iter().chain(&all[first + len..]).all(|byte| *byte == 0xee));

                let mut out = vec![0xeeu8; 4 * 4096];
                let skew = to.addr().wrapping_add(distance).wrapping_sub(out.as_ptr().addr()) % 4096;
                copy_out(to, out.as_mut_ptr().add(skew), len);
                assert_eq!(out[skew..skew + len], source, "{len} bytes out, at a distance of {distance}");
                assert!(out[..skew].iter().chain(&out[skew + len..]).all(|byte| *byte == 0xee));
            }
        }
    }

    #[test]
    fn zeros_fill_their_words_and_no_others() {
        let shared = words(70);
        // SAFETY: inside the vector, which this thread alone has.
        unsafe { zero(base(&shared).add(WORD), 64 * WORD) };
        let all = bytes_of(&shared);
        assert!(all[WORD..65 * WORD].iter().all(|byte| *byte == 0));
        assert!(all[..WORD].iter().chain(&all[65 * WORD..]).all(|byte| *byte == 0xee));
    }
}
