//! The memory of an epoch's batches, in bytes.

use crate::batches::read_files::FileContents;

/// Bytes of a file beside its content: its offset, its code and its row.
const BYTES_A_FILE: u64 = 16;

/// The memory of the batches that are read ahead or that the caller holds, and spare memory for the next
/// ones. Together they take the limit at most, unless a batch had to be read all the same.
pub(super) struct Budget {
    limit: u64,
    /// Memory that batches have.
    used: u64,
    spare: Vec<FileContents<'static>>,
    most: u64,
}

/// Memory for one batch.
#[derive(Default)]
pub(super) struct Room {
    pub(super) contents: FileContents<'static>,
    files: usize,
    /// The bytes that the budget counts.
    counted: u64,
}

/// Bytes that a batch takes.
pub(super) fn bytes_of(files: usize, content: u64) -> u64 {
    content.saturating_add(files as u64 * BYTES_A_FILE)
}

impl Budget {
    pub(super) fn new(limit: u64) -> Self {
        Budget { limit, used: 0, spare: Vec::new(), most: 0 }
    }

    pub(super) fn limit(&self) -> u64 {
        self.limit
    }

    pub(super) fn used(&self) -> u64 {
        self.used
    }

    /// The most memory so far, spare memory included.
    pub(super) fn most(&self) -> u64 {
        self.most
    }

    pub(super) fn has_room(&self, bytes: u64) -> bool {
        self.used.saturating_add(bytes) <= self.limit
    }

    /// Takes memory for a batch, whether there is room or not.
    pub(super) fn take(&mut self, files: usize, content: u64) -> Room {
        // Spare memory of twice the size would be wasted on it.
        let fits =
            |bytes: u64| bytes >= content && bytes / 2 <= content && self.has_room(bytes_of(files, bytes));
        let best = (0..self.spare.len())
            .filter(|index| fits(self.spare[*index].capacity()))
            .min_by_key(|index| self.spare[*index].capacity());
        let contents = best.map_or_else(FileContents::new, |index| self.spare.swap_remove(index));
        let counted = bytes_of(files, content.max(contents.capacity()));
        self.used = self.used.saturating_add(counted);
        self.trim();
        Room { contents, files, counted }
    }

    /// Counts a batch again: a file may have grown while it was read.
    pub(super) fn recount(&mut self, room: &mut Room) {
        let counted = bytes_of(room.files, room.contents.capacity());
        self.used = self.used.saturating_sub(room.counted).saturating_add(counted);
        room.counted = counted;
        self.trim();
    }

    /// Takes the memory of a batch back.
    pub(super) fn give_back(&mut self, mut room: Room) {
        self.used = self.used.saturating_sub(room.counted);
        room.contents.clear();
        if room.contents.capacity() > 0 {
            self.spare.push(room.contents);
        }
        self.trim();
    }

    /// Frees spare memory that does not fit, the oldest first.
    fn trim(&mut self) {
        let mut spare: u64 = self.spare.iter().map(FileContents::capacity).sum();
        while self.used.saturating_add(spare) > self.limit && !self.spare.is_empty() {
            spare -= self.spare.remove(0).capacity();
        }
        self.most = self.most.max(self.used.saturating_add(spare));
    }

    /// Frees all spare memory.
    pub(super) fn free_spare(&mut self) {
        self.spare.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lanefs_format::Code;

    fn read(budget: &mut Budget, content: u64) -> Room {
        let mut room = budget.take(1, content);
        room.contents.lay_out([(Code::Success, content)].into_iter()).expect("room");
        budget.recount(&mut room);
        room
    }

    #[test]
    fn memory_is_used_again_and_stays_within_the_limit() {
        let mut budget = Budget::new(1000);
        let rooms = [100, 200, 300].map(|content| read(&mut budget, content));
        assert_eq!(budget.used(), 600 + 3 * 16);
        let address = rooms[1].contents.bytes().as_ptr();
        rooms.into_iter().for_each(|room| budget.give_back(room));
        assert_eq!((budget.used(), budget.spare.len()), (0, 3));
        // The smallest that is large enough, and not one that is far too large.
        let again = read(&mut budget, 150);
        assert_eq!((again.contents.bytes().as_ptr(), budget.used()), (address, 216));
        let small = read(&mut budget, 20);
        assert_eq!((small.contents.capacity(), budget.spare.len()), (20, 2));
        // Spare memory gives way.
        let large = read(&mut budget, 700);
        assert_eq!(budget.spare.len(), 0);
        assert!(budget.most() <= 1000, "{}", budget.most());
        assert!(!budget.has_room(100));
        [again, small, large].into_iter().for_each(|room| budget.give_back(room));
        // One that is too large by itself is not kept.
        let alone = read(&mut budget, 3000);
        assert_eq!(budget.most(), 3016);
        budget.give_back(alone);
        assert_eq!(budget.spare.len(), 0);
    }
}
