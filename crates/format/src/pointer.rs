//! Tagged block pointers and directory roots.

use crate::geometry::{BLOCK, MAX_VOLUME};

/// Size of a [`Pointer`]'s block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum BlockSize {
    /// An inode: 128 or 256 B, as the volume has it.
    Inode = 0,
    /// 4 KiB.
    Small = 1,
    /// 2 MiB: 512 consecutive 4 KiB blocks.
    Medium = 2,
    /// 1 GiB: 512 consecutive 2 MiB blocks.
    Large = 3,
}

impl BlockSize {
    /// Returns the size of the data blocks that slots of a pointer block at `level` (1 = lowest) name; `None`
    /// above 1 GiB, where slots can only be indirect.
    pub const fn at_level(level: u8) -> Option<Self> {
        match level {
            0 | 1 => Some(BlockSize::Small),
            2 => Some(BlockSize::Medium),
            3 => Some(BlockSize::Large),
            _ => None,
        }
    }

    /// Returns the number of 4 KiB blocks (0 for inodes).
    pub const fn blocks(self) -> u64 {
        match self {
            BlockSize::Inode => 0,
            BlockSize::Small => 1,
            BlockSize::Medium => 512,
            BlockSize::Large => 512 * 512,
        }
    }
}

/// A tagged block pointer: a byte offset aligned to 128, and in the low seven bits the tags.
///
/// bit 0 valid, bit 1 indirect (names a 4 KiB block of 512 pointers), bits 2 and 3 the [`BlockSize`], bit 4
/// unwritten (allocated, reads as zeros), bits 5 and 6 zero. The word 0 is a hole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pointer {
    /// Byte offset in the volume.
    pub offset: u64,
    /// Names a block of pointers one level down.
    pub indirect: bool,
    /// Allocated but never written: reads as zeros.
    pub unwritten: bool,
    /// Size of the block.
    pub size: BlockSize,
}

/// A word that is not a pointer, or not a root.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InvalidPointer;

const VALID: u64 = 1;
const INDIRECT: u64 = 2;
const SIZE_SHIFT: u32 = 2;
const UNWRITTEN: u64 = 1 << 4;
const TAGS: u64 = 0x7f;

impl Pointer {
    /// The word of a hole.
    pub const HOLE: u64 = 0;

    /// Creates a pointer to a block of data.
    pub const fn data(offset: u64, size: BlockSize) -> Self {
        debug_assert!(offset.is_multiple_of(BLOCK));
        Pointer { offset, indirect: false, unwritten: false, size }
    }

    /// Creates a pointer to a block of pointers.
    pub const fn indirect(offset: u64) -> Self {
        debug_assert!(offset.is_multiple_of(BLOCK));
        Pointer { offset, indirect: true, unwritten: false, size: BlockSize::Small }
    }

    /// Returns the 64 bits as stored.
    pub const fn word(self) -> u64 {
        self.offset
            | VALID
            | if self.indirect { INDIRECT } else { 0 }
            | (self.size as u64) << SIZE_SHIFT
            | if self.unwritten { UNWRITTEN } else { 0 }
    }

    /// Decodes a stored word: `None` is a hole.
    ///
    /// # Errors
    /// Bits that no writer sets, or an offset that is unaligned or past the end of the largest volume. The
    /// reader checks whether the offset lies inside its volume.
    pub const fn decode(word: u64) -> Result<Option<Self>, InvalidPointer> {
        if word == Self::HOLE {
            return Ok(None);
        }
        let offset = word & !TAGS;
        let size = match (word >> SIZE_SHIFT) & 3 {
            0 => BlockSize::Inode,
            1 => BlockSize::Small,
            2 => BlockSize::Medium,
            _ => BlockSize::Large,
        };
        let indirect = word & INDIRECT != 0;
        let unwritten = word & UNWRITTEN != 0;
        let odd = word & VALID == 0
            || word & 0x60 != 0
            || offset >= MAX_VOLUME
            || offset == 0
            || !offset.is_multiple_of(BLOCK)
            || matches!(size, BlockSize::Inode)
            || (indirect && (unwritten || !matches!(size, BlockSize::Small)));
        if odd { Err(InvalidPointer) } else { Ok(Some(Pointer { offset, indirect, unwritten, size })) }
    }
}

/// Start of a directory's lookups, as its inode stores it: the position of a block with the form in the low
/// bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DirRoot {
    /// No entry at all, no block.
    Empty,
    /// One leaf block; the inode's own small index finds the entries.
    Small(u64),
    /// One region: its index block.
    Region(u64),
    /// A tree block.
    Tree(u64),
}

