//! The hash-ordered list of a directory, and its regions.

use super::bytes::Words;
use super::directory::Directory;
use super::{Read, ensure};
use std::collections::BTreeSet;

impl Directory<'_, '_> {
    /// Walks the list from its start: it has every entry once, and regions in ascending order of hash.
    pub(super) fn check_list(&self) -> Read<()> {
        let dummies = self.entries.iter().filter(|(_, entry)| entry.is_dummy());
        let starts: Vec<u64> = dummies.filter(|(_, dummy)| dummy.previous == 0).map(|(at, _)| *at).collect();
        if self.entries.is_empty() {
            return Ok(());
        }
        ensure(starts.len() == 1, || format!("the list begins at {starts:x?}"))?;
        let (mut at, mut previous) = (starts[0], 0);
        let (mut lowest, mut left) = (0, 0);
        let mut seen = BTreeSet::new();
        while at != 0 {
            ensure(seen.insert(at), || format!("the list comes back to {at:#x}"))?;
            let entry = self.entries.get(&at).ok_or_else(|| format!("the list leads to {at:#x}"))?;
            ensure(entry.previous == previous, || format!("entry {at:#x} has a wrong predecessor"))?;
            if entry.is_dummy() {
                ensure(left == 0, || format!("the region before {at:#x} lacks {left} entries"))?;
                let rises = if previous == 0 { entry.hash == 0 } else { entry.hash > lowest };
                ensure(rises, || format!("a region from {:#x} on after one from {lowest:#x}", entry.hash))?;
                (lowest, left) = (entry.hash, u32::from(entry.count) + self.unindexed(entry.inode)?);
            } else {
                ensure(left > 0, || format!("entry {at:#x} is in no region"))?;
                ensure(entry.hash >= lowest, || format!("entry {at:#x} is in a region above its hash"))?;
                left -= 1;
            }
            // The next dummy must have a higher hash than all entries before it.
            if let Some(next) = self.entries.get(&entry.next).filter(|next| next.is_dummy()) {
                let highest = self.highest_of_region(at);
                ensure(highest < next.hash, || {
                    format!("entry with {highest:#x} before region {:#x}", next.hash)
                })?;
            }
            (previous, at) = (at, entry.next);
        }
        ensure(left == 0, || format!("the last region lacks {left} entries"))?;
        ensure(seen.len() == self.entries.len(), || {
            format!("the list has {} entries of {}", seen.len(), self.entries.len())
        })
    }

    /// Number of entries of a region that its index block has no slots for; 0 without an index block.
    pub(super) fn unindexed(&self, index: u64) -> Read<u32> {
        if index == 0 { Ok(0) } else { Ok(self.volume.metadata(index, 8, self.inode.number)?.u32(24)) }
    }

    /// Highest hash of the region that ends with the entry at `at`.
    fn highest_of_region(&self, mut at: u64) -> u32 {
        let mut highest = 0;
        // The caller has walked this way, so it ends at the region's dummy.
        while let Some(entry) = self.entries.get(&at) {
            highest = highest.max(entry.hash);
            if entry.is_dummy() {
                break;
            }
            at = entry.previous;
        }
        highest
    }
}
