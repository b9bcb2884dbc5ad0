//! Twin of `shaders/build.comp`.

use crate::shared::tasks::TaskView;
use crate::twin::headers::links::{Lanes, NEXT, PREVIOUS, Words, burn};
use crate::twin::headers::memory::Memory;
use crate::twin::headers::settings::KernelSettings;
use lanefs::bulk::{Added, Built, Head};
use lanefs::format::dir::{BUCKET_SLOTS, BUCKETS, REGION_MAX, Slot, index, small_tag};
use lanefs::format::{BLOCK, UNIT};

/// Builds the index of a region, and, for tasks with several heads, its part of the list. `merged` and
/// `after` belong to the task.
pub(crate) fn build<M: Memory>(
    memory: &M,
    setting: &KernelSettings,
    part: &TaskView<'_>,
    head: &Head,
    (merged, after): (&[Added], u64),
    words: &mut Words,
) -> Option<Built> {
    let lanes = Lanes::new(setting.workgroup, setting.fuel);
    let heads = part.heads.len();
    let from = cut(merged, head.number as usize, heads, &lanes)?;
    let to = cut(merged, head.number as usize + 1, heads, &lanes)?;
    let elements = merged.get(from..to)?;
    if elements.len() > REGION_MAX || elements.is_empty() && heads > 1 {
        return None;
    }
    for i in 0..elements.len() {
        burn(lanes.of(i))?;
    }
    let mut build = Build { memory, setting, part, head, elements, lanes, words };
    if head.index == 0 {
        build.small()?;
    } else {
        build.region()?;
    }
    if heads > 1 {
        build.link(from.checked_sub(1).and_then(|last| merged.get(last)), after)?;
    }
    build.lanes.end()?;
    let lowest = if head.number == 0 { part.lowest } else { elements.first()?.hash };
    Some(Built { lowest, count: elements.len() as u32 })
}

/// Returns the first entry of a task's region: regions have about the same size, and entries with the same
/// hash share one.
fn cut(merged: &[Added], number: usize, heads: usize, lanes: &Lanes) -> Option<usize> {
    let mut i = (number as u64 * merged.len() as u64 / heads.max(1) as u64) as usize;
    while i > 0 && i < merged.len() && merged.get(i - 1)?.hash == merged.get(i)?.hash {
        lanes.all().try_for_each(burn)?;
        i -= 1;
    }
    Some(i)
}

fn home(element: &Added) -> usize {
    Slot::home(element.hash as u16)
}

struct Build<'b, M> {
    memory: &'b M,
    setting: &'b KernelSettings,
    part: &'b TaskView<'b>,
    head: &'b Head,
    /// Entries of the region.
    elements: &'b [Added],
    lanes: Lanes,
    words: &'b mut Words,
}

