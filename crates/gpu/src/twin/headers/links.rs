//! Links of entries, as in `shaders/change.glsl`. `None` stands for the kernels' `is_bad`.

use crate::twin::headers::fuel::Fuel;
use crate::twin::headers::memory::Memory;
use lanefs::format::dir::{entry, index, leaf};
use lanefs::format::{BLOCK, BlockKind, UNIT};

/// Words of 8 bytes, each with its position.
pub(crate) type Words = Vec<(u64, u64)>;

pub(in crate::twin) const NEXT: u64 = entry::NEXT.offset as u64;
pub(in crate::twin) const PREVIOUS: u64 = entry::PREVIOUS.offset as u64;

/// Uses up one round; `None` where none is left.
pub(in crate::twin) fn burn(fuel: &Fuel) -> Option<()> {
    fuel.burn().then_some(())
}

/// The invocations of a workgroup, which share its work in turn.
pub(in crate::twin) struct Lanes(Vec<Fuel>);

impl Lanes {
    pub(in crate::twin) fn new(count: u32, rounds: u32) -> Self {
        Lanes((0..count.max(1)).map(|_| Fuel::new(rounds)).collect())
    }

    /// Returns the fuel of the invocation that does number `i`.
    pub(in crate::twin) fn of(&self, i: usize) -> &Fuel {
        &self.0[i % self.0.len()]
    }

    pub(in crate::twin) fn all(&self) -> impl Iterator<Item = &Fuel> {
        self.0.iter()
    }

    /// Checks that each invocation has fuel left; else no result counts.
    pub(in crate::twin) fn end(&self) -> Option<()> {
        self.all().all(|fuel| fuel.left() > 0).then_some(())
    }
}

/// The list of entries, and the entries that are removed from it.
pub(in crate::twin) struct Links<'m, M> {
    pub(in crate::twin) memory: &'m M,
    /// Removed positions, ascending.
    pub(in crate::twin) removed: &'m [u64],
}

impl<M: Memory> Links<'_, M> {
    /// Tells whether a position is removed. Compares seven at a time.
    pub(in crate::twin) fn is_removed(&self, fuel: &Fuel, at: u64) -> Option<bool> {
        let mut left = self.removed;
        while left.len() > 8 {
            burn(fuel)?;
            let part = left.len().div_ceil(8);
            let is_below = |k: &usize| left.get(k * part).is_some_and(|there| *there <= at);
            let from = part * (1..8).filter(is_below).count();
            left = left.get(from..left.len().min(from + part))?;
        }
        Some(left.contains(&at))
    }

    /// Checks that an entry can lie at a position.
    fn entry(&self, at: u64) -> Option<u64> {
        let inside = at % BLOCK;
        let fits = at.is_multiple_of(UNIT)
            && inside >= leaf::SIZE as u64
            && inside + entry::SIZE as u64 <= BLOCK
            && self.memory.word(at).is_some();
        fits.then_some(at)
    }

    pub(in crate::twin) fn link(&self, at: u64, link: u64) -> Option<u64> {
        self.memory.quad(self.entry(at)? + link)
    }

    /// Returns the word with the length of the name.
    fn name_word(&self, at: u64) -> Option<u32> {
        self.memory.word(self.entry(at)? + entry::HASH.offset as u64 + 4)
    }

    pub(in crate::twin) fn is_dummy(&self, at: u64) -> Option<bool> {
        Some(self.name_word(at)? & 0xff == 0)
    }

    /// Returns the number of entries of a dummy's region.
    pub(in crate::twin) fn count(&self, dummy: u64) -> Option<u32> {
        let rest = self.name_word(dummy)?;
        (rest & 0xff == 0).then_some(rest >> 16)
    }

    /// Returns the hash of an entry, which is not a dummy.
    pub(in crate::twin) fn hash(&self, at: u64) -> Option<u32> {
        let rest = self.name_word(at)?;
        let hash = self.memory.word(at + entry::HASH.offset as u64)?;
        (rest & 0xff != 0 && rest >> 16 == 0).then_some(hash)
    }

    /// Follows a link past all removed entries.
    pub(in crate::twin) fn follow(&self, fuel: &Fuel, at: u64, link: u64) -> Option<u64> {
        let mut to = self.link(at, link)?;
        for _ in 0..=self.removed.len() {
            burn(fuel)?;
            if to == 0 || !self.is_removed(fuel, to)? {
                return Some(to);
            }
            to = self.link(to, link)?;
        }
        None
    }

    /// Returns the dummy that the index block of a region names.
    pub(in crate::twin) fn dummy_of(&self, index: u64) -> Option<u64> {
        let head = self.memory.word(index)?;
        if !index.is_multiple_of(BLOCK) || head & 0xff != BlockKind::Index as u32 {
            return None;
        }
        let dummy = self.memory.quad(index + index::DUMMY.offset as u64)?;
        self.is_dummy(dummy)?.then_some(dummy)
    }
}
