//! Twin of `shaders/gather.comp`.

use crate::shared::tasks::TaskView;
use crate::twin::headers::fuel::Fuel;
use crate::twin::headers::links::{Lanes, Links, NEXT, PREVIOUS, Words, burn};
use crate::twin::headers::memory::Memory;
use crate::twin::headers::settings::KernelSettings;
use lanefs::bulk::{Added, Source};
use lanefs::format::UNIT;
use lanefs::format::dir::{LEAF_HEADER_UNITS, REGION_MAX, Slot, index};

/// The entries of a task that stay.
pub(crate) struct Gathered {
    /// The entries, in order.
    pub(crate) items: Vec<Added>,
    /// The position that follows them in the list; only of tasks with several heads.
    pub(crate) after: u64,
}

/// Finds the entries that stay, and, for tasks with one head, links them again.
pub(crate) fn gather<M: Memory>(
    memory: &M,
    setting: &KernelSettings,
    part: &TaskView<'_>,
    words: &mut Words,
) -> Option<Gathered> {
    let lanes = Lanes::new(setting.workgroup, setting.fuel);
    let links = Links { memory, removed: part.removed };
    let mut gather = Gather { setting, part, links, lanes, words };
    let items = gather.items()?;
    let after = gather.relink(&items)?;
    gather.lanes.end()?;
    Some(Gathered { items, after })
}

struct Gather<'g, M> {
    setting: &'g KernelSettings,
    part: &'g TaskView<'g>,
    links: Links<'g, M>,
    lanes: Lanes,
    words: &'g mut Words,
}

