//! Twin of `shaders/find.comp`.

use crate::inputs::filter::Filter;
use crate::shared::layout::{
    ENTRY_MATCHES, ENTRY_UNDECIDED, LEAF_UNDECIDED, MODE_TYPE, WANTS_ATTRIBUTES, WANTS_DIRECTORIES,
};
use crate::shared::limits::COPY_FUEL;
use crate::shared::structures::FilterProgram;
use crate::twin::headers::fuel::Fuel;
use crate::twin::headers::memory::Memory;
use lanefs::format::dir::{entry, leaf};
use lanefs::format::{BLOCK, BlockKind, FileKind, InodeSize, UNIT, inode};

const UNITS: u32 = (BLOCK / UNIT) as u32;

/// Four words.
pub type Unit = [u32; 4];

/// Settings of a search, without its leaf blocks.
#[derive(Clone, Debug)]
pub struct LeafSearch<'f> {
    /// Conditions of the search.
    pub filter: &'f Filter,
    /// The search gives all directories, whatever the conditions.
    pub directories: bool,
    /// Inode number of the directory of inodes without a name.
    pub orphans: u64,
    /// Size of the volume's inodes.
    pub inode_size: InodeSize,
    /// Rounds of all loops of an invocation.
    pub fuel: u32,
}

/// Returns the kernel's records of each of these leaf blocks.
pub fn find<M: Memory>(memory: &M, search: &LeafSearch<'_>, leaves: &[u64]) -> Vec<Vec<Unit>> {
    let program = search.filter.program(search.directories);
    leaves
        .iter()
        .map(|at| Finder { memory, search, program: &program, fuel: Fuel::new(search.fuel) }.leaf(*at))
        .collect()
}

struct Finder<'m, M> {
    memory: &'m M,
    search: &'m LeafSearch<'m>,
    program: &'m FilterProgram,
    fuel: Fuel,
}

fn unit_of(low: u64, high: u64) -> Unit {
    [low as u32, (low >> 32) as u32, high as u32, (high >> 32) as u32]
}

impl<M: Memory> Finder<'_, M> {
    fn leaf(&self, block: u64) -> Vec<Unit> {
        let undecided = vec![unit_of(block, LEAF_UNDECIDED)];
        let is_leaf =
            |at: u64| self.memory.word(at).is_some_and(|word| word & 0xff == BlockKind::Leaf as u32);
        if !block.is_multiple_of(BLOCK) || !is_leaf(block) {
            return undecided;
        }
        let field = |at: usize| self.memory.quad(block + at as u64).unwrap_or(u64::MAX);
        let dir = field(leaf::OWNER.offset);
        if dir == self.search.orphans {
            return Vec::new();
        }
        match self.entries(block, dir, field(leaf::NUMBER.offset)) {
            Some(records) if self.fuel.left() != 0 => records,
            _ => undecided,
        }
    }

    /// Returns the records of a leaf block; `None` where it makes no sense.
    fn entries(&self, block: u64, dir: u64, number: u64) -> Option<Vec<Unit>> {
        self.fuel.spend(COPY_FUEL);
        let mut records = Vec::new();
        let mut unit = (leaf::SIZE as u64 / UNIT) as u32;
        while unit < UNITS && self.fuel.burn() {
            let word = self.memory.word(block + leaf::UNITS.offset as u64 + u64::from(unit / 32 * 4))?;
            let used = word >> (unit % 32);
            if used & 1 == 0 {
                unit = if used == 0 { (unit | 31) + 1 } else { unit + used.trailing_zeros() };
                continue;
            }
            if unit + entry::SIZE as u32 / UNIT as u32 > UNITS {
                return None;
            }
            let at = block + u64::from(unit) * UNIT;
            let rest = self.memory.word(at + entry::HASH.offset as u64 + 4)?;
            let (length, kind) = (rest & 0xff, rest >> 8 & 0xff);
            let taken = (entry::SIZE as u32 + length).div_ceil(UNIT as u32);
            let is_kind = FileKind::from_number(kind as u8).is_some();
            if unit + taken > UNITS || length != 0 && (rest >> 16 != 0 || !is_kind) {
                return None;
            }
            if length != 0 {
                let flags = self.flags(at, length, kind);
                let is_directory = kind == FileKind::Directory as u32;
                if flags != 0 || is_directory && self.program.wants & WANTS_DIRECTORIES != 0 {
                    records.push(unit_of(dir, (number << 8 | u64::from(unit)) << 8 | flags));
                    for k in 1..u64::from(taken) {
                        let word = |i: u64| self.memory.word(at + k * UNIT + i * 4);
                        records.push([word(0)?, word(1)?, word(2)?, word(3)?]);
                    }
                }
            }
            unit += taken;
        }
        Some(records)
    }

    fn flags(&self, at: u64, length: u32, kind: u32) -> u64 {
        if self.program.kinds >> kind & 1 == 0 || !self.name_matches(at + entry::SIZE as u64, length) {
            0
        } else if self.program.wants & WANTS_ATTRIBUTES == 0 {
            ENTRY_MATCHES
        } else {
            let ino = self.memory.quad(at + entry::INODE.offset as u64);
            ino.and_then(|ino| self.by_attributes(ino, kind)).unwrap_or(ENTRY_UNDECIDED)
        }
    }

    fn name_matches(&self, name: u64, length: u32) -> bool {
        let FilterProgram { start, stays, end, .. } = *self.program;
        let mut states = start;
        for i in (0..length).step_by(4) {
            if states == 0 || !self.fuel.burn() {
                break;
            }
            let word = self.memory.word(name + u64::from(i)).unwrap_or(u32::MAX);
            for byte in word.to_le_bytes().into_iter().take((length - i) as usize) {
                states = (states & self.program.leads[usize::from(byte)]) << 1 | (states & stays);
            }
        }
        states & end == end
    }

    /// Compares the attributes; `None` where the inode is absent, or of another type.
    fn by_attributes(&self, ino: u64, kind: u32) -> Option<u64> {
        let at = ino.wrapping_mul(self.search.inode_size.bytes());
        let mode = self.memory.word(at)? & u32::from(MODE_TYPE);
        if mode != kind << 12 {
            return None;
        }
        let is_directory = kind == FileKind::Directory as u32;
        let field = if is_directory { inode::BLOCKS.offset } else { inode::BYTES.offset };
        let mut size = self.memory.quad(at + field as u64)?;
        if is_directory {
            size = size.saturating_mul(BLOCK);
        }
        let time = self.memory.quad(at + inode::MTIME.offset as u64)? ^ 1 << 63;
        let FilterProgram { size_min, size_max, time_min, time_max, .. } = *self.program;
        let holds = (size_min..=size_max).contains(&size) && (time_min..=time_max).contains(&time);
        Some(if holds { ENTRY_MATCHES } else { 0 })
    }
}
