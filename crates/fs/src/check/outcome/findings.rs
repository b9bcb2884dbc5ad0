//! Collects findings.

use crate::check::outcome::invariants::Invariant;
use crate::check::outcome::report::Finding;

/// Most findings that a report lists, so that a volume full of faults does not fill memory.
const LISTED: usize = 100_000;

/// The findings of a pass over the volume.
#[derive(Default)]
pub(in crate::check) struct Findings {
    pub(in crate::check) list: Vec<Finding>,
    /// Number of findings that are not listed.
    pub(in crate::check) more: u64,
}

impl Findings {
    pub(in crate::check) fn add(&mut self, at: u64, invariant: &Invariant, detail: impl AsRef<str>) {
        if self.list.len() >= LISTED {
            self.more += 1;
            return;
        }
        let detail = detail.as_ref();
        let text = if detail.is_empty() {
            invariant.broken.to_owned()
        } else {
            format!("{}: {detail}", invariant.broken)
        };
        self.list.push(Finding { at, invariant: invariant.name, text, repaired: false });
    }

    /// Adds findings of another thread.
    pub(in crate::check) fn append(&mut self, mut other: Findings) {
        let room = LISTED.saturating_sub(self.list.len()).min(other.list.len());
        self.more += other.more + (other.list.len() - room) as u64;
        self.list.extend(other.list.drain(..room));
    }

    /// Returns true where nothing was found.
    pub(in crate::check) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Adds the findings of one inode.
    pub(in crate::check) fn take(&mut self, tally: Tally) {
        for (invariant, at, count) in tally.items {
            let often = if count > 1 { format!(", {count} times") } else { String::new() };
            self.add(at, invariant, format!("inode {}{often}", tally.ino));
        }
    }
}

/// Faults of one inode and of the blocks that it owns: each invariant is reported once, with the first
/// position and the number.
pub(in crate::check) struct Tally {
    pub(in crate::check) ino: u64,
    items: Vec<(&'static Invariant, u64, u64)>,
}

impl Tally {
    pub(in crate::check) fn new(ino: u64) -> Self {
        Tally { ino, items: Vec::new() }
    }

    pub(in crate::check) fn note(&mut self, at: u64, invariant: &'static Invariant) {
        match self.items.iter_mut().find(|(known, ..)| known.name == invariant.name) {
            Some((_, _, count)) => *count += 1,
            None => self.items.push((invariant, at, 1)),
        }
    }
}
