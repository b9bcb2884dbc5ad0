//! The fuzzer's bytes as numbers and edits.

/// Bytes that are taken from the front. When they end, zeros follow.
pub(crate) struct Input<'d> {
    rest: &'d [u8],
}

impl<'d> Input<'d> {
    pub(crate) fn new(data: &'d [u8]) -> Self {
        Input { rest: data }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    pub(crate) fn bytes(&mut self, count: usize) -> &'d [u8] {
        let (taken, rest) = self.rest.split_at(count.min(self.rest.len()));
        self.rest = rest;
        taken
    }

    pub(crate) fn u8(&mut self) -> u8 {
        self.bytes(1).first().copied().unwrap_or(0)
    }

    /// A little-endian number of `count` bytes.
    pub(crate) fn number(&mut self, count: usize) -> u64 {
        let mut word = [0; 8];
        let bytes = self.bytes(count);
        word[..bytes.len()].copy_from_slice(bytes);
        u64::from_le_bytes(word)
    }

    /// A number below `end`.
    pub(crate) fn below(&mut self, end: usize) -> usize {
        self.number(2) as usize % end.max(1)
    }
}

/// Overwrites a few bytes of a block: offset, count and bytes come from the input.
pub(crate) fn edit(input: &mut Input<'_>, block: &mut [u8]) {
    let offset = input.below(block.len());
    let count = usize::from(input.u8() % 16) + 1;
    for (to, from) in block[offset..].iter_mut().zip(input.bytes(count)) {
        *to = *from;
    }
}
