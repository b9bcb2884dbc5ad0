//! Twin of `shaders/warm.comp`.

use crate::shared::layout::CACHED_NAME_BYTES;
use crate::shared::query::LookupQuery;
use crate::twin::headers::cache::Cache;
use crate::twin::headers::directory::Directories;
use crate::twin::headers::fuel::Fuel;
use crate::twin::headers::memory::Memory;
use crate::twin::headers::name::{Name, ShortName};
use lanefs::format::dir::{entry, leaf};
use lanefs::format::{BLOCK, BlockKind, UNIT};

/// Units of a block.
const UNITS: u32 = (BLOCK / UNIT) as u32;

/// Fills a directory cache with the entries of the leaf blocks among these.
pub fn warm<M: Memory>(
    memory: &M,
    query: &LookupQuery,
    cache: &mut Cache,
    blocks: impl Iterator<Item = u64>,
) {
    for at in blocks {
        let _ = warm_block(memory, query, cache, at);
    }
}

fn warm_block<M: Memory>(memory: &M, query: &LookupQuery, cache: &mut Cache, block: u64) -> Option<()> {
    if memory.word(block)? & 0xff != BlockKind::Leaf as u32 {
        return None;
    }
    let fuel = &Fuel::new(query.fuel);
    let dir = memory.quad(block + leaf::OWNER.offset as u64)?;
    let mut unit = (leaf::SIZE as u64 / UNIT) as u32;
    while unit < UNITS && fuel.burn() {
        let used = memory.word(block + leaf::UNITS.offset as u64 + u64::from(unit / 32 * 4))? >> (unit % 32);
        if used & 1 == 0 {
            unit = if used == 0 { (unit | 31) + 1 } else { unit + used.trailing_zeros() };
            continue;
        }
        let at = block + u64::from(unit) * UNIT;
        let length = memory.word(at + entry::HASH.offset as u64 + 4)? & 0xff;
        unit += (entry::SIZE as u32 + length).div_ceil(UNIT as u32);
        if unit > UNITS || length == 0 || length as usize > CACHED_NAME_BYTES {
            continue;
        }
        let mut bytes = Vec::new();
        for i in 0..length.div_ceil(4) {
            bytes.extend(memory.word(at + entry::SIZE as u64 + u64::from(i) * 4)?.to_le_bytes());
        }
        bytes.truncate(length as usize);
        let name = Name::new(query.seed, &bytes, fuel);
        let directories = Directories { memory, inode_size: query.inode_size, fuel };
        let found = directories.find(dir, false, &name).flatten();
        if fuel.left() != 0
            && let Some(entry) = found.filter(|entry| entry.at == at)
        {
            cache.insert(memory, dir, &ShortName::new(query.seed, &bytes), &entry);
        }
    }
    Some(())
}