impl<M: Memory> Build<'_, M> {
    /// Writes tags and units of a small directory into its inode.
    fn small(&mut self) -> Option<()> {
        let size = self.setting.inode_size;
        let leaf = self.head.dummy - self.head.dummy % BLOCK;
        let entries = size.small_entries();
        let is_there = |element: &Added| element.at - element.at % BLOCK == leaf;
        if self.elements.len() > entries || !self.elements.iter().all(is_there) {
            return None;
        }
        let byte = |i: usize| match self.elements.get(i % entries) {
            Some(element) if i < entries => small_tag(element.hash),
            Some(element) => (element.at % BLOCK / UNIT) as u8,
            None => 0,
        };
        for quad in 0..entries / 4 {
            burn(self.lanes.of(quad))?;
            self.lanes.of(quad).spend(8);
            let value = u64::from_le_bytes(std::array::from_fn(|k| byte(8 * quad + k)));
            let at = self.part.inode.wrapping_add((size.small_tags() + 8 * quad) as u64);
            self.words.push((at, value));
        }
        Some(())
    }

    /// Writes the slots of the index block.
    fn region(&mut self) -> Option<()> {
        let mut slots = [[0; BUCKET_SLOTS]; BUCKETS];
        let mut overflowed = vec![Vec::new(); BUCKETS];
        for (bucket, slots) in slots.iter_mut().enumerate() {
            overflowed[bucket] = self.bucket(bucket, slots)?;
        }
        self.spill(&mut slots, &overflowed)?;
        for (i, slot) in slots.iter().flatten().enumerate() {
            burn(self.lanes.of(i))?;
            let at = self.slot_at(i);
            let old = if self.head.is_new { 0 } else { self.memory.quad(at)? };
            if old != *slot {
                self.words.push((at, *slot));
            }
        }
        Some(())
    }

    /// Returns the position of a slot.
    fn slot_at(&self, i: usize) -> u64 {
        self.head.index.wrapping_add((index::SLOTS.offset + 8 * i) as u64)
    }

    /// Fills a bucket with its entries; an entry that lies there already keeps its slot. Returns the
    /// entries that find no slot.
    fn bucket(&self, bucket: usize, slots: &mut [u64; BUCKET_SLOTS]) -> Option<Vec<Slot>> {
        let fuel = self.lanes.of(bucket);
        burn(fuel)?;
        let mut is_placed = [false; REGION_MAX];
        if !self.head.is_new {
            let mut old = [0; BUCKET_SLOTS];
            for (i, old) in old.iter_mut().enumerate() {
                let flag = if i == 0 { Slot::OVERFLOW } else { 0 };
                *old = self.memory.quad(self.slot_at(bucket * BUCKET_SLOTS + i))? & !flag;
            }
            for (element, is_placed) in self.elements.iter().zip(&mut is_placed) {
                burn(fuel)?;
                let slot = Slot::new(element.hash, element.at).0;
                for (old, slots) in old.iter().zip(slots.iter_mut()) {
                    if home(element) == bucket && *old == slot {
                        *slots = slot;
                        *is_placed = true;
                    }
                }
            }
        }
        let mut overflowed = Vec::new();
        for (element, is_placed) in self.elements.iter().zip(is_placed) {
            burn(fuel)?;
            if is_placed || home(element) != bucket {
                continue;
            }
            let slot = Slot::new(element.hash, element.at);
            match slots.iter_mut().find(|there| **there == 0) {
                Some(free) => *free = slot.0,
                None => overflowed.push(slot),
            }
        }
        Some(overflowed)
    }

    /// Puts entries that overflow their bucket into the next bucket with a free slot, and marks the buckets
    /// that they pass.
    fn spill(&self, slots: &mut [[u64; BUCKET_SLOTS]; BUCKETS], overflowed: &[Vec<Slot>]) -> Option<()> {
        let fuel = self.lanes.of(0);
        for (home, overflowed) in overflowed.iter().enumerate() {
            burn(fuel)?;
            let mut bucket = home;
            for slot in overflowed {
                burn(fuel)?;
                let free = loop {
                    if let Some(free) = slots[bucket].iter_mut().find(|there| **there & !Slot::OVERFLOW == 0)
                    {
                        break free;
                    }
                    burn(fuel)?;
                    slots[bucket][0] |= Slot::OVERFLOW;
                    bucket = (bucket + 1) % BUCKETS;
                };
                *free = slot.0;
            }
        }
        Some(())
    }

    /// Links the region's part of the list, in order, between its dummy and the next one. `before` is the
    /// last entry of the region in front of it.
    fn link(&mut self, before: Option<&Added>, after: u64) -> Option<()> {
        let next_head = self.part.heads.get(self.head.number as usize + 1);
        let end = next_head.map_or(after, |head| head.dummy);
        let mut last = self.head.dummy;
        for (i, element) in self.elements.iter().enumerate() {
            burn(self.lanes.of(i))?;
            self.words.push((element.at + PREVIOUS, last));
            self.words.push((element.at + NEXT, self.elements.get(i + 1).map_or(end, |next| next.at)));
            last = element.at;
        }
        self.words.push((self.head.dummy + NEXT, self.elements.first()?.at));
        if self.head.number > 0 {
            self.words.push((self.head.dummy + PREVIOUS, before?.at));
        }
        if next_head.is_none() && after != 0 {
            self.words.push((after + PREVIOUS, last));
        }
        Some(())
    }
}
