//! Committed blocks that are not in place yet.

use super::aligned::AlignedBuffer;
use lanefs_format::BLOCK;
use std::collections::BTreeMap;
use std::ops::Deref;
use std::sync::Arc;

/// The 4096 bytes of a block in a commit, aligned for direct I/O. A clone shares them. All images of a commit
/// may share one buffer, which lives as long as any of them.
#[derive(Clone)]
pub(crate) struct Image {
    buffer: Arc<AlignedBuffer>,
    offset: usize,
}

impl Image {
    /// Returns block `index` of a buffer of whole blocks; `None` where it has no such block.
    pub(crate) fn of(buffer: &Arc<AlignedBuffer>, index: usize) -> Option<Self> {
        let offset = index.checked_mul(BLOCK as usize)?;
        let whole = offset.checked_add(BLOCK as usize)? <= buffer.len();
        whole.then(|| Image { buffer: buffer.clone(), offset })
    }
}

impl Deref for Image {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.buffer[self.offset..self.offset + BLOCK as usize]
    }
}

/// A block that is to be written in place.
#[derive(Clone)]
pub(crate) struct PendingBlock {
    /// Position of the block.
    pub(crate) position: u64,
    /// Number of its commit.
    pub(crate) sequence: u64,
    /// Bytes to write.
    pub(crate) image: Image,
}

/// The newest image of each block in the log that is not in place.
///
/// A crash may lose these images, because recovery finds them in the log. A fetch must read them instead of
/// the device, which has older bytes.
#[derive(Default)]
pub(crate) struct Pending {
    blocks: BTreeMap<u64, (u64, Image)>,
}

impl Pending {
    /// Adds a block of the commit `sequence`, which is durable and newer than all earlier ones.
    pub(crate) fn add(&mut self, sequence: u64, position: u64, image: Image) {
        let before = self.blocks.insert(position, (sequence, image));
        assert!(before.is_none_or(|(older, _)| older <= sequence), "numbers of commits rise");
    }

    /// Removes a block that a commit freed, once that commit is durable.
    pub(crate) fn revoke(&mut self, position: u64) {
        self.blocks.remove(&position);
    }

    /// Returns the newest image of a block, where it is not in place.
    pub(crate) fn get(&self, position: u64) -> Option<&[u8]> {
        self.blocks.get(&position).map(|(_, image)| &**image)
    }

    /// Returns the position of the first block at `from` or after it.
    pub(crate) fn next_from(&self, from: u64) -> Option<u64> {
        self.blocks.range(from..).next().map(|(position, _)| *position)
    }

    /// Returns true where no block waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.blocks.is_empty()
    }

    /// Returns the number of blocks.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.blocks.len()
    }

    /// Returns the blocks at `from` and after it whose newest image is from a commit up to `sequence`:
    /// `most` at most, the lowest positions first, so that consecutive blocks can be written together. A pass
    /// continues after the last position of the last batch, ends with an empty batch, and is flushed as a
    /// whole.
    pub(crate) fn batch(&self, from: u64, sequence: u64, most: usize) -> Vec<PendingBlock> {
        let due = self.blocks.range(from..).filter(|(_, (of, _))| *of <= sequence);
        due.take(most)
            .map(|(position, (sequence, image))| PendingBlock {
                position: *position,
                sequence: *sequence,
                image: image.clone(),
            })
            .collect()
    }

    /// Removes blocks that were written in place and flushed, given as position and number of the commit,
    /// except those with a newer image since.
    pub(crate) fn done(&mut self, written: &[(u64, u64)]) {
        for (position, sequence) in written {
            if self.blocks.get(position).is_some_and(|(newest, _)| newest == sequence) {
                self.blocks.remove(position);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn image(byte: u8) -> Image {
        let mut buffer = AlignedBuffer::zeroed(3 * BLOCK as usize);
        buffer[BLOCK as usize..][..BLOCK as usize].fill(byte);
        Image::of(&Arc::new(buffer), 1).expect("block 1 of 3")
    }

    fn keys(batch: &[PendingBlock]) -> Vec<(u64, u64)> {
        batch.iter().map(|waiting| (waiting.position, waiting.sequence)).collect()
    }

    #[test]
    fn images_are_whole_aligned_blocks_of_their_buffer() {
        let buffer = Arc::new(AlignedBuffer::zeroed(2 * BLOCK as usize));
        assert!(Image::of(&buffer, 1).is_some_and(|image| image.as_ptr().addr().is_multiple_of(4096)));
        assert!(Image::of(&buffer, 2).is_none());
        assert!(Image::of(&buffer, usize::MAX).is_none());
        assert_eq!(*image(9), [9; BLOCK as usize]);
    }

    #[test]
    fn a_batch_has_the_lowest_positions_of_commits_that_are_due() {
        let mut pending = Pending::default();
        for (sequence, position) in [(1, 90), (1, 10), (2, 50), (3, 20), (3, 10)] {
            pending.add(sequence, position, image(sequence as u8));
        }
        assert_eq!(pending.len(), 4);
        assert_eq!(pending.get(10), Some(&[3; BLOCK as usize][..]));
        assert_eq!(keys(&pending.batch(0, 2, 9)), [(50, 2), (90, 1)]);
        assert_eq!(keys(&pending.batch(0, 3, 2)), [(10, 3), (20, 3)]);
        assert_eq!(keys(&pending.batch(21, 3, 2)), [(50, 2), (90, 1)]);
        assert!(pending.batch(91, 3, 2).is_empty());
    }

    #[test]
    fn a_written_block_is_removed_unless_it_changed_since() {
        let mut pending = Pending::default();
        pending.add(1, 10, image(1));
        pending.add(1, 20, image(1));
        let batch = pending.batch(0, 1, 9);
        pending.add(2, 10, image(2));
        pending.done(&keys(&batch));
        assert_eq!(pending.get(10), Some(&[2; BLOCK as usize][..]));
        assert_eq!(pending.get(20), None);
        pending.revoke(10);
        assert_eq!((pending.len(), pending.get(10)), (0, None));
        assert_eq!(*batch[0].image, [1; BLOCK as usize], "a batch keeps its images");
    }
}
