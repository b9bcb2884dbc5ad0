//! What a writer has in stock: blocks that the bitmaps call used and that no file has yet, or any more.
//!
//! The layers are those of [`lanefs_alloc::policy`]: a magazine of single blocks that came back, and ranges of blocks that were
//! carved from the bitmaps in one step. A writer has several ranges: some for files that begin, which so lie together, and
//! one for each of the files that it made longer last, which so go on where they end.
//!
//! Nothing of it is on the device: before what changed is copied for a commit, before a check and when the volume is full, all
//! of it goes back to the bitmaps (`Shared::recall`).

use lanefs_alloc::policy::{Bump, OwnMagazine};

/// Ranges for files that begin: so many runs of one group are carved in one pass.
pub(crate) const SMALL: usize = 8;

/// Ranges for files that grow: so many at a time do so in place.
const GROWING: usize = 4;

/// Single blocks that may lie in stock. Half of them goes back to the bitmaps at a time.
const SINGLES: usize = 128;

/// Consecutive blocks: the number of the first, and how many.
pub(crate) type Run = (u64, u64);

#[derive(Clone, Copy, Debug, Default)]
struct Ranges {
    small: [Bump; SMALL],
    growing: [Bump; GROWING],
    /// The range for a growing file that makes room for the next one.
    turn: usize,
}

/// A writer's stock.
pub(crate) struct Stock {
    ranges: Ranges,
    singles: OwnMagazine,
    /// Single blocks that come back with the running change.
    came: Vec<u64>,
}

impl Default for Stock {
    fn default() -> Self {
        Stock { ranges: Ranges::default(), singles: OwnMagazine::new(SINGLES), came: Vec::new() }
    }
}

fn run_of(range: Bump) -> Option<Run> {
    (!range.is_empty()).then(|| (range.next as u64, (range.end - range.next) as u64))
}

impl Stock {
    /// Takes everything out.
    pub(crate) fn empty(&mut self) -> Vec<Run> {
        let Ranges { small, growing, .. } = std::mem::take(&mut self.ranges);
        let mut runs: Vec<Run> = small.into_iter().chain(growing).filter_map(run_of).collect();
        runs.extend(self.singles.items().iter().map(|block| (*block as u64, 1)));
        self.singles.set_len(0);
        runs
    }
}

/// What one change does with its writer's stock: [kept](Self::keep), or put back as it was when it is dropped.
pub(crate) struct Draw<'w> {
    stock: &'w mut Stock,
    /// The ranges and the number of singles before, where they are others now.
    before: Option<(Ranges, usize)>,
    /// Singles that go back to the bitmaps.
    leaving: usize,
}

impl<'w> Draw<'w> {
    pub(crate) fn new(stock: &'w mut Stock) -> Self {
        stock.came.clear();
        Draw { stock, before: None, leaving: 0 }
    }

    /// Keeps what was done.
    #[inline(always)]
    pub(crate) fn keep(mut self) {
        self.before = None;
        if self.leaving > 0 {
            self.stock.singles.forget_oldest(self.leaving);
        }
        for block in self.stock.came.drain(..) {
            // There is room: `put` saw to it.
            let _ = self.stock.singles.put(block as usize);
        }
    }

    fn ranges(&mut self) -> &mut Ranges {
        self.remember();
        &mut self.stock.ranges
    }

    fn remember(&mut self) {
        if self.before.is_none() {
            self.before = Some((self.stock.ranges, self.stock.singles.len()));
        }
    }

    /// Up to `want` blocks from `goal` on, where a range goes on there.
    pub(crate) fn at(&mut self, goal: u64, want: u64) -> Option<Run> {
        let ranges = &self.stock.ranges;
        let goes_on = |range: &Bump| range.next as u64 == goal && !range.is_empty();
        if let Some(i) = ranges.growing.iter().position(goes_on) {
            return take(&mut self.ranges().growing[i], want);
        }
        let i = ranges.small.iter().position(goes_on)?;
        take(&mut self.ranges().small[i], want)
    }

    /// `want` blocks for a file that begins.
    pub(crate) fn small(&mut self, want: u64) -> Option<Run> {
        let i = self.stock.ranges.small.iter().position(|range| (range.end - range.next) as u64 >= want)?;
        take(&mut self.ranges().small[i], want)
    }

    /// The longest run for a file that begins, at most `want` blocks of it.
    pub(crate) fn rest(&mut self, want: u64) -> Option<Run> {
        let small = &self.stock.ranges.small;
        let i = (0..SMALL).max_by_key(|i| small[*i].end - small[*i].next)?;
        take(&mut self.ranges().small[i], want)
    }

    /// A block that came back.
    pub(crate) fn single(&mut self) -> Option<u64> {
        if self.stock.singles.len() <= self.leaving {
            return None;
        }
        self.remember();
        self.stock.singles.take().map(|block| block as u64)
    }

