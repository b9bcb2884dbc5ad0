//! `statx` through io_uring: the host's way to ask for many paths in one system call.

#![allow(unsafe_code, reason = "io_uring takes addresses of paths and answers")]

use crate::error::{Error, Result};
use crate::measure::stop::Stop;
use crate::systems::system::Expect;
use io_uring::{IoUring, opcode, types};
use rustix::fs::StatxFlags;
use std::ffi::CStr;
use std::hint::black_box;
use std::os::fd::{AsRawFd, BorrowedFd};

/// Requests in flight.
const DEPTH: usize = 256;

/// Calls `statx` on every path; returns the number of right answers.
pub(super) fn statx_all(root: BorrowedFd<'_>, paths: &[&CStr], expect: Expect, stop: &Stop) -> Result<u64> {
    let mut ring = IoUring::new(DEPTH as u32).map_err(Error::host("io_uring"))?;
    let mut answers = vec![std::mem::MaybeUninit::<libc::statx>::zeroed(); DEPTH];
    let (mut good, mut sum) = (0u64, 0u64);
    for part in paths.chunks(DEPTH) {
        stop.check()?;
        for (i, (path, answer)) in part.iter().zip(&mut answers).enumerate() {
            let request = opcode::Statx::new(
                types::Fd(root.as_raw_fd()),
                path.as_ptr(),
                answer.as_mut_ptr().cast::<types::statx>(),
            )
            .flags(libc::AT_SYMLINK_NOFOLLOW)
            .mask(StatxFlags::BASIC_STATS.bits())
            .build()
            .user_data(i as u64);
            // SAFETY: the path outlives this function, and so does the descriptor. The answers stay where
            // they are: `wait_for` returns only when all requests have ended, or it never does.
            unsafe { ring.submission().push(&request) }.map_err(|_| Error::host("io_uring")(queue_full()))?;
        }
        wait_for(&mut ring, part.len());
        for done in ring.completion() {
            // SAFETY: all bytes were zero at first, and the kernel has written the fields.
            let answer = unsafe { answers[done.user_data() as usize].assume_init_ref() };
            match (expect, done.result()) {
                (Expect::Found, 0) => {
                    sum = sum.wrapping_add(answer.stx_ino).wrapping_add(answer.stx_size);
                    good += 1;
                }
                (Expect::Absent, error) if error == -libc::ENOENT => good += 1,
                _ => (),
            }
        }
    }
    black_box(sum);
    Ok(good)
}

/// Waits until all requests have ended: memory is given back after this call.
fn wait_for(ring: &mut IoUring, requests: usize) {
    while ring.submit_and_wait(requests).is_err() || ring.completion().len() < requests {}
}

fn queue_full() -> std::io::Error {
    std::io::Error::other("the submission queue is full")
}
