//! The changed blocks of a commit.

use super::aligned::AlignedBuffer;
use lanefs_format::BLOCK;
use std::sync::Arc;

/// Copies of blocks, by ascending position.
#[derive(Clone)]
pub(crate) struct Copies {
    pub(crate) positions: Arc<[u64]>,
    pub(crate) images: Arc<AlignedBuffer>,
}

impl Copies {
    /// The images are those of the positions, in the same order.
    pub(crate) fn new(positions: Vec<u64>, images: AlignedBuffer) -> Self {
        debug_assert!(positions.is_sorted_by(|a, b| a < b), "copies ascend");
        assert_eq!(
            images.len() as u64,
            positions.len() as u64 * BLOCK,
            "bytes of {} copies",
            positions.len()
        );
        Copies { positions: positions.into(), images: Arc::new(images) }
    }

    fn image(&self, index: usize) -> &[u8] {
        &self.images[index * BLOCK as usize..(index + 1) * BLOCK as usize]
    }

    pub(crate) fn get(&self, at: u64) -> Option<&[u8]> {
        Some(self.image(self.positions.binary_search(&at).ok()?))
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (u64, &[u8])> {
        self.positions.iter().enumerate().map(|(index, at)| (*at, self.image(index)))
    }
}
