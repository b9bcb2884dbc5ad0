//! Memory from the host.

use std::ptr::NonNull;

/// Bytes of a page. (Larger pages of other machines are multiples, and what is given back is never less than a unit.)
pub(crate) const PAGE: usize = 4096;

/// Fresh memory of `bytes` at a multiple of `align`, zeros, none of it in use until it is written.
#[cfg(not(miri))]
pub(crate) fn map(bytes: usize, align: usize) -> Option<NonNull<u8>> {
    let with_slack = bytes.checked_add(align)?;
    // SAFETY: a fresh private mapping overlaps nothing.
    let start = unsafe {
        libc::mmap(
            std::ptr::null_mut(),
            with_slack,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
            -1,
            0,
        )
    };
    if start == libc::MAP_FAILED {
        return None;
    }
    let start = start.cast::<u8>();
    let skip = start.align_offset(align);
    // SAFETY: inside the mapping; what is cut off is in nobody's use.
    unsafe {
        let base = start.add(skip);
        if skip > 0 {
            libc::munmap(start.cast(), skip);
        }
        if skip < align {
            libc::munmap(base.add(bytes).cast(), align - skip);
        }
        NonNull::new(base)
    }
}

/// Memory of the C library in place of a mapping, for Miri, which knows no mapping that is unmapped in parts.
#[cfg(miri)]
pub(crate) fn map(bytes: usize, align: usize) -> Option<NonNull<u8>> {
    let mut base = std::ptr::null_mut();
    // SAFETY: the variable takes the address.
    let error = unsafe { libc::posix_memalign(&raw mut base, align.max(PAGE), bytes) };
    let base = NonNull::new(base.cast::<u8>()).filter(|_| error == 0)?;
    // SAFETY: fresh memory of this size.
    unsafe { base.as_ptr().write_bytes(0, bytes) };
    Some(base)
}

/// Ends a mapping. Under Miri the memory stays: parts of it may be in use.
///
/// # Safety
/// It is one of [`map`], as long as it was made, and nobody uses it any more.
pub(crate) unsafe fn unmap(base: NonNull<u8>, bytes: usize) {
    // SAFETY: the caller's promise.
    keeping_errno(|| unsafe {
        if cfg!(not(miri)) {
            libc::munmap(base.as_ptr().cast(), bytes);
        }
    });
}

/// Gives the memory of a range back; it reads as zeros again.
///
/// # Safety
/// The range is whole pages of a mapping of ours, and nobody needs what is in it.
pub(crate) unsafe fn release(base: *mut u8, bytes: usize) {
    // SAFETY: the caller's promise. Where the host does not take it, the memory stays and is dirty: so it is asked for zeros.
    keeping_errno(|| unsafe {
        if cfg!(miri) || libc::madvise(base.cast(), bytes, libc::MADV_DONTNEED) != 0 {
            base.write_bytes(0, bytes);
        }
    });
}

/// Bytes of address space that the process may have (`RLIMIT_AS`).
pub(crate) fn address_space() -> usize {
    if cfg!(miri) {
        // Small regions: Miri writes each byte of them.
        return 64 << 20;
    }
    let mut limit = libc::rlimit { rlim_cur: libc::RLIM_INFINITY, rlim_max: libc::RLIM_INFINITY };
    // SAFETY: a place for the answer.
    unsafe { libc::getrlimit(libc::RLIMIT_AS, &raw mut limit) };
    limit.rlim_cur as usize
}

/// What nobody needs for one or two of these goes back to where it came from, in milliseconds.
const TICK: u64 = 100;

/// True when a tick or more has passed since `last`, which is now then. (To the schedule explorer, each time of so many.)
pub(crate) fn is_time(last: &mut u64) -> bool {
    // Miri's clock runs by the instruction, so that each look at it would be a tick.
    if cfg!(any(feature = "shuttle", miri)) {
        *last += 1;
        return last.is_multiple_of(if cfg!(miri) { 100 } else { 6 });
    }
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: a place for the answer, on a clock that only goes on.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC_COARSE, &raw mut time) };
    let now = time.tv_sec as u64 * 1000 + time.tv_nsec as u64 / 1_000_000;
    let has_passed = now.wrapping_sub(*last) >= TICK;
    if has_passed {
        *last = now;
    }
    has_passed
}

/// Ends the program with a message on standard error, without allocating anything.
#[cold]
pub(crate) fn fail(what: &str, at: usize) -> ! {
    // Under the schedule explorer this is one of the ways in which a planted fault is found.
    #[cfg(all(test, feature = "shuttle"))]
    panic!("{what} at {at:#x}");
    #[cfg(not(all(test, feature = "shuttle")))]
    say_and_abort(what, at)
}

#[cfg(not(all(test, feature = "shuttle")))]
#[cold]
fn say_and_abort(what: &str, at: usize) -> ! {
    let mut line = Line::new();
    line.add(what.as_bytes());
    line.add(b" at 0x");
    line.number(at, 16);
    line.print();
    // SAFETY: ends the process.
    unsafe { libc::abort() }
}

/// A line for standard error that is made without allocating anything. What is too much is cut off.
pub(crate) struct Line {
    text: [u8; 256],
    len: usize,
}

impl Line {
    pub(crate) fn new() -> Self {
        let mut line = Line { text: [0; 256], len: 0 };
        line.add(b"lanefs-alloc: ");
        line
    }

    pub(crate) fn add(&mut self, bytes: &[u8]) {
        // One byte is left for the line's end.
        let room = &mut self.text[self.len..255];
        let count = bytes.len().min(room.len());
        room[..count].copy_from_slice(&bytes[..count]);
        self.len += count;
    }

    /// Adds a number with the digits of a base up to 16.
    pub(crate) fn number(&mut self, number: usize, base: usize) {
        let mut digits = [0; usize::BITS as usize];
        let (mut first, mut rest) = (digits.len(), number);
        loop {
            first -= 1;
            digits[first] = b"0123456789abcdef"[rest % base];
            rest /= base;
            if rest == 0 {
                break;
            }
        }
        self.add(&digits[first..]);
    }

    /// Writes it. Whether that succeeds changes nothing.
    pub(crate) fn print(mut self) {
        self.text[self.len] = b'\n';
        // SAFETY: the text is ours.
        keeping_errno(|| unsafe {
            libc::write(2, self.text.as_ptr().cast(), self.len + 1);
        });
    }
}

/// Does something that may fail without the program's knowledge: `free` leaves `errno` as it is.
fn keeping_errno(work: impl FnOnce()) {
    // SAFETY: a word of this thread.
    unsafe {
        let place = libc::__errno_location();
        let before = *place;
        work();
        *place = before;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_its_numbers_and_never_more_than_it_holds() {
        let mut line = Line::new();
        for (number, base) in [(0, 10), (1_234_567_890, 10), (0xfeed, 16), (usize::MAX, 2)] {
            line.number(number, base);
            line.add(b" ");
        }
        let text = format!("lanefs-alloc: 0 1234567890 feed {} ", "1".repeat(64));
        assert_eq!(&line.text[..line.len], text.as_bytes());
        (0..100).for_each(|_| line.add(b"too much"));
        assert_eq!(line.len, 255);
    }
}
