//! Times of copies to and from shared memory, beside those of the language's own copies: least of many, in
//! nanoseconds.
//!
//! `cargo run --release -p lanefs-store --example copies`; `RUSTFLAGS="--cfg lanefs_no_asm"` has the loops
//! over words. The target of "near" begins 16 bytes after the source, by their offsets in a page.

#[allow(dead_code, unreachable_pub)]
#[path = "../src/vocabulary/words.rs"]
mod words;

use std::hint::black_box;
use std::time::Instant;

const ROUNDS: usize = 2000;

/// Least time of a call.
fn least(mut work: impl FnMut()) -> u128 {
    (0..ROUNDS)
        .map(|_| {
            let start = Instant::now();
            work();
            start.elapsed().as_nanos()
        })
        .min()
        .unwrap_or(0)
}

fn main() {
    let names = ["memcpy", "out", "near", "in", "memset", "zero"];
    println!("{:>9}  {}", "bytes", names.map(|name| format!("{name:>8}")).join(" "));
    for len in [64, 256, 512, 1 << 10, 4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20] {
        let mut shared = vec![1u64; len / 8];
        let mut private = vec![2u8; len + 4096];
        let (shared, private) = (shared.as_mut_ptr().cast::<u8>(), private.as_mut_ptr());
        let distance = shared.addr().wrapping_add(16).wrapping_sub(private.addr()) % 4096;
        let near = private.wrapping_add(distance);
        // SAFETY: all are valid for `len` bytes, aligned as needed, and this thread alone has them.
        let times = unsafe {
            [
                least(|| {
                    std::ptr::copy_nonoverlapping(black_box(shared), black_box(private), black_box(len));
                }),
                least(|| {
                    words::copy_out(black_box(shared), black_box(private), black_box(len));
                }),
                least(|| {
                    words::copy_out(black_box(shared), black_box(near), black_box(len));
                }),
                least(|| {
                    words::copy_in(black_box(private), black_box(shared), black_box(len));
                }),
                least(|| {
                    std::ptr::write_bytes(black_box(shared), 0, black_box(len));
                }),
                least(|| {
                    words::zero(black_box(shared), black_box(len));
                }),
            ]
        };
        println!("{len:>9}  {}", times.map(|time| format!("{time:>8}")).join(" "));
    }
}