impl<M: Memory> Gather<'_, M> {
    /// Returns the entries that stay, by hash and position.
    fn items(&self) -> Option<Vec<Added>> {
        let mut found = Vec::new();
        for source in self.part.sources {
            self.lanes.all().try_for_each(burn)?;
            match source {
                Source::Small(leaf) => self.small(*leaf, &mut found)?,
                Source::Region(index) => self.region(*index, &mut found)?,
            }
        }
        if found.len() != self.part.stay as usize {
            return None;
        }
        let mut items = Vec::with_capacity(found.len());
        for (i, at) in found.into_iter().enumerate() {
            burn(self.lanes.of(i))?;
            items.push(Added { hash: self.links.hash(at)?, at });
        }
        items.sort_unstable();
        for i in 0..items.len() {
            burn(self.lanes.of(i))?;
            self.lanes.of(i).spend(items.len() as u32);
        }
        items.is_sorted_by(|a, b| a < b).then_some(items)
    }

    fn small(&self, leaf: u64, found: &mut Vec<u64>) -> Option<()> {
        let size = self.setting.inode_size;
        for i in 0..size.small_entries() {
            burn(self.lanes.of(i))?;
            let byte = size.small_units() + i;
            let word = self.links.memory.word(self.part.inode.wrapping_add(byte as u64 & !3))?;
            let unit = word >> (byte % 4 * 8) & 0xff;
            if unit != 0 {
                self.take(self.lanes.of(i), leaf.wrapping_add(u64::from(unit) * UNIT), found)?;
            }
        }
        Some(())
    }

    fn region(&self, at: u64, found: &mut Vec<u64>) -> Option<()> {
        self.links.dummy_of(at)?;
        if self.links.memory.word(at + index::UNINDEXED.offset as u64)? != 0 {
            return None;
        }
        for i in 0..index::SLOTS.len {
            burn(self.lanes.of(i))?;
            let slot = self.links.memory.quad(at + (index::SLOTS.offset + 8 * i) as u64)?;
            if Slot(slot).position() != 0 {
                self.take(self.lanes.of(i), Slot(slot).position(), found)?;
            }
        }
        Some(())
    }

    fn take(&self, fuel: &Fuel, at: u64, found: &mut Vec<u64>) -> Option<()> {
        if !self.links.is_removed(fuel, at)? {
            (found.len() < REGION_MAX).then_some(())?;
            found.push(at);
        }
        Some(())
    }

    /// Returns the dummy of the first region, 0 in a directory without entries.
    fn old_dummy(&self) -> Option<u64> {
        match self.part.sources.first() {
            None => Some(0),
            Some(Source::Region(index)) => self.links.dummy_of(*index),
            Some(Source::Small(leaf)) => {
                let dummy = leaf.wrapping_add(LEAF_HEADER_UNITS as u64 * UNIT);
                self.links.is_dummy(dummy)?.then_some(dummy)
            }
        }
    }

    /// Tells whether a link leads out of the regions of the task.
    fn leads_out(&self, to: u64) -> Option<bool> {
        Some(to == 0 || self.links.is_dummy(to)?)
    }

    /// Returns the position that follows all entries that stay. With one head it links these again, in their
    /// old order, after the added ones.
    fn relink(&mut self, items: &[Added]) -> Option<u64> {
        let old = self.old_dummy()?;
        let head = self.part.heads.first()?;
        if !self.part.sources.is_empty() && head.dummy != old {
            return None;
        }
        let is_one = self.part.heads.len() == 1;
        let (mut tails, mut after) = (0, 0);
        for (i, item) in items.iter().enumerate() {
            burn(self.lanes.of(i))?;
            let next = self.links.follow(self.lanes.of(i), item.at, NEXT)?;
            let is_tail = self.leads_out(next)?;
            if is_tail {
                (tails, after) = (tails + 1, next);
            }
            if is_one {
                self.relink_one(i, item.at, (next, is_tail), old)?;
            }
        }
        let first = match self.part.sources {
            [] => 0,
            _ => self.links.follow(self.lanes.of(0), old, NEXT)?,
        };
        // The dummy leads to the entries that stay, or, without any, to the position that follows.
        if self.leads_out(first)? != items.is_empty() || tails != usize::from(!items.is_empty()) {
            return None;
        }
        if is_one {
            self.open(first, items.is_empty())?;
            self.link_added(first)?;
        }
        Some(if items.is_empty() { first } else { after })
    }

    fn relink_one(&mut self, i: usize, at: u64, (next, is_tail): (u64, bool), old: u64) -> Option<()> {
        self.set(at, NEXT, next)?;
        if is_tail && next != 0 {
            self.set(next, PREVIOUS, at)?;
        }
        let previous = self.links.follow(self.lanes.of(i), at, PREVIOUS)?;
        let previous = if previous == old { self.last_in_front()? } else { previous };
        self.set(at, PREVIOUS, previous)
    }

    /// Returns the predecessor of the entries that stay: the last added one, or the dummy.
    fn last_in_front(&self) -> Option<u64> {
        self.part.added.last().map_or(self.part.heads.first().map(|head| head.dummy), |added| Some(added.at))
    }

    /// Writes a link where it changes.
    fn set(&mut self, at: u64, link: u64, to: u64) -> Option<()> {
        if self.links.link(at, link)? != to {
            self.words.push((at + link, to));
        }
        Some(())
    }

    /// Links the dummy with its successor, and, where no entry stays, the position that follows with its
    /// predecessor.
    fn open(&mut self, first: u64, is_empty: bool) -> Option<()> {
        let dummy = self.part.heads.first()?.dummy;
        let to = self.part.added.first().map_or(first, |added| added.at);
        if self.part.sources.is_empty() {
            self.words.push((dummy + NEXT, to));
        } else {
            self.set(dummy, NEXT, to)?;
        }
        if is_empty && first != 0 {
            self.set(first, PREVIOUS, self.last_in_front()?)?;
        }
        Some(())
    }

    /// Links the added entries, in order, between the dummy and `first`.
    fn link_added(&mut self, first: u64) -> Option<()> {
        let mut before = self.part.heads.first()?.dummy;
        for (i, added) in self.part.added.iter().enumerate() {
            burn(self.lanes.of(i))?;
            self.words.push((added.at + PREVIOUS, before));
            let next = self.part.added.get(i + 1).map_or(first, |next| next.at);
            self.words.push((added.at + NEXT, next));
            before = added.at;
        }
        Some(())
    }
}
