//! The bound on the size of files that are read with the zeros of their holes.

use crate::context::Context;
use crate::failure::{Failure, Outcome};
use crate::size::human;

/// Size in bytes up to which a file is read whatever the volume's size.
const LEAST: u64 = 1 << 30;
/// A file is read up to this many times the volume's size.
pub const FACTOR: u64 = 100;

/// Refuses a file of more than `factor` times the volume's size: a small image may describe files of 128 PiB.
/// 0 stands for no limit.
///
/// # Errors
/// Names the path and gives `advice`.
pub fn check(context: &Context<'_>, path: &[u8], size: u64, factor: u64, advice: &str) -> Outcome {
    check_size(context.volume.superblock().volume_bytes, path, size, factor, advice)
}

/// [`check`] for a volume of `volume_bytes`.
///
/// # Errors
/// As [`check`].
pub fn check_size(volume_bytes: u64, path: &[u8], size: u64, factor: u64, advice: &str) -> Outcome {
    let most = volume_bytes.saturating_mul(factor).max(LEAST);
    if factor > 0 && size > most {
        let what = format!("has {}B, far more than the volume", human(size));
        return Err(Failure::partial(path, &what, advice));
    }
    Ok(())
}
