//! Texts as the kernels `scan` and `hash_text` read them: words of 16 bytes, woven so that neighbouring
//! invocations read neighbouring words.

use crate::shared::layout::{PORTION, PORTION_WORDS, STRIP_WORDS, TEXT_WORD, WOVEN_STRIPS};
use crate::twin::headers::woven::woven;
use std::ops::Range;

/// Byte between texts. No pattern takes it.
const END: u8 = b'\n';

/// Words that texts take: each of them one more than it fills, or a part of it, so that it ends in `END`.
fn words_of(text: &[u8]) -> usize {
    if text.is_empty() { 0 } else { text.len() / TEXT_WORD + 1 }
}

/// Bytes that texts take on the device.
pub(crate) fn woven_bytes(texts: &[&[u8]]) -> usize {
    let words: usize = texts.iter().map(|text| words_of(text)).sum();
    words.next_multiple_of(STRIP_WORDS * WOVEN_STRIPS) * TEXT_WORD
}

/// Weaves texts into memory of [`woven_bytes`]. Returns the words of each.
pub(crate) fn weave(texts: &[&[u8]], to: &mut [u8]) -> Vec<Range<usize>> {
    let (to, _) = to.as_chunks_mut::<TEXT_WORD>();
    debug_assert!(to.len().is_multiple_of(STRIP_WORDS * WOVEN_STRIPS), "whole strips");
    let mut put = |word: usize, bytes: [u8; TEXT_WORD]| {
        if let Some(to) = to.get_mut(woven(word / STRIP_WORDS, word % STRIP_WORDS, STRIP_WORDS)) {
            *to = bytes;
        }
    };
    let (mut next, mut ranges) = (0, Vec::with_capacity(texts.len()));
    for text in texts.iter() {
        let (words, rest) = text.as_chunks::<TEXT_WORD>();
        let first = next;
        for word in words {
            put(next, *word);
            next += 1;
        }
        if !text.is_empty() {
            let mut last = [END; TEXT_WORD];
            last[..rest.len()].copy_from_slice(rest);
            put(next, last);
            next += 1;
        }
        ranges.push(first..next);
    }
    (next..next.next_multiple_of(STRIP_WORDS * WOVEN_STRIPS)).for_each(|word| put(word, [END; TEXT_WORD]));
    ranges
}

/// Weaves the portions of texts for `hash_text` into memory that has room for them. The last block of each is
/// filled with zeros.
pub(crate) fn weave_portions(texts: &[&[u8]], to: &mut [u8]) {
    const BLOCK_WORDS: usize = 4;
    let (to, _) = to.as_chunks_mut::<TEXT_WORD>();
    let portions = texts.iter().flat_map(|text| {
        let empty = text.is_empty().then_some(&[][..]);
        text.chunks(PORTION).chain(empty)
    });
    for (number, portion) in portions.enumerate() {
        let mut put = |word: usize, bytes: [u8; TEXT_WORD]| to[woven(number, word, PORTION_WORDS)] = bytes;
        let (words, rest) = portion.as_chunks::<TEXT_WORD>();
        words.iter().enumerate().for_each(|(word, bytes)| put(word, *bytes));
        let mut next = words.len();
        if !rest.is_empty() || next == 0 {
            let mut last = [0; TEXT_WORD];
            last[..rest.len()].copy_from_slice(rest);
            put(next, last);
            next += 1;
        }
        (next..next.next_multiple_of(BLOCK_WORDS)).for_each(|word| put(word, [0; TEXT_WORD]));
    }
}

/// Tells for each range of words whether one of them has a bit among the results of the kernel.
pub(crate) fn have_bits(ranges: &[Range<usize>], found: &[u32]) -> Vec<bool> {
    ranges.iter().map(|range| has_bit(range, found)).collect()
}

/// Tells whether one of these words has a bit among the results of the kernel.
pub(crate) fn has_bit(range: &Range<usize>, found: &[u32]) -> bool {
    let strip_has = |strip: usize| {
        let from = range.start.max(strip * STRIP_WORDS) - strip * STRIP_WORDS;
        let words = range.end.min((strip + 1) * STRIP_WORDS) - strip * STRIP_WORDS - from;
        let mask = (u64::from(u32::MAX) >> (STRIP_WORDS - words)) as u32;
        // A result that is missing says nothing.
        found.get(strip).is_none_or(|bits| bits >> from & mask != 0)
    };
    !range.is_empty() && (range.start / STRIP_WORDS..=(range.end - 1) / STRIP_WORDS).any(strip_has)
}