impl DirRoot {
    /// Shift of the level in the word of a tree block.
    pub const LEVEL_SHIFT: u32 = 2;
    /// Shift of the number of children in the word of a tree block.
    pub const COUNT_SHIFT: u32 = 4;
    /// Bits of the form.
    pub const FORM: u64 = 3;

    /// Returns the word of the tree block at `at`, with its level and its number of children, which saves a
    /// reader the access to the block's head. The word has no room for levels above 3.
    pub const fn tree_word(at: u64, level: u8, count: u8) -> u64 {
        debug_assert!(at.is_multiple_of(BLOCK));
        let head = (level as u64) << Self::LEVEL_SHIFT | (count as u64) << Self::COUNT_SHIFT;
        DirRoot::Tree(at).word() | if level <= 3 { head } else { 0 }
    }

    /// Returns the level and the number of children in the word of a tree block, where a writer recorded
    /// them.
    pub const fn level_and_count(word: u64) -> Option<(u8, u8)> {
        let level = word >> Self::LEVEL_SHIFT & 3;
        if word & Self::FORM == 3 && level != 0 {
            Some((level as u8, (word >> Self::COUNT_SHIFT) as u8))
        } else {
            None
        }
    }

    /// Returns the word as stored; that of a tree block without level and number of children
    /// ([`tree_word`](Self::tree_word)).
    pub const fn word(self) -> u64 {
        match self {
            DirRoot::Empty => 0,
            DirRoot::Small(at) => at | 1,
            DirRoot::Region(at) => at | 2,
            DirRoot::Tree(at) => at | 3,
        }
    }

    /// Decodes a stored word.
    ///
    /// # Errors
    /// A form that does not exist, or an offset past the end of the largest volume.
    #[inline(always)]
    pub const fn decode(word: u64) -> Result<Self, InvalidPointer> {
        let at = word & !(BLOCK - 1);
        if at >= MAX_VOLUME || (at == 0) != (word == 0) {
            return Err(InvalidPointer);
        }
        match word & (BLOCK - 1) {
            0 if word == 0 => Ok(DirRoot::Empty),
            1 => Ok(DirRoot::Small(at)),
            2 => Ok(DirRoot::Region(at)),
            // Level and count are both recorded, or neither.
            low if low & Self::FORM == 3
                && (low >> Self::LEVEL_SHIFT & 3 == 0) == (low >> Self::COUNT_SHIFT == 0) =>
            {
                Ok(DirRoot::Tree(at))
            }
            _ => Err(InvalidPointer),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pointers_survive_their_word_and_stray_bits_are_refused() {
        let mut unwritten = Pointer::data(CHUNK_AT, BlockSize::Medium);
        unwritten.unwritten = true;
        for p in [Pointer::data(BLOCK, BlockSize::Small), unwritten, Pointer::indirect(MAX_VOLUME - BLOCK)] {
            assert_eq!(Pointer::decode(p.word()), Ok(Some(p)));
            assert_eq!(Pointer::decode(p.word() ^ VALID), Err(InvalidPointer));
            assert_eq!(Pointer::decode(p.word() | 0x20), Err(InvalidPointer));
        }
        assert_eq!(Pointer::decode(0), Ok(None));
        assert_eq!(Pointer::decode(u64::MAX), Err(InvalidPointer));
    }
    const CHUNK_AT: u64 = crate::geometry::CHUNK;

    #[test]
    fn roots_survive_their_word() {
        for r in
            [DirRoot::Empty, DirRoot::Small(4096), DirRoot::Region(8192), DirRoot::Tree(MAX_VOLUME - BLOCK)]
        {
            assert_eq!(DirRoot::decode(r.word()), Ok(r));
        }
        for (level, count) in [(1, 2), (2, 255), (3, 1)] {
            let word = DirRoot::tree_word(8192, level, count);
            assert_eq!(DirRoot::decode(word), Ok(DirRoot::Tree(8192)));
            assert_eq!(DirRoot::level_and_count(word), Some((level, count)));
        }
        assert_eq!(DirRoot::tree_word(8192, 4, 9), DirRoot::Tree(8192).word());
        assert_eq!(DirRoot::level_and_count(DirRoot::Tree(8192).word()), None);
        assert_eq!(DirRoot::level_and_count(DirRoot::Region(8192).word()), None);
        let half = [3 | 1 << DirRoot::LEVEL_SHIFT, 3 | 1 << DirRoot::COUNT_SHIFT].map(|low| 4096 | low);
        for bad in [1, 2, 3, 4096, 4096 | 4, 4096 | 0x11, u64::MAX, MAX_VOLUME | 1].into_iter().chain(half) {
            assert_eq!(DirRoot::decode(bad), Err(InvalidPointer), "{bad:#x}");
        }
    }
}
