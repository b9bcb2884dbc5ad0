//! Lookups of names, by the four forms of a directory.

use super::bytes::Words;
use super::claims::BlockUser;
use super::directory::Directory;
use super::hash::hash;
use super::{BLOCK, Read, ensure, wrong};
use std::collections::{BTreeMap, BTreeSet};

const BUCKETS: u32 = 63;
const SLOTS: u32 = 8;
/// Bit of a bucket's first slot: entries of this bucket lie in the next ones.
const OVERFLOW: u64 = 1 << 16;
/// First unit of a leaf after its header.
const FIRST_UNIT: u64 = 5;

/// A region: its lowest hash, and the position of its index block.
struct Region {
    lowest: u32,
    index: u64,
}

impl Directory<'_, '_> {
    /// Checks that lookups find each name, and no other one. Returns the number of tree and index blocks.
    pub(super) fn check_lookups(&self) -> Read<u64> {
        let tail = self.inode.tail();
        let (root, entries) = if tail.len() == 160 { (tail.u64(96), 28) } else { (tail.u64(8), 8) };
        let at = root / BLOCK * BLOCK;
        let units = &tail[tail.len() - entries..];
        ensure(root & 3 == 1 || units.iter().all(|unit| *unit == 0), || {
            format!("a small index beside the root {root:#x}")
        })?;
        match root & 3 {
            0 => ensure(root == 0 && self.entries.is_empty(), || format!("root {root:#x}")).map(|()| 0),
            1 => self.check_small(at, entries).map(|()| 0),
            2 => self.check_regions(&[Region { lowest: 0, index: at }], 1),
            _ => {
                let mut regions = Vec::new();
                let blocks = self.walk_tree(root, &mut regions)?;
                self.check_regions(&regions, blocks + regions.len() as u64)
            }
        }
    }

    fn check_small(&self, leaf: u64, slots: usize) -> Read<()> {
        let is_leaf = self.leaves.len() == 1 && self.leaves[0].at == leaf;
        ensure(is_leaf, || format!("a small directory with the leaf {leaf:#x}"))?;
        let tags = self.inode.tail().len() - 2 * slots;
        let mut found = BTreeMap::new();
        for i in 0..slots {
            let (tag, unit) = (self.inode.tail().u8(tags + i), self.inode.tail().u8(tags + slots + i));
            if unit != 0 {
                found.insert(leaf + u64::from(unit) * 16, tag);
            }
        }
        for (at, entry) in &self.entries {
            if entry.is_dummy() {
                let good = *at == leaf + FIRST_UNIT * 16 && entry.inode == 0;
                ensure(good, || format!("the dummy of a small directory at {at:#x}"))?;
                continue;
            }
            let tag = found.remove(at);
            ensure(tag == Some((entry.hash >> 24) as u8), || format!("entry {at:#x} has the tag {tag:?}"))?;
        }
        ensure(found.is_empty(), || format!("the small index has {found:x?} more"))
    }

    /// Collects the regions of a tree. Returns the number of tree blocks.
    fn walk_tree(&self, root: u64, regions: &mut Vec<Region>) -> Read<u64> {
        let head = self.tree_block(root / BLOCK * BLOCK)?;
        let (level, count) = (root >> 2 & 3, root >> 4 & 0xff);
        let known = level != 0;
        let agrees = level == u64::from(head.u8(1)) && count == u64::from(head.u16(2));
        ensure(if known { agrees } else { count == 0 }, || format!("root {root:#x} against its block"))?;
        let mut open = vec![(root / BLOCK * BLOCK, head.u8(1), 0)];
        let mut blocks = 0;
        // Depth first, and children in order, so the regions come in order.
        while let Some((at, level, lowest)) = open.pop() {
            if level == 0 {
                regions.push(Region { lowest, index: at });
                continue;
            }
            blocks += 1;
            self.volume.claims.claim(at, 1, BlockUser::Metadata(7, self.inode.number))?;
            let block = self.tree_block(at)?;
            let count = usize::from(block.u16(2));
            let form = if level == 1 { 2 } else { 3 };
            ensure(block.u8(1) == level && (1..=255).contains(&count), || format!("tree block {at:#x}"))?;
            let hashes: Vec<u32> = (0..count).map(|i| block.u32(16 + 4 * i)).collect();
            ensure(hashes[0] == lowest && hashes.is_sorted_by(|a, b| a < b), || {
                format!("hashes of tree block {at:#x}")
            })?;
            for i in (0..count).rev() {
                ensure(block.u32(1036 + 4 * i) == form, || format!("form of a child of {at:#x}"))?;
                open.push((block.u64(2056 + 8 * i), level - 1, hashes[i]));
            }
        }
        Ok(blocks)
    }

