//! Counters of a heap.

use crate::host::message::Line;

/// Numbers of events in one heap, or in several.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Allocations from a magazine. Only the feature `stats` counts these and the next.
    pub magazine_hits: u64,
    /// Allocations from a bump range.
    pub bump_hits: u64,
    /// Carves from a slab.
    pub refills: u64,
    /// Objects that the carves gave.
    pub refilled: u64,
    /// Times that a full magazine gave half of its objects back.
    pub overflows: u64,
    /// Objects that other threads freed.
    pub from_others: u64,
}

impl Stats {
    pub(crate) const NONE: Stats =
        Stats { magazine_hits: 0, bump_hits: 0, refills: 0, refilled: 0, overflows: 0, from_others: 0 };

    pub(crate) fn add(&mut self, other: &Stats) {
        self.magazine_hits += other.magazine_hits;
        self.bump_hits += other.bump_hits;
        self.refills += other.refills;
        self.refilled += other.refilled;
        self.overflows += other.overflows;
        self.from_others += other.from_others;
    }

    /// Prints all counters in a line on standard error.
    pub(crate) fn print(&self) {
        let mut line = Line::new();
        line.add(b"stats:");
        let mut add = |name: &str, count: u64| {
            line.add(b" ");
            line.add(name.as_bytes());
            line.add(b"=");
            line.add_number(count as usize, 10);
        };
        if cfg!(feature = "stats") {
            add("magazine_hits", self.magazine_hits);
            add("bump_hits", self.bump_hits);
        }
        add("refills", self.refills);
        add("refilled", self.refilled);
        add("overflows", self.overflows);
        add("from_others", self.from_others);
        line.print();
    }
}
