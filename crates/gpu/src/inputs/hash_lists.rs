//! Lists for the kernels that hash texts: the portions, and the pairs that each level of BLAKE3's trees
//! joins.

use crate::shared::layout::{IS_ROOT, PORTION};
use crate::shared::structures::{JoinRecord, PortionRecord};

/// Lists for the kernels `hash_text` and `hash_join`.
#[derive(Clone, Debug, Default)]
pub(crate) struct HashLists {
    pub(crate) portions: Vec<PortionRecord>,
    /// The pairs of each level, the lowest level first.
    pub(crate) levels: Vec<Vec<JoinRecord>>,
    /// The first portion of each text, whose value is the hash of the text in the end.
    pub(crate) firsts: Vec<usize>,
}

/// Returns the number of a text's portions. A text without bytes has one.
pub(crate) fn portions_of(text: &[u8]) -> usize {
    text.len().div_ceil(PORTION).max(1)
}

/// Returns a flag for the last block of a text.
fn root(is_root: bool) -> u32 {
    if is_root { IS_ROOT } else { 0 }
}

impl HashLists {
    /// Lists for texts. Their portions have numbers below the flag.
    pub(crate) fn new(texts: &[&[u8]]) -> HashLists {
        let mut lists = HashLists::default();
        for text in texts {
            let (first, count) = (lists.portions.len(), portions_of(text));
            debug_assert!(first + count <= IS_ROOT as usize, "no bit is left for a flag");
            lists.firsts.push(first);
            lists.portions.extend((0..count).map(|number| {
                let bytes = (text.len() - number * PORTION).min(PORTION) as u32;
                PortionRecord { number: number as u32, bytes: bytes | root(count == 1) }
            }));
            lists.join(first, count);
        }
        lists
    }

    /// Adds the joins of a text. A left tree of BLAKE3 has as many portions as the largest power of two that
    /// leaves some for the right one. So values are joined pairwise, level by level, and a value without
    /// another one on its right stays where it is until a higher level has one on its left.
    fn join(&mut self, first: usize, count: usize) {
        let mut step = 1;
        for level in 0.. {
            if step >= count {
                return;
            }
            if self.levels.len() == level {
                self.levels.push(Vec::new());
            }
            let is_root = root(2 * step >= count);
            self.levels[level].extend((0..count - step).step_by(2 * step).map(|at| {
                let left = (first + at) as u32;
                JoinRecord { left, right: (left + step as u32) | is_root }
            }));
            step *= 2;
        }
    }

    /// Returns the number of joins.
    pub(crate) fn joins(&self) -> usize {
        self.levels.iter().map(Vec::len).sum()
    }
}