    fn tree_block(&self, at: u64) -> Read<std::rc::Rc<[u8]>> {
        self.volume.metadata(at, 7, self.inode.number)
    }

    /// Checks the regions against the dummies, and looks up each name and a name that is not there.
    fn check_regions(&self, regions: &[Region], blocks: u64) -> Read<u64> {
        let mut dummies = BTreeMap::new();
        for (at, dummy) in self.entries.iter().filter(|(_, entry)| entry.is_dummy()) {
            dummies.insert(dummy.hash, (*at, dummy.inode));
        }
        ensure(dummies.len() == regions.len(), || format!("{} dummies", dummies.len()))?;
        for region in regions {
            self.volume.claims.claim(region.index, 1, BlockUser::Metadata(8, self.inode.number))?;
            let index = self.volume.metadata(region.index, 8, self.inode.number)?;
            let dummy = dummies.get(&region.lowest).copied();
            ensure(dummy == Some((index.u64(16), region.index)), || {
                format!("region {:#x}: index {:#x}, dummy {dummy:x?}", region.lowest, region.index)
            })?;
            let used = (0..504).filter(|i| index.u64(64 + 8 * i) >> 17 != 0).count();
            let count = self.entries.get(&index.u64(16)).map_or(0, |dummy| usize::from(dummy.count));
            ensure(used == count, || format!("index {:#x} has {used} entries of {count}", region.index))?;
            self.check_unindexed(region, used)?;
        }
        for (at, entry) in self.entries.iter().filter(|(_, entry)| !entry.is_dummy()) {
            let found = self.find(regions, &entry.name)?;
            ensure(found == Some(*at), || {
                format!("a lookup of {:?} finds {found:x?}", String::from_utf8_lossy(&entry.name))
            })?;
        }
        Ok(blocks)
    }

    /// Checks that only a full index lacks entries, which all have the same hash.
    fn check_unindexed(&self, region: &Region, used: usize) -> Read<()> {
        let count = self.unindexed(region.index)?;
        if count == 0 {
            return Ok(());
        }
        ensure(used == 256, || format!("index {:#x} lacks {count} entries beside {used}", region.index))?;
        let mut at = self.volume.metadata(region.index, 8, self.inode.number)?.u64(16);
        let mut hashes = BTreeSet::new();
        for _ in 0..count as usize + used {
            let next = self.entries.get(&at).and_then(|entry| self.entries.get_key_value(&entry.next));
            let (next, entry) = next.ok_or_else(|| format!("region {:#x} ends early", region.lowest))?;
            hashes.insert(entry.hash);
            at = *next;
        }
        ensure(hashes.len() == 1, || format!("index {:#x} lacks entries of {hashes:x?}", region.index))
    }

    /// Looks a name up. Returns the position of its entry.
    fn find(&self, regions: &[Region], name: &[u8]) -> Read<Option<u64>> {
        let sum = hash(self.volume.superblock.hash_seed, name);
        let number = regions.partition_point(|region| region.lowest <= sum);
        let Some(region) = number.checked_sub(1).and_then(|number| regions.get(number)) else {
            return wrong("no region begins at the hash 0");
        };
        let index = self.volume.metadata(region.index, 8, self.inode.number)?;
        let tag = sum & 0xffff;
        let home = (tag * BUCKETS) >> 16;
        for step in 0..BUCKETS {
            let bucket = (home + step) % BUCKETS;
            let slot = |number: u32| index.u64(64 + 8 * (bucket * SLOTS + number) as usize);
            for slot in (0..SLOTS).map(slot) {
                let at = (slot >> 17) * 16;
                if at != 0
                    && slot & 0xffff == u64::from(tag)
                    && self.entries.get(&at).is_some_and(|entry| entry.name == name)
                {
                    return Ok(Some(at));
                }
            }
            if slot(0) & OVERFLOW == 0 {
                break;
            }
        }
        // The first entries of the list may have no slot.
        let mut at = index.u64(16);
        for _ in 0..index.u32(24) {
            at = self.entries.get(&at).map_or(0, |entry| entry.next);
            if self.entries.get(&at).is_some_and(|entry| entry.name == name) {
                return Ok(Some(at));
            }
        }
        Ok(None)
    }
}
