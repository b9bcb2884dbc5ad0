//! The table of all inodes that a pass has found.
//!
//! It takes a byte for each inode and 20 more for each directory, and 8 for each block of inodes. Names are
//! counted for a range of inodes at a time ([`links`](crate::check::inodes::links)).

use lanefs_format::{BLOCK, FileKind, InodeSize};
use lanefs_sync::lock::RwLock;
use std::collections::BTreeSet;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering};

/// A block of inodes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(in crate::check) struct InodeBlock(u64);

impl InodeBlock {
    /// `late`: found without the group table and the chunk's table. It may be a left-over, so it claims last.
    pub(in crate::check) fn new(at: u64, late: bool) -> Self {
        InodeBlock(at | u64::from(late))
    }

    pub(in crate::check) fn at(self) -> u64 {
        self.0 & !1
    }

    pub(in crate::check) fn is_late(self) -> bool {
        self.0 & 1 != 0
    }
}

/// All directories, in order of rank.
struct Directories {
    ranks: Vec<u64>,
    /// Inode number of the parent, 0 for none.
    parents: Vec<AtomicU64>,
    subdirectories: Vec<AtomicU32>,
}

/// All inodes by rank: the rank of their block times the inodes in a block, plus the slot in it.
pub(in crate::check) struct Inodes {
    /// In order of position.
    pub(in crate::check) blocks: Vec<InodeBlock>,
    size: InodeSize,
    /// Type by rank, 0 for a free inode.
    kinds: Vec<AtomicU8>,
    directories: OnceLock<Directories>,
    /// Inodes that the orphan directory lists.
    pub(in crate::check) listed: RwLock<BTreeSet<u64>>,
    /// The orphan directory says that its list is incomplete.
    pub(in crate::check) some_unlisted: AtomicBool,
}

impl Inodes {
    /// A table without types.
    pub(in crate::check) fn new(size: InodeSize, blocks: Vec<InodeBlock>) -> Self {
        let count = blocks.len() * (BLOCK / size.bytes()) as usize;
        let kinds = (0..count).map(|_| AtomicU8::new(0)).collect();
        let (directories, listed, some_unlisted) = Default::default();
        Inodes { blocks, size, kinds, directories, listed, some_unlisted }
    }

    pub(in crate::check) fn per_block(&self) -> usize {
        (BLOCK / self.size.bytes()) as usize
    }

    /// Inodes, free ones too.
    fn slots(&self) -> usize {
        self.kinds.len()
    }

    pub(in crate::check) fn set_kind(&self, rank: usize, kind: FileKind) {
        if let Some(byte) = self.kinds.get(rank) {
            byte.store(kind as u8, Ordering::Relaxed);
        }
    }

    /// Makes the table of directories, once all types are known. Returns their number.
    pub(in crate::check) fn find_directories(&self) -> u64 {
        let is_directory = |rank: &usize| self.kind(*rank) == Some(FileKind::Directory);
        let ranks: Vec<u64> = (0..self.slots()).filter(is_directory).map(|rank| rank as u64).collect();
        let parents = ranks.iter().map(|_| AtomicU64::new(0)).collect();
        let subdirectories = ranks.iter().map(|_| AtomicU32::new(0)).collect();
        let count = ranks.len() as u64;
        let _ = self.directories.set(Directories { ranks, parents, subdirectories });
        count
    }

    /// Forgets all parents, subdirectories and listed inodes.
    pub(in crate::check) fn forget_links(&self) {
        if let Some(all) = self.directories.get() {
            all.parents.iter().for_each(|parent| parent.store(0, Ordering::Relaxed));
            all.subdirectories.iter().for_each(|count| count.store(0, Ordering::Relaxed));
        }
        self.listed.write().clear();
    }

    /// The rank of an inode in use.
    pub(in crate::check) fn rank(&self, ino: u64) -> Option<usize> {
        let at = ino.checked_mul(self.size.bytes())?;
        let block = self.blocks.binary_search_by_key(&(at & !(BLOCK - 1)), |block| block.at()).ok()?;
        let rank = block * self.per_block() + ((at & (BLOCK - 1)) / self.size.bytes()) as usize;
        self.kind(rank).map(|_| rank)
    }

    /// Number of inodes in use in the block at this position; `None` where it is not a block of inodes.
    pub(in crate::check) fn used_in(&self, at: u64) -> Option<u64> {
        let block = self.blocks.binary_search_by_key(&at, |block| block.at()).ok()?;
        let first = block * self.per_block();
        let kinds = self.kinds.get(first..first + self.per_block())?;
        Some(kinds.iter().filter(|kind| kind.load(Ordering::Relaxed) != 0).count() as u64)
    }

    pub(in crate::check) fn number(&self, rank: usize) -> u64 {
        let per = self.per_block();
        self.blocks[rank / per].at() / self.size.bytes() + (rank % per) as u64
    }

    /// True for an inode in a block that was found without the tables.
    pub(in crate::check) fn is_late(&self, rank: usize) -> bool {
        self.blocks[rank / self.per_block()].is_late()
    }

    /// The type of an inode in use.
    pub(in crate::check) fn kind(&self, rank: usize) -> Option<FileKind> {
        FileKind::from_number(self.kinds.get(rank)?.load(Ordering::Relaxed))
    }

    pub(in crate::check) fn is_directory(&self, ino: u64) -> bool {
        self.rank(ino).is_some_and(|rank| self.kind(rank) == Some(FileKind::Directory))
    }

    /// Number of directories.
    pub(in crate::check) fn directory_count(&self) -> usize {
        self.directories.get().map_or(0, |all| all.ranks.len())
    }

    /// The index of the directory with this rank among the directories.
    pub(in crate::check) fn directory_index(&self, rank: usize) -> Option<usize> {
        self.directories.get()?.ranks.binary_search(&(rank as u64)).ok()
    }

    /// The rank of the directory with this index.
    pub(in crate::check) fn directory(&self, index: usize) -> usize {
        self.directories.get().and_then(|all| all.ranks.get(index)).map_or(0, |rank| *rank as usize)
    }

    /// Inode number of the parent of the directory with this rank, 0 for none.
    pub(in crate::check) fn parent(&self, rank: usize) -> u64 {
        self.parent_word(rank).map_or(0, |parent| parent.load(Ordering::Relaxed))
    }

    /// Sets the parent of a directory that has none; false where it has one.
    pub(in crate::check) fn set_parent(&self, rank: usize, parent: u64) -> bool {
        let set =
            |word: &AtomicU64| word.compare_exchange(0, parent, Ordering::Relaxed, Ordering::Relaxed).is_ok();
        self.parent_word(rank).is_some_and(set)
    }

    pub(in crate::check) fn forget_parent(&self, rank: usize) {
        if let Some(word) = self.parent_word(rank) {
            word.store(0, Ordering::Relaxed);
        }
    }

    fn parent_word(&self, rank: usize) -> Option<&AtomicU64> {
        self.directories.get()?.parents.get(self.directory_index(rank)?)
    }

    pub(in crate::check) fn subdirectories(&self, rank: usize) -> u32 {
        self.subdirectory_word(rank).map_or(0, |count| count.load(Ordering::Relaxed))
    }

    pub(in crate::check) fn add_subdirectory(&self, rank: usize) {
        if let Some(count) = self.subdirectory_word(rank) {
            count.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn subdirectory_word(&self, rank: usize) -> Option<&AtomicU32> {
        self.directories.get()?.subdirectories.get(self.directory_index(rank)?)
    }
}
