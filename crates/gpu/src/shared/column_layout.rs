//! Answers as columns: where each lies in the bytes that come to the host.

use super::layout::{ANSWER_INO_SHIFT, ANSWER_KIND_SHIFT, HOST_HEADER_BYTES};
use lanefs::{AnswerBlock, AttributeBlock, Column, ColumnSet};

const HEADER_BYTES: u64 = HOST_HEADER_BYTES as u64;

/// Bytes of an answer without attributes.
const ENTRY_BYTES: u64 = size_of::<u64>() as u64;

/// The answer to a path as the host gets it: code, type and inode number in a word, and the attributes that
/// are wanted, in the order of [`Column::ALL`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AnswerRow {
    /// Code, type and inode number.
    pub entry: u64,
    /// The attributes that are wanted; zeros without an inode.
    pub attributes: Vec<u64>,
}

/// Where answers as columns lie: a header, an entry for each path, and one attribute after the other.
#[derive(Clone, Copy, Debug)]
pub struct ColumnLayout {
    wanted: ColumnSet,
    /// Offset of each attribute, by its place in [`Column::ALL`].
    offsets: [u64; Column::ALL.len()],
    bytes: u64,
}

impl ColumnLayout {
    /// Returns the layout of `stride` paths, a multiple of 4, with the attributes among `wanted`.
    pub fn new(stride: u64, wanted: ColumnSet) -> ColumnLayout {
        debug_assert!(stride.is_multiple_of(4), "columns begin at a multiple of 16 bytes");
        let wanted = wanted.attributes();
        let (mut offsets, mut bytes) = ([0; Column::ALL.len()], HEADER_BYTES + stride * ENTRY_BYTES);
        for column in Column::ATTRIBUTES.iter().filter(|column| wanted.contains(**column)) {
            offsets[*column as usize] = bytes;
            bytes += stride * column.width() as u64;
        }
        ColumnLayout { wanted, offsets, bytes }
    }

    /// Returns the attributes.
    pub fn wanted(&self) -> ColumnSet {
        self.wanted
    }

    /// Returns the bytes of all columns, with their header.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns the elements of an attribute for `len` paths from `first` on, in bytes of the host.
    #[inline(always)]
    fn attribute<'a>(&self, bytes: &'a [u8], column: Column, first: usize, len: usize) -> &'a [u8] {
        let (offset, width) = (self.offsets[column as usize] as usize, column.width());
        bytes.get(offset + first * width..offset + (first + len) * width).unwrap_or(&[])
    }

    /// Returns the row of a path, in bytes of the host.
    pub(crate) fn row(&self, bytes: &[u8], row: usize) -> AnswerRow {
        let number = |bytes: &[u8]| bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte));
        let at = (HEADER_BYTES + row as u64 * ENTRY_BYTES) as usize;
        let wanted = Column::ATTRIBUTES.iter().filter(|column| self.wanted.contains(**column));
        AnswerRow {
            entry: number(bytes.get(at..at + ENTRY_BYTES as usize).unwrap_or(&[])),
            attributes: wanted.map(|column| number(self.attribute(bytes, *column, row, 1))).collect(),
        }
    }

    /// Returns the answers to `len` paths from `first` on, in bytes of the host.
    pub(crate) fn block<'a>(&self, bytes: &'a [u8], first: usize, len: usize) -> AnswerBlock<'a> {
        let attributes = AttributeBlock::of(self.wanted, |column| self.attribute(bytes, column, first, len));
        let mut block = AnswerBlock::new(len, attributes);
        let from = HEADER_BYTES as usize + first * ENTRY_BYTES as usize;
        let (entries, _) = bytes.get(from..).unwrap_or(&[]).as_chunks();
        let entries = &entries[..len.min(entries.len())];
        // A path without an entry, which there is none, has the number of no code.
        block.fill(|i| entries.get(i).map_or((u8::MAX, 0, 0), |entry| unpacked(u64::from_le_bytes(*entry))));
        block
    }
}

/// Returns code, type and inode number of an entry.
#[inline(always)]
fn unpacked(entry: u64) -> (u8, u8, u64) {
    const KIND: u64 = (1 << (ANSWER_INO_SHIFT - ANSWER_KIND_SHIFT)) - 1;
    (entry as u8, (entry >> ANSWER_KIND_SHIFT & KIND) as u8, entry >> ANSWER_INO_SHIFT)
}
