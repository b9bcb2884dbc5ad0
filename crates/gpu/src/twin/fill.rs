//! Twin of `shaders/fill.comp`.

use super::Memory;
use super::cache::Cache;
use super::directory::Entry;
use super::lookup::Note;
use super::name::Name;
use crate::layout::CACHED_NAME;
use lanefs::format::dir::entry;

/// Puts what lookups noted into a directory cache.
pub fn fill<M: Memory>(memory: &M, cache: &mut Cache, notes: &[Note]) {
    for note in notes {
        let _ = fill_one(memory, cache, note);
    }
}

fn fill_one<M: Memory>(memory: &M, cache: &mut Cache, note: &Note) -> Option<()> {
    let word = memory.quad(note.entry + entry::HASH.offset as u64)?;
    let rest = (word >> 32) as u32;
    let mut bytes = Vec::new();
    for i in 0..(rest & 0xff).min(CACHED_NAME as u32).div_ceil(4) {
        bytes.extend(memory.word(note.entry + entry::SIZE as u64 + u64::from(i) * 4)?.to_le_bytes());
    }
    // A name that is too long is refused by its length.
    bytes.resize((rest & 0xff) as usize, 0);
    let ino = memory.quad(note.entry + entry::INODE.offset as u64)?;
    let found = Entry { ino, kind: rest >> 8 & 0xff, at: note.entry };
    cache.insert(memory, note.dir, &Name::with_hash(word as u32, &bytes), &found);
    Some(())
}
