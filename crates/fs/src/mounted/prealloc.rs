//! The preallocation of one writer: blocks that the bitmaps mark as used and that belong to no file yet, or
//! no longer.
//!
//! The layers are those of [`lanefs_alloc::policy`]: a magazine of single blocks that files gave back, and
//! ranges of blocks that were reserved in the bitmaps in one step. A writer has several ranges. Some serve
//! new files, which so lie together. Each of the others serves one of the files that the writer extended
//! last, which so grows where it ends.
//!
//! The preallocation exists in memory only. All of it returns to the bitmaps before the changed blocks are
//! copied for a commit, before a check, and when the volume is full (`Shared::recall_prealloc`).

use crate::vocabulary::extent::Extent;
use lanefs_alloc::policy::{Bump, OwnMagazine};

/// Ranges for new files. One pass over the bitmap of a group fills all of them.
pub(crate) const SMALL: usize = 8;

/// Ranges for growing files: as many files can grow in place at a time.
const GROWING: usize = 4;

/// Capacity of the magazine of single blocks. Half of them return to the bitmaps at a time.
const SINGLES: usize = 128;

#[derive(Clone, Copy, Debug, Default)]
struct Ranges {
    small: [Bump; SMALL],
    growing: [Bump; GROWING],
    /// The growing range that was replaced last.
    turn: usize,
}

/// The preallocation of one writer.
pub(crate) struct Prealloc {
    ranges: Ranges,
    singles: OwnMagazine,
    /// Single blocks that the current transaction gave back.
    returned: Vec<u64>,
}

impl Default for Prealloc {
    fn default() -> Self {
        Prealloc { ranges: Ranges::default(), singles: OwnMagazine::new(SINGLES), returned: Vec::new() }
    }
}

fn extent_of(range: Bump) -> Option<Extent> {
    debug_assert!(range.next <= range.end, "a range that ends before it begins");
    (!range.is_empty()).then(|| Extent::new(range.next as u64, (range.end - range.next) as u64))
}

impl Prealloc {
    /// Takes everything out.
    pub(crate) fn drain(&mut self) -> Vec<Extent> {
        let Ranges { small, growing, .. } = std::mem::take(&mut self.ranges);
        let mut extents: Vec<Extent> = small.into_iter().chain(growing).filter_map(extent_of).collect();
        extents.extend(self.singles.items().iter().map(|block| Extent::new(*block as u64, 1)));
        self.singles.set_len(0);
        debug_assert!(self.is_empty(), "a block stays behind");
        extents
    }

    /// True without any blocks.
    pub(crate) fn is_empty(&self) -> bool {
        let Ranges { small, growing, .. } = &self.ranges;
        self.singles.len() == 0 && small.iter().chain(growing).all(Bump::is_empty)
    }
}

/// The changes that one transaction makes to its writer's preallocation. They stay when it is
/// [kept](Self::keep), and are undone when it is dropped.
pub(crate) struct PreallocTxn<'w> {
    prealloc: &'w mut Prealloc,
    /// The ranges and the number of single blocks before the first change.
    before: Option<(Ranges, usize)>,
    /// The oldest single blocks, which return to the bitmaps.
    leaving: usize,
}

impl<'w> PreallocTxn<'w> {
    pub(crate) fn new(prealloc: &'w mut Prealloc) -> Self {
        prealloc.returned.clear();
        PreallocTxn { prealloc, before: None, leaving: 0 }
    }

    /// Keeps the changes.
    #[inline(always)]
    pub(crate) fn keep(mut self) {
        self.before = None;
        if self.leaving > 0 {
            self.prealloc.singles.forget_oldest(self.leaving);
        }
        for block in self.prealloc.returned.drain(..) {
            let has_room = self.prealloc.singles.put(block as usize);
            debug_assert!(has_room, "`put` takes no block without room");
        }
    }

    fn ranges(&mut self) -> &mut Ranges {
        self.save();
        &mut self.prealloc.ranges
    }

    fn save(&mut self) {
        if self.before.is_none() {
            self.before = Some((self.prealloc.ranges, self.prealloc.singles.len()));
        }
    }

    /// Takes up to `want` blocks at block `goal`, where a range begins there.
    pub(crate) fn at(&mut self, goal: u64, want: u64) -> Option<Extent> {
        let ranges = &self.prealloc.ranges;
        let begins = |range: &Bump| range.next as u64 == goal && !range.is_empty();
        if let Some(i) = ranges.growing.iter().position(begins) {
            return take(&mut self.ranges().growing[i], want);
        }
        let i = ranges.small.iter().position(begins)?;
        take(&mut self.ranges().small[i], want)
    }

    /// Takes `want` blocks for a new file.
    pub(crate) fn small(&mut self, want: u64) -> Option<Extent> {
        let long_enough = |range: &Bump| (range.end - range.next) as u64 >= want;
        let i = self.prealloc.ranges.small.iter().position(long_enough)?;
        take(&mut self.ranges().small[i], want)
    }

    /// Takes up to `want` blocks of the longest range for new files.
    pub(crate) fn rest(&mut self, want: u64) -> Option<Extent> {
        let small = &self.prealloc.ranges.small;
        let i = (0..SMALL).max_by_key(|i| small[*i].end - small[*i].next)?;
        take(&mut self.ranges().small[i], want)
    }

    /// Takes a single block.
    pub(crate) fn single(&mut self) -> Option<u64> {
        debug_assert!(self.leaving <= self.prealloc.singles.len());
        if self.prealloc.singles.len() <= self.leaving {
            return None;
        }
        self.save();
        self.prealloc.singles.take().map(|block| block as u64)
    }