    /// Puts carved blocks into stock for files that begin. Returns what had to make room: the shortest run.
    pub(crate) fn add_small(&mut self, (first, count): Run) -> Option<Run> {
        let ranges = self.ranges();
        let i = (0..SMALL).min_by_key(|i| ranges.small[*i].end - ranges.small[*i].next)?;
        replace(&mut ranges.small[i], first, count)
    }

    /// Puts carved blocks into stock for a file that grows. Returns what had to make room.
    pub(crate) fn add_growing(&mut self, (first, count): Run) -> Option<Run> {
        let ranges = self.ranges();
        let i = match ranges.growing.iter().position(Bump::is_empty) {
            Some(free) => free,
            None => {
                ranges.turn = (ranges.turn + 1) % GROWING;
                ranges.turn
            }
        };
        replace(&mut ranges.growing[i], first, count)
    }

    /// Takes a block back. Where the magazine is full, its older half must go to the bitmaps first: see
    /// [`make_room`](Self::make_room).
    pub(crate) fn put(&mut self, block: u64) -> bool {
        let stock = &mut *self.stock;
        let has_room = stock.singles.len() - self.leaving + stock.came.len() < stock.singles.capacity();
        if has_room {
            stock.came.push(block);
        }
        has_room
    }

    /// Singles that leave to make room, once in a change; the caller gives them back to the bitmaps.
    pub(crate) fn make_room(&mut self) -> Vec<u64> {
        if self.leaving > 0 {
            return Vec::new();
        }
        self.leaving = self.stock.singles.len().div_ceil(2);
        self.stock.singles.items()[..self.leaving].iter().map(|block| *block as u64).collect()
    }
}

impl Drop for Draw<'_> {
    fn drop(&mut self) {
        if let Some((ranges, singles)) = self.before {
            self.stock.ranges = ranges;
            self.stock.singles.set_len(singles);
        }
    }
}

fn take(range: &mut Bump, want: u64) -> Option<Run> {
    range.take_run(1, want as usize).map(|(first, count)| (first as u64, count as u64))
}

fn replace(range: &mut Bump, first: u64, count: u64) -> Option<Run> {
    let before = std::mem::replace(range, Bump { next: first as usize, end: (first + count) as usize });
    run_of(before)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_that_is_dropped_leaves_the_stock_as_it_was() {
        let mut stock = Stock::default();
        let mut draw = Draw::new(&mut stock);
        assert!(draw.add_small((100, 10)).is_none() && draw.add_growing((200, 10)).is_none());
        assert!(draw.put(7) && draw.put(8));
        draw.keep();
        for _ in 0..2 {
            let mut draw = Draw::new(&mut stock);
            assert_eq!(draw.at(200, 4), Some((200, 4)));
            assert_eq!(draw.at(204, 40), Some((204, 6)));
            assert_eq!(draw.small(4), Some((100, 4)));
            assert_eq!((draw.small(7), draw.rest(7)), (None, Some((104, 6))));
            assert_eq!((draw.single(), draw.single(), draw.single()), (Some(8), Some(7), None));
            // What comes back is not to be had before the change is over.
            assert!(draw.put(9) && draw.single().is_none());
        }
        assert_eq!(stock.empty(), [(100, 10), (200, 10), (7, 1), (8, 1)]);
        assert!(stock.empty().is_empty());
    }

    #[test]
    fn the_older_half_of_a_full_magazine_makes_room() {
        let mut stock = Stock::default();
        let mut draw = Draw::new(&mut stock);
        assert!((0..SINGLES as u64).all(|block| draw.put(block)) && !draw.put(1000));
        draw.keep();
        for kept in [false, true] {
            let mut draw = Draw::new(&mut stock);
            assert!(!draw.put(1000));
            assert_eq!(draw.make_room(), (0..SINGLES as u64 / 2).collect::<Vec<_>>());
            assert!(draw.put(1000) && draw.make_room().is_empty());
            if kept {
                draw.keep();
            }
        }
        assert_eq!(stock.empty().len(), SINGLES / 2 + 1);
    }

    #[test]
    fn the_shortest_range_makes_room_and_growing_ones_take_turns() {
        let mut stock = Stock::default();
        let mut draw = Draw::new(&mut stock);
        for i in 0..SMALL as u64 {
            assert_eq!(draw.add_small((100 * i, 10 + i)), None);
        }
        assert_eq!(draw.add_small((5000, 20)), Some((0, 10)));
        let displaced: Vec<_> = (0..GROWING as u64 * 2).map(|i| draw.add_growing((i * 100, 5))).collect();
        assert!(displaced[..GROWING].iter().all(Option::is_none));
        assert_eq!(displaced[GROWING..].iter().flatten().count(), GROWING);
    }
}
