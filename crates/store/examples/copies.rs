//! Times of copies to and from shared memory, beside those of the language's own copies: least of many, in
//! nanoseconds.
//!
//! `cargo run --release -p lanefs-store --example copies`; `RUSTFLAGS="--cfg lanefs_no_asm"` has the loops
//! over words.

#[allow(dead_code, unreachable_pub)]
#[path = "../src/words.rs"]
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
    println!("{:>9}  {:>8} {:>8} {:>8}  {:>8} {:>8}", "bytes", "memcpy", "out", "in", "memset", "zero");
    for len in [64, 256, 512, 1 << 10, 4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20] {
        let mut shared = vec![1u64; len / 8];
        let mut private = vec![2u8; len];
        let (shared, private) = (shared.as_mut_ptr().cast::<u8>(), private.as_mut_ptr());
        // SAFETY: both are valid for `len` bytes, aligned as needed, and this thread alone has them.
        let times = unsafe {
            [
                least(|| {
                    std::ptr::copy_nonoverlapping(black_box(shared), black_box(private), black_box(len));
                }),
                least(|| {
                    words::copy_out(black_box(shared), black_box(private), black_box(len));
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
        let [memcpy, out, into, memset, zero] = times;
        println!("{len:>9}  {memcpy:>8} {out:>8} {into:>8}  {memset:>8} {zero:>8}");
    }
}
