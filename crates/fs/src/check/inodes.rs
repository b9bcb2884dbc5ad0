//! The inodes in use, and what each says of itself.

use super::findings::Tally;
use super::invariants as iv;
use super::pass::Pass;
use crate::edit::Outcome;
use crate::inode::{FLAG_MAP_HOLES, FLAG_UNLISTED};
use crate::space;
use lanefs_format::INODE_DEPTH_SHIFT;
use lanefs_format::{
    BLOCK, BlockKind, FileKind, INODE_CORE, INODE_INLINE, InodeSize, MAX_FILE_SIZE, MAX_MAP_DEPTH,
    MAX_SYMLINK, chunk_entry, inode as f,
};

/// A block of inodes.
#[derive(Clone, Copy)]
pub(super) struct InodeBlock {
    pub(super) at: u64,
    /// Found without the word of the group table and the chunk's table: it may be a left-over, so it claims last.
    pub(super) late: bool,
}

/// All inodes by rank: the rank of their block times the inodes in a block, and the place in it.
pub(super) struct Inodes {
    /// In order of position.
    pub(super) blocks: Vec<InodeBlock>,
    size: InodeSize,
    /// Type by rank, 0 for a free inode.
    kinds: Vec<u8>,
    /// Entries that name the inode.
    pub(super) names: Vec<u32>,
    /// Subdirectories of a directory.
    pub(super) subdirectories: Vec<u32>,
    /// The directory that a directory is in, 0 for none.
    pub(super) parents: Vec<u64>,
    /// Listed in the orphan directory.
    pub(super) listed: Vec<bool>,
    /// The orphan directory says that it does not list all.
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

    /// Makes room for what is known of each.
    fn prepare(&mut self) {
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

    /// How many inodes are in use in the block at this position; `None` where it is no block of inodes.
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

impl Pass<'_, '_> {
    /// Notes which inodes are in use and of what type, and checks what each says of itself.
    pub(super) fn survey_inodes(&mut self) -> Outcome<()> {
        self.inodes.prepare();
        let size = self.core.store.inode_size();
        let per = self.inodes.per_block();
        for rank in 0..self.inodes.blocks.len() {
            let at = self.inodes.blocks[rank].at;
            let (bytes, _) = self.read_inodes(at)?;
            let mut used = 0u64;
            for (place, one) in bytes.chunks_exact(size.bytes() as usize).enumerate() {
                if f::MODE.read(one) == Some(0) {
                    continue;
                }
                used += 1;
                let ino = at / size.bytes() + place as u64;
                let mut tally = Tally::new(ino);
                let mut mended = [0; 256];
                mended[..one.len()].copy_from_slice(one);
                let list = self.is_orphan_directory(ino);
                let kind =
                    check_fields(&mut mended[..one.len()], size, &mut tally, (ino * size.bytes(), list));
                self.inodes.kinds[rank * per + place] = kind as u8;
                let flags = f::FLAGS.read(&mended).unwrap_or(0);
                self.inodes.some_unlisted |=
                    list && kind == FileKind::Directory && flags & FLAG_UNLISTED != 0;
                self.findings.take(tally);
                if mended[..one.len()] != *one {
                    self.write_inode(ino, &mended[..one.len()])?;
                }
                self.directories += u64::from(kind == FileKind::Directory);
            }
            self.inodes.used += used;
            if let Ok(entry) = space::table_entry(self.core, at)
                && entry.get(chunk_entry::KIND) == BlockKind::Inodes as u8
            {
                let said = u64::from(entry.get(chunk_entry::USED));
                if said != used {
                    self.findings.add(at, &iv::CHUNK_ENTRY_USED, format!("{said} instead of {used}"));
                }
                if entry.get(chunk_entry::OWNER) != 0 {
                    self.findings.add(at, &iv::CHUNK_ENTRY_OWNER, "a block of inodes");
                }
            }
        }
        Ok(())
    }
}

/// Checks the fields of an inode that stand for themselves, and puts right what is wrong in the copy. Returns its type. Beside
/// the inode's position stands whether it is the orphan directory.
pub(super) fn check_fields(
    bytes: &mut [u8],
    size: InodeSize,
    tally: &mut Tally,
    (at, is_list): (u64, bool),
) -> FileKind {
    let mode = f::MODE.read(bytes).unwrap_or(0);
    let kind = FileKind::from_mode(mode).unwrap_or_else(|| {
        tally.note(at, &iv::INODE_MODE);
        f::MODE.write(bytes, FileKind::File.mode() | mode & 0o7777);
        FileKind::File
    });
    let has_map = matches!(kind, FileKind::File | FileKind::Symlink | FileKind::Directory);
    let flags = f::FLAGS.read(bytes).unwrap_or(0);
    let map = f::MAP.read(bytes).unwrap_or(0);
    let depth = (flags >> INODE_DEPTH_SHIFT & 0xf) as u8;
    let allowed = match kind {
        FileKind::File | FileKind::Symlink => INODE_INLINE | 0xf << INODE_DEPTH_SHIFT,
        FileKind::Directory if is_list => FLAG_UNLISTED | FLAG_MAP_HOLES | 0xf << INODE_DEPTH_SHIFT,
        FileKind::Directory => FLAG_MAP_HOLES | 0xf << INODE_DEPTH_SHIFT,
        _ => 0,
    };
    let mut good = flags & allowed;
    let inline = good & INODE_INLINE != 0;
    if map != 0 && (!has_map || inline || depth > MAX_MAP_DEPTH) {
        tally.note(at, &iv::INODE_MAP);
        f::MAP.write(bytes, 0);
    }
    if f::MAP.read(bytes) == Some(0) {
        good &= !(0xf << INODE_DEPTH_SHIFT);
    }
    if good != flags {
        tally.note(at, &iv::INODE_FLAGS);
        f::FLAGS.write(bytes, good);
    }
    let length = f::BYTES.read(bytes).unwrap_or(0);
    let most = match kind {
        FileKind::File | FileKind::Symlink if inline => size.inline() as u64,
        FileKind::File | FileKind::Directory => MAX_FILE_SIZE,
        FileKind::Symlink => MAX_SYMLINK as u64,
        _ => 0,
    };
    if length > most {
        tally.note(at, &iv::INODE_SIZE);
        f::BYTES.write(bytes, most);
    }
    if inline {
        let end = INODE_CORE + length.min(most) as usize;
        if bytes.get(end..).is_some_and(|tail| tail.iter().any(|b| *b != 0)) {
            tally.note(at, &iv::INLINE_TAIL);
            bytes[end..].fill(0);
        }
    }
    let device = f::PARENT_OR_DEVICE.read(bytes).unwrap_or(0);
    let may_have_one = matches!(kind, FileKind::Directory | FileKind::CharDevice | FileKind::BlockDevice);
    if device != 0 && !may_have_one {
        tally.note(at, &iv::INODE_RDEV);
        f::PARENT_OR_DEVICE.write(bytes, 0);
    }
    kind
}
