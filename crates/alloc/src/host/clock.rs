//! The time after which unused memory goes back.

/// Milliseconds of a tick. Memory that nothing has used for one or two ticks goes back to where it came from.
const TICK_MS: u64 = 100;

/// Calls in a tick, where calls are counted instead of time.
const TICK_CALLS: u64 = 6;

/// Returns true if a tick or more has passed since `last`, and sets `last` to now.
///
/// The schedule explorer and Miri count calls instead, so that a test does the same each time.
pub(crate) fn tick_passed(last: &mut u64) -> bool {
    if cfg!(any(feature = "_shuttle", miri)) {
        *last += 1;
        return last.is_multiple_of(TICK_CALLS);
    }
    let now = now_ms();
    let has_passed = now.wrapping_sub(*last) >= TICK_MS;
    if has_passed {
        *last = now;
    }
    has_passed
}

fn now_ms() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the kernel writes to the variable, from a clock that never goes back.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC_COARSE, &raw mut time) };
    time.tv_sec as u64 * 1000 + time.tv_nsec as u64 / 1_000_000
}
