//! The table of all inodes that a pass has found.

use lanefs_format::{BLOCK, FileKind, InodeSize};

/// A block of inodes.
#[derive(Clone, Copy)]
pub(super) struct InodeBlock {
    pub(super) at: u64,
    /// Found without the group table and the chunk's table: it may be a left-over, so it claims last.
    pub(super) late: bool,
}

/// All inodes by rank: the rank of their block times the inodes in a block, plus the slot in it.
pub(super) struct Inodes {
    /// In order of position.
    pub(super) blocks: Vec<InodeBlock>,
    size: InodeSize,
    /// Type by rank, 0 for a free inode.
    pub(super) kinds: Vec<u8>,
    /// Entries that name the inode.
    pub(super) names: Vec<u32>,
    /// Subdirectories of a directory.
    pub(super) subdirectories: Vec<u32>,
    /// The parent of a directory, 0 for none.
    pub(super) parents: Vec<u64>,
    /// Listed in the orphan directory.
    pub(super) listed: Vec<bool>,
    /// The orphan directory says that its list is incomplete.
    pub(super) some_unlisted: bool,
    pub(super) used: u64,
}

impl Inodes {
    pub(super) fn new(size: InodeSize) -> Self {
        let (kinds, names, subdirectories, parents, listed) = Default::default();
        let blocks = Vec::new();
        Inodes { blocks, size, kinds, names, subdirectories, parents, listed, some_unlisted: false, used: 0 }
    }

    pub(super) fn per_block(&self) -> usize {
        (BLOCK / self.size.bytes()) as usize
    }

    /// Allocates the vectors for all inodes.
    pub(super) fn prepare(&mut self) {
        let count = self.blocks.len() * self.per_block();
        self.kinds = vec![0; count];
        self.names = vec![0; count];
        self.subdirectories = vec![0; count];
        self.parents = vec![0; count];
        self.listed = vec![false; count];
    }

    /// The rank of an inode in use.
    pub(super) fn rank(&self, ino: u64) -> Option<usize> {
        let at = ino.checked_mul(self.size.bytes())?;
        let block = self.blocks.binary_search_by_key(&(at & !(BLOCK - 1)), |block| block.at).ok()?;
        let rank = block * self.per_block() + ((at & (BLOCK - 1)) / self.size.bytes()) as usize;
        (self.kinds.get(rank).copied().unwrap_or(0) != 0).then_some(rank)
    }

    /// Number of inodes in use in the block at this position; `None` where it is no block of inodes.
    pub(super) fn used_in(&self, at: u64) -> Option<u64> {
        let block = self.blocks.binary_search_by_key(&at, |block| block.at).ok()?;
        let first = block * self.per_block();
        let kinds = self.kinds.get(first..first + self.per_block())?;
        Some(kinds.iter().filter(|kind| **kind != 0).count() as u64)
    }

    pub(super) fn number(&self, rank: usize) -> u64 {
        let per = self.per_block();
        self.blocks[rank / per].at / self.size.bytes() + (rank % per) as u64
    }

    /// The type of an inode in use.
    pub(super) fn kind(&self, rank: usize) -> Option<FileKind> {
        FileKind::from_number(self.kinds.get(rank).copied().unwrap_or(0))
    }

    pub(super) fn is_directory(&self, ino: u64) -> bool {
        self.rank(ino).is_some_and(|rank| self.kind(rank) == Some(FileKind::Directory))
    }

    /// Ranks of all inodes in use.
    pub(super) fn ranks(&self) -> impl Iterator<Item = usize> + '_ {
        (0..self.kinds.len()).filter(|rank| self.kinds[*rank] != 0)
    }
}
