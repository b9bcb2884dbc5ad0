//! The bound on the data that are read from a volume.
//!
//! A hostile publication of two megabytes can claim any size: its windows may name one piece, and the maps of
//! its files one block. So the data that a program reads are bounded by the bytes that the device was given
//! for them, which nobody can claim ([`Volume::bound_expansion`](crate::Volume::bound_expansion)).

use super::error::{Error, Result};
use lanefs_format::BLOCK;
use std::sync::atomic::{AtomicU64, Ordering};

/// Data that are read at most, as a multiple of the bytes that were given for them.
pub const DEFAULT_FACTOR: u32 = 100;
/// Bytes of data that are read in any case.
const LEAST_BYTES: u64 = 1 << 30;
/// Bytes that a block of zeros counts as. A block of a hole costs a publication nothing, and one of zeros a
/// thousandth of its size. So sound volumes with many of them are read, and reading comes to an end all the
/// same.
const ZERO_BLOCK_BYTES: u64 = 16;

/// True where `given` bytes justify `bytes` of data: they are no more than `factor` times as many, or than
/// 1 GiB. A factor of 0 justifies all.
pub fn is_justified(bytes: u64, given: u64, factor: u64) -> bool {
    factor == 0 || bytes <= given.saturating_mul(factor).max(LEAST_BYTES)
}

/// The bound of a volume, and the data that were read.
#[derive(Default)]
pub(crate) struct Expansion {
    /// 0: no bound.
    factor: AtomicU64,
    read: AtomicU64,
}

impl Expansion {
    /// Begins to count, with another bound.
    pub(crate) fn begin(&self, factor: u64) {
        self.read.store(0, Ordering::Relaxed);
        self.factor.store(factor, Ordering::Relaxed);
    }

    /// Counts data that were read.
    ///
    /// # Errors
    /// [`Error::Expansion`] where they are more than the bytes justify that `given` returns.
    pub(crate) fn add(&self, data: &[u8], given: impl FnOnce() -> u64) -> Result<()> {
        let factor = self.factor.load(Ordering::Relaxed);
        if factor == 0 {
            return Ok(());
        }
        let weight = weight(data);
        let read = self.read.fetch_add(weight, Ordering::Relaxed).saturating_add(weight);
        if is_justified(read, given(), factor) { Ok(()) } else { Err(Error::Expansion { factor }) }
    }
}

/// The bytes that data count as.
fn weight(data: &[u8]) -> u64 {
    const ZEROS: [u8; BLOCK as usize] = [0; BLOCK as usize];
    let of_block = |block: &[u8]| match block == &ZEROS[..block.len()] {
        true => ZERO_BLOCK_BYTES.min(block.len() as u64),
        false => block.len() as u64,
    };
    data.chunks(BLOCK as usize).map(of_block).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_megabytes_justify_no_more_than_the_least() {
        let given = 2 << 20;
        assert!(is_justified(LEAST_BYTES, given, 100) && !is_justified(LEAST_BYTES + 1, given, 100));
        assert!(is_justified(250 << 30, given, 0) && is_justified(250 << 30, 3 << 30, 100));
        assert!(!is_justified(u64::MAX, u64::MAX >> 10, 1000));
    }

    #[test]
    fn blocks_of_zeros_count_little_and_all_others_whole() {
        let mut data = vec![0; 3 * BLOCK as usize + 10];
        assert_eq!(weight(&data), 3 * ZERO_BLOCK_BYTES + 10);
        data[BLOCK as usize] = 1;
        assert_eq!(weight(&data), 2 * ZERO_BLOCK_BYTES + BLOCK + 10);
        assert_eq!(weight(&[]), 0);
    }

    #[test]
    fn data_are_counted_from_the_beginning_of_a_bound_on() {
        let expansion = Expansion { factor: 0.into(), read: (1 << 50).into() };
        assert!(expansion.add(&[1], || 0).is_ok(), "no bound");
        expansion.factor.store(1, Ordering::Relaxed);
        assert!(matches!(expansion.add(&[1], || 1 << 40), Err(Error::Expansion { factor: 1 })));
        assert!(expansion.add(&[1], || 1 << 51).is_ok());
        expansion.begin(1);
        assert!(expansion.add(&[1], || 1).is_ok());
    }
}
