//! Parsing of structures that are not trusted, and making of new ones.

use super::layout::{UNBOUND, VERSION, WHOLE};
use lanefs::format::{Field, Word};

/// The contradiction in bytes that are not what they should be.
pub(crate) type Bad = &'static str;

/// The text for bytes that end too early.
pub(crate) const CUT_OFF: Bad = "is cut off";

/// Bytes that are parsed from their beginning on.
pub(crate) struct Input<'b>(pub(crate) &'b [u8]);

impl<'b> Input<'b> {
    /// Takes the next bytes.
    pub(crate) fn take(&mut self, count: usize) -> Result<&'b [u8], Bad> {
        let (taken, rest) = self.0.split_at_checked(count).ok_or(CUT_OFF)?;
        self.0 = rest;
        Ok(taken)
    }

    /// Takes `count` structures of `size` bytes.
    pub(crate) fn list(
        &mut self,
        count: u32,
        size: usize,
    ) -> Result<impl ExactSizeIterator<Item = &'b [u8]> + use<'b>, Bad> {
        let bytes = (count as usize).checked_mul(size).ok_or(CUT_OFF)?;
        Ok(self.take(bytes)?.chunks_exact(size))
    }

    /// Checks that nothing is left.
    pub(crate) fn end(&self) -> Result<(), Bad> {
        if self.0.is_empty() { Ok(()) } else { Err("has bytes after its end") }
    }
}

/// Reads a field.
pub(crate) fn get<T: Word>(field: Field<T>, bytes: &[u8]) -> Result<T, Bad> {
    field.read(bytes).ok_or(CUT_OFF)
}

/// Reads a UUID.
pub(crate) fn uuid(offset: usize, bytes: &[u8]) -> Result<[u8; 16], Bad> {
    bytes.get(offset..offset + 16).and_then(|bytes| bytes.try_into().ok()).ok_or(CUT_OFF)
}

/// Checks magic and version, which every structure has at the same offsets. Returns the version.
pub(crate) fn check(bytes: &[u8], magic: u64, name: Bad) -> Result<u32, Bad> {
    if get(Field::<u64>::at(0), bytes)? != magic {
        return Err(name);
    }
    match get(Field::<u32>::at(8), bytes)? {
        version @ (VERSION | WHOLE | UNBOUND) => Ok(version),
        _ => Err("has a version of the publication format that this software does not know"),
    }
}

/// Appends a structure of `size` zero bytes, which `fill` fills.
pub(crate) fn append(out: &mut Vec<u8>, size: usize, fill: impl FnOnce(&mut [u8])) {
    let at = out.len();
    out.resize(at + size, 0);
    fill(&mut out[at..]);
}

/// The bits that are set in a word, ascending.
pub(crate) fn bits(word: u64) -> impl Iterator<Item = u32> {
    let mut rest = word;
    std::iter::from_fn(move || {
        let bit = rest.trailing_zeros();
        rest &= rest.wrapping_sub(1);
        (bit < 64).then_some(bit)
    })
}

/// Number of the blocks before block `bit` in a piece.
pub(crate) fn rank(blocks: u64, bit: u32) -> usize {
    (blocks & ((1 << bit) - 1)).count_ones() as usize
}
