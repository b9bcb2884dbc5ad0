//! The cases, by theme.

pub mod files;
pub mod names;
pub mod privileges;
pub mod space;
pub mod xattrs;

use rustix::io::{Errno, Result};

/// The error of a call that should fail.
fn refused<T>(result: Result<T>) -> Errno {
    result.err().expect("an error")
}

/// Bytes that differ from block to block.
fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|at| (at / 7 + at / 4096) as u8).collect()
}