    /// Adds a range for new files. Returns the blocks of the shortest range, which it replaces.
    pub(crate) fn add_small(&mut self, extent: Extent) -> Option<Extent> {
        let ranges = self.ranges();
        let i = (0..SMALL).min_by_key(|i| ranges.small[*i].end - ranges.small[*i].next)?;
        replace(&mut ranges.small[i], extent)
    }

    /// Adds a range for a growing file. Returns the blocks of the range that it replaces.
    pub(crate) fn add_growing(&mut self, extent: Extent) -> Option<Extent> {
        let ranges = self.ranges();
        let i = match ranges.growing.iter().position(Bump::is_empty) {
            Some(free) => free,
            None => {
                ranges.turn = (ranges.turn + 1) % GROWING;
                ranges.turn
            }
        };
        replace(&mut ranges.growing[i], extent)
    }

    /// Gives a block back. False where the magazine is full: then its older half must go to the bitmaps
    /// first, see [`make_room`](Self::make_room).
    pub(crate) fn put(&mut self, block: u64) -> bool {
        let prealloc = &mut *self.prealloc;
        let staying = prealloc.singles.len() - self.leaving;
        let has_room = staying + prealloc.returned.len() < prealloc.singles.capacity();
        if has_room {
            prealloc.returned.push(block);
        }
        has_room
    }

    /// The single blocks that leave to make room; none after the first call of a transaction. The caller
    /// returns them to the bitmaps.
    pub(crate) fn make_room(&mut self) -> Vec<u64> {
        if self.leaving > 0 {
            return Vec::new();
        }
        self.leaving = self.prealloc.singles.len().div_ceil(2);
        self.prealloc.singles.items()[..self.leaving].iter().map(|block| *block as u64).collect()
    }
}

impl Drop for PreallocTxn<'_> {
    fn drop(&mut self) {
        if let Some((ranges, singles)) = self.before {
            debug_assert!(singles >= self.prealloc.singles.len(), "single blocks are added by `keep` only");
            self.prealloc.ranges = ranges;
            self.prealloc.singles.set_len(singles);
        }
    }
}

fn take(range: &mut Bump, want: u64) -> Option<Extent> {
    range.take_run(1, want as usize).map(|(first, count)| Extent::new(first as u64, count as u64))
}

fn replace(range: &mut Bump, extent: Extent) -> Option<Extent> {
    debug_assert!(extent.count > 0, "an empty range");
    let (next, end) = (extent.first as usize, extent.end() as usize);
    extent_of(std::mem::replace(range, Bump { next, end }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_transaction_that_is_dropped_leaves_the_preallocation_as_it_was() {
        let mut prealloc = Prealloc::default();
        let mut txn = PreallocTxn::new(&mut prealloc);
        assert!(
            txn.add_small(Extent::new(100, 10)).is_none() && txn.add_growing(Extent::new(200, 10)).is_none()
        );
        assert!(txn.put(7) && txn.put(8));
        txn.keep();
        for _ in 0..2 {
            let mut txn = PreallocTxn::new(&mut prealloc);
            assert_eq!(txn.at(200, 4), Some(Extent::new(200, 4)));
            assert_eq!(txn.at(204, 40), Some(Extent::new(204, 6)));
            assert_eq!(txn.small(4), Some(Extent::new(100, 4)));
            assert_eq!((txn.small(7), txn.rest(7)), (None, Some(Extent::new(104, 6))));
            assert_eq!((txn.single(), txn.single(), txn.single()), (Some(8), Some(7), None));
            // A returned block is not available before the transaction ends.
            assert!(txn.put(9) && txn.single().is_none());
        }
        assert_eq!(
            prealloc.drain(),
            [(100, 10), (200, 10), (7, 1), (8, 1)].map(|(first, count)| Extent::new(first, count))
        );
        assert!(prealloc.drain().is_empty());
    }

    #[test]
    fn the_older_half_of_a_full_magazine_makes_room() {
        let mut prealloc = Prealloc::default();
        let mut txn = PreallocTxn::new(&mut prealloc);
        assert!((0..SINGLES as u64).all(|block| txn.put(block)) && !txn.put(1000));
        txn.keep();
        for kept in [false, true] {
            let mut txn = PreallocTxn::new(&mut prealloc);
            assert!(!txn.put(1000));
            assert_eq!(txn.make_room(), (0..SINGLES as u64 / 2).collect::<Vec<_>>());
            assert!(txn.put(1000) && txn.make_room().is_empty());
            if kept {
                txn.keep();
            }
        }
        assert_eq!(prealloc.drain().len(), SINGLES / 2 + 1);
    }

    #[test]
    fn the_shortest_range_makes_room_and_growing_ones_take_turns() {
        let mut prealloc = Prealloc::default();
        let mut txn = PreallocTxn::new(&mut prealloc);
        for i in 0..SMALL as u64 {
            assert_eq!(txn.add_small(Extent::new(100 * i, 10 + i)), None);
        }
        assert_eq!(txn.add_small(Extent::new(5000, 20)), Some(Extent::new(0, 10)));
        let displaced: Vec<_> =
            (0..GROWING as u64 * 2).map(|i| txn.add_growing(Extent::new(i * 100, 5))).collect();
        assert!(displaced[..GROWING].iter().all(Option::is_none));
        assert_eq!(displaced[GROWING..].iter().flatten().count(), GROWING);
    }
}
