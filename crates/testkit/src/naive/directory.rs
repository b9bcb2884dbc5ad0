//! Directories: their leaf blocks and entries.

use super::blocks::Naive;
use super::bytes::Words;
use super::hash::hash;
use super::inode::Inode;
use super::{BLOCK, Read, ensure};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

/// Bytes in a unit of a leaf.
const UNIT: u64 = 16;
/// Units of a leaf, and those of its header.
const UNITS: usize = 256;
const HEADER_UNITS: usize = 5;
/// Flag of a directory whose file map may have holes.
const MAP_HOLES: u16 = 2;

/// An entry of a leaf: a name, or a dummy.
#[derive(Clone, Debug)]
pub(super) struct DirEntry {
    pub(super) next: u64,
    pub(super) previous: u64,
    pub(super) inode: u64,
    pub(super) hash: u32,
    pub(super) kind: u8,
    /// Of a dummy: entries in its region.
    pub(super) count: u16,
    /// Empty in a dummy.
    pub(super) name: Vec<u8>,
}

impl DirEntry {
    pub(super) fn is_dummy(&self) -> bool {
        self.name.is_empty()
    }
}

/// A leaf block.
pub(super) struct Leaf {
    pub(super) at: u64,
    pub(super) block: Rc<[u8]>,
}

/// A directory: its inode, and its entries by position.
pub(super) struct Directory<'v, 's> {
    pub(super) volume: &'v Naive<'s>,
    pub(super) inode: &'v Inode,
    pub(super) leaves: Vec<Leaf>,
    pub(super) entries: BTreeMap<u64, DirEntry>,
}

impl<'s> Naive<'s> {
    /// A directory, with every structure that finds its entries checked. Returns the number of blocks that it
    /// owns besides its map too.
    pub(super) fn directory<'v>(&'v self, inode: &'v Inode) -> Read<(Directory<'v, 's>, u64)> {
        let map = self.file_map(inode)?;
        let end = map.extents.last().map_or(0, |last| (last.first + last.blocks) * BLOCK);
        let size = inode.size();
        let may_end_in_holes = inode.flags() & MAP_HOLES != 0 && size > end && size.is_multiple_of(BLOCK);
        ensure(size == end || may_end_in_holes, || format!("{size} bytes, and the leaves end at {end}"))?;
        let mut dir = Directory { volume: self, inode, leaves: Vec::new(), entries: BTreeMap::new() };
        for extent in &map.extents {
            for i in 0..extent.blocks {
                dir.read_leaf(extent.first + i, extent.at + i * BLOCK)?;
            }
        }
        let mut names = BTreeSet::new();
        for entry in dir.entries.values().filter(|entry| !entry.is_dummy()) {
            ensure(names.insert(&entry.name), || {
                format!("{:?} is there twice", String::from_utf8_lossy(&entry.name))
            })?;
        }
        dir.check_room()?;
        dir.check_list()?;
        let blocks = dir.check_lookups()?;
        Ok((dir, blocks))
    }
}

impl Directory<'_, '_> {
    fn read_leaf(&mut self, number: u64, at: u64) -> Read<()> {
        let block = self.volume.metadata(at, 6, self.inode.number)?;
        ensure(block.u64(16) == number, || format!("leaf {number} has the number {}", block.u64(16)))?;
        let is_used = |unit: usize| block.u64(40 + unit / 64 * 8) >> (unit % 64) & 1 != 0;
        ensure((0..HEADER_UNITS).all(is_used), || format!("leaf {at:#x}: the header's units"))?;
        let free = (0..UNITS).filter(|unit| !is_used(*unit)).count();
        ensure(usize::from(block.u16(2)) == free, || format!("leaf {at:#x} has {free} free units"))?;
        let mut unit = HEADER_UNITS;
        while unit < UNITS {
            if !is_used(unit) {
                unit += 1;
                continue;
            }
            let bytes = &block[unit * UNIT as usize..];
            let units = (32 + usize::from(bytes.u8(28))).div_ceil(UNIT as usize);
            let inside = unit + units <= UNITS && (unit..unit + units).all(is_used);
            ensure(inside, || format!("leaf {at:#x}: an entry at unit {unit} is cut off"))?;
            let entry = self.read_entry(bytes)?;
            self.entries.insert(at + unit as u64 * UNIT, entry);
            unit += units;
        }
        ensure(free < UNITS - HEADER_UNITS, || format!("leaf {at:#x} has no entry"))?;
        self.leaves.push(Leaf { at, block: block.clone() });
        Ok(())
    }

    fn read_entry(&self, bytes: &[u8]) -> Read<DirEntry> {
        let name = bytes[32..32 + usize::from(bytes.u8(28))].to_vec();
        let entry = DirEntry {
            next: bytes.u64(0),
            previous: bytes.u64(8),
            inode: bytes.u64(16),
            hash: bytes.u32(24),
            kind: bytes.u8(29),
            count: bytes.u16(30),
            name,
        };
        if entry.is_dummy() {
            ensure(entry.kind == 0, || "a dummy with a type".to_owned())?;
            return Ok(entry);
        }
        let shown = String::from_utf8_lossy(&entry.name);
        let legal = !entry.name.iter().any(|byte| matches!(byte, 0 | b'/'))
            && !matches!(&entry.name[..], b"." | b"..")
            && entry.count == 0;
        ensure(legal, || format!("an entry {shown:?} with count {}", entry.count))?;
        let sum = hash(self.volume.superblock.hash_seed, &entry.name);
        ensure(entry.hash == sum, || format!("{shown:?} has the hash {:#x}, not {sum:#x}", entry.hash))?;
        Ok(entry)
    }

    /// The list of leaves with room has exactly those that say so.
    fn check_room(&self) -> Read<()> {
        let mut listed: BTreeMap<u64, &Leaf> =
            self.leaves.iter().filter(|leaf| leaf.block.u8(1) == 1).map(|leaf| (leaf.at, leaf)).collect();
        let (mut previous, mut at) = (0, self.inode.tail().u64(0));
        while at != 0 {
            let leaf =
                listed.remove(&at).ok_or_else(|| format!("the list of leaves with room has {at:#x}"))?;
            ensure(leaf.block.u64(32) == previous, || format!("leaf {at:#x} has a wrong predecessor"))?;
            (previous, at) = (at, leaf.block.u64(24));
        }
        match listed.first_key_value() {
            Some((at, _)) => Err(format!("leaf {at:#x} is not on the list of those with room")),
            None => Ok(()),
        }
    }
}
