//! Twin of `shaders/hash_text.comp`.

use crate::shared::layout::{IS_ROOT, PORTION_WORDS};
use crate::shared::structures::{Field, PortionRecord};
use crate::twin::headers::blake3::{BLOCK_BYTES, CHUNK_END, CHUNK_START, ROOT, START, Value, compress};
use crate::twin::headers::fuel::Fuel;
use crate::twin::headers::woven::{WovenText, woven};

/// Returns the chaining values of portions.
pub(crate) fn hash_text(text: &WovenText<'_>, portions: &[PortionRecord], fuel: u32) -> Vec<Value> {
    let hash = |(i, portion)| hash_portion(text, i, portion, fuel);
    portions.iter().enumerate().map(hash).collect()
}

fn portion_word(text: &WovenText<'_>, i: usize, word: u32) -> [u32; 4] {
    Field::read(&text.word(woven(i, word as usize, PORTION_WORDS)))
}

fn hash_portion(text: &WovenText<'_>, i: usize, portion: &PortionRecord, fuel: u32) -> Value {
    text.count(PortionRecord::SIZE);
    let fuel = Fuel::new(fuel);
    let bytes = portion.bytes & !IS_ROOT;
    let is_root = portion.bytes >= IS_ROOT;
    let last = (bytes.max(1) - 1) / BLOCK_BYTES;
    let mut value = START;
    let mut block = 0;
    while block <= last && fuel.burn() {
        let words = std::array::from_fn(|word| portion_word(text, i, block * 4 + word as u32));
        let mut flags = if block == 0 { CHUNK_START } else { 0 };
        let mut in_block = BLOCK_BYTES;
        if block == last {
            flags |= if is_root { CHUNK_END | ROOT } else { CHUNK_END };
            in_block = bytes - block * BLOCK_BYTES;
        }
        value = compress(&value, words, portion.number, in_block, flags);
        block += 1;
    }
    value
}
