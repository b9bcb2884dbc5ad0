//! Answers to some paths side by side, as an engine that has copies of inodes gives them.

use super::column::{Column, ColumnSet};
use super::table::attribute_columns;
use crate::vocabulary::types::{Attr, Ino, Time};
use lanefs_format::{Code, FileKind};

/// A bit for each number that stands for a type.
const KINDS: u32 = {
    let (mut bits, mut number) = (0, 0);
    while number < 16 {
        bits |= (FileKind::from_number(number).is_some() as u32) << number;
        number += 1;
    }
    bits
};

const _: () = assert!(Code::Success.number() == 0, "a row of zeros is a success");

/// Rows of an [`AnswerBlock`] at most: one word of the column of bits.
pub const ANSWER_BLOCK: usize = 64;

/// Answers to some paths side by side, from an engine that has copies of inodes.
#[derive(Clone, Debug)]
pub struct AnswerBlock<'a> {
    pub(super) code: [u8; ANSWER_BLOCK],
    pub(super) kind: [u8; ANSWER_BLOCK],
    pub(super) ino: [u64; ANSWER_BLOCK],
    pub(super) attributes: AttributeBlock<'a>,
    pub(super) len: usize,
    /// A bit for each row that names an inode, and for each that is open.
    pub(super) found: u64,
    open: u64,
}

impl<'a> AnswerBlock<'a> {
    /// Returns answers to `len` paths, [`ANSWER_BLOCK`] at most, all of them open, with the attributes that
    /// are wanted: an element for each path, zeros where it names no inode.
    pub fn new(len: usize, attributes: AttributeBlock<'a>) -> Self {
        let code = [Code::NotResident.number(); ANSWER_BLOCK];
        let len = len.min(ANSWER_BLOCK);
        let (kind, ino) = ([0; ANSWER_BLOCK], [0; ANSWER_BLOCK]);
        let mut block = AnswerBlock { code, kind, ino, attributes, len, found: 0, open: 0 };
        block.open = block.mask();
        block
    }

    /// Returns answers to `len` paths, [`ANSWER_BLOCK`] at most, for a receiver that wants no more than
    /// existence: a bit for each path that names an inode, and for each that is open.
    pub fn of_bits(len: usize, found: u64, open: u64) -> Self {
        let mut block = AnswerBlock::new(len, AttributeBlock::default());
        // A path that is said to be both is open.
        (block.found, block.open) = (found & !open & block.mask(), open & block.mask());
        block
    }

    /// Fills in answers, by the numbers of their codes and types and by their inodes. One that makes no sense
    /// stays open, so that the host decides.
    #[inline(always)]
    pub fn fill(&mut self, answer: impl Fn(usize) -> (u8, u8, u64)) {
        let is_kind = |kind: u8| kind < 16 && KINDS >> kind & 1 != 0;
        for i in 0..self.len.min(ANSWER_BLOCK) {
            let (code, kind, ino) = answer(i);
            let is_found = code == 0 && is_kind(kind);
            let is_failure = code != 0 && usize::from(code) < Code::ALL.len();
            self.code[i] = if is_found || is_failure { code } else { Code::NotResident.number() };
            self.kind[i] = if is_found { kind } else { 0 };
            self.ino[i] = if is_found { ino } else { 0 };
        }
        (self.found, self.open) = (self.rows_with(Code::Success), self.rows_with(Code::NotResident));
    }

    /// A bit for each row with this code.
    #[inline(always)]
    fn rows_with(&self, code: Code) -> u64 {
        const LOW: u64 = 0x7f7f_7f7f_7f7f_7f7f;
        let pattern = u64::from(code.number()) * 0x0101_0101_0101_0101;
        let mut bits = 0;
        for (i, word) in self.code.as_chunks::<8>().0.iter().enumerate() {
            let differs = u64::from_le_bytes(*word) ^ pattern;
            // The highest bit of each byte that is zero, and then these eight bits side by side.
            let zeros = !(((differs & LOW) + LOW) | differs | LOW);
            bits |= ((zeros >> 7).wrapping_mul(0x0102_0408_1020_4080) >> 56) << (8 * i);
        }
        bits & self.mask()
    }

    /// A bit for each row.
    #[inline(always)]
    pub(super) fn mask(&self) -> u64 {
        if self.len == ANSWER_BLOCK { u64::MAX } else { (1 << self.len) - 1 }
    }

    /// Counts the paths that name an inode.
    pub fn found(&self) -> usize {
        self.found.count_ones() as usize
    }

    /// The rows that are open.
    pub fn open(&self) -> impl Iterator<Item = usize> {
        let mut bits = self.open;
        std::iter::from_fn(move || {
            let next = bits.trailing_zeros() as usize;
            bits &= bits.wrapping_sub(1);
            (next < ANSWER_BLOCK).then_some(next)
        })
    }

    /// The attributes of an inode that was found, where all are wanted.
    #[inline(always)]
    pub(super) fn attr(&self, i: usize) -> Option<Attr> {
        let all = &self.attributes;
        let mode = all.mode(i)?;
        Some(Attr {
            ino: Ino(self.ino[i]),
            kind: FileKind::from_mode(mode)?,
            perm: mode & 0o7777,
            links: all.links(i)?,
            uid: all.uid(i)?,
            gid: all.gid(i)?,
            size: all.size(i)?,
            blocks: all.blocks(i)?,
            rdev: all.rdev(i)?,
            mtime: Time(all.mtime(i)?),
            ctime: Time(all.ctime(i)?),
            atime: Time(all.atime(i)?),
            btime: Time(all.btime(i)?),
            generation: all.generation(i)?,
        })
    }
}

/// Declares the attributes of a block.
macro_rules! declare_attributes {
    ($($(#[$doc:meta])* $name:ident $variant:ident $type:ident from $wire:ident = $value:expr;)*) => {
        /// Attributes of the inodes in a block of answers, one column after the other, as an engine gives
        /// them: little-endian, and zeros where a path names no inode.
        #[derive(Clone, Copy, Debug, Default)]
        pub struct AttributeBlock<'a> {
            $(pub(super) $name: &'a [[u8; size_of::<$wire>()]],)*
        }

        impl<'a> AttributeBlock<'a> {
            /// Returns the attributes of `wanted`, each from the bytes that `column` gives.
            #[inline(always)]
            pub fn of(wanted: ColumnSet, column: impl Fn(Column) -> &'a [u8]) -> Self {
                let bytes = |which| if wanted.contains(which) { column(which) } else { &[] };
                AttributeBlock { $($name: bytes(Column::$variant).as_chunks().0,)* }
            }

            $(
                #[inline(always)]
                fn $name(&self, row: usize) -> Option<$type> {
                    self.$name.get(row).map(|bytes| $wire::from_le_bytes(*bytes) as $type)
                }
            )*
        }
    };
}

attribute_columns!(declare_attributes);
