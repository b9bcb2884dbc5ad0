//! Twin of `shaders/lookup.comp`.

use super::Memory;
use crate::layout::{MAX_PATH, MODE_DIRECTORY, MODE_TYPE};
use lanefs::format::dir::{
    BUCKET_SLOTS, BUCKETS, MAX_TREE_LEVEL, Slot, TREE_MAX, entry, index, leaf, small_tag, tree,
};
use lanefs::format::{
    BLOCK, BlockKind, Code, DirRoot, FileKind, HashSeed, InodeSize, MAX_NAME, UNIT, half_md4, inode,
};

/// Where lookups begin, and what they do.
#[derive(Clone, Copy, Debug)]
pub struct Question {
    /// Inode number of the root directory, and of the directory where relative paths begin.
    pub root: u64,
    /// As above.
    pub base: u64,
    /// Of the volume's hashes.
    pub seed: HashSeed,
    /// Of the volume.
    pub inode_size: InodeSize,
    /// Symbolic links at the end are followed.
    pub follow: bool,
}

/// What a kernel answers to a path. [`Code::NotResident`]: the host decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found {
    /// Success, or why not.
    pub code: Code,
    /// Number of the file's type (`d_type`), 0 without a file.
    pub kind: u32,
    /// Inode number, 0 without a file.
    pub ino: u64,
}

impl Found {
    fn failed(code: Code) -> Self {
        Found { code, kind: 0, ino: 0 }
    }
}

/// What is known of a name; `None` stands for the kernel's UNKNOWN.
type Known<T> = Option<T>;

/// One lookup.
struct Lookup<'q, M> {
    memory: &'q M,
    question: &'q Question,
}

/// Resolves a path.
pub fn lookup<M: Memory>(memory: &M, question: &Question, path: &[u8]) -> Found {
    let found = Lookup { memory, question }.resolve(path);
    if found.code != Code::Success {
        return found;
    }
    let mode =
        memory.word(found.ino.wrapping_mul(question.inode_size.bytes())).map_or(0, |word| word & 0xffff);
    if mode == 0 || mode == 0xffff { Found::failed(Code::NotResident) } else { found }
}

impl<M: Memory> Lookup<'_, M> {
    fn probe(&self, at: u64, name: &[u8], hash: u32) -> Known<Option<(u64, u32)>> {
        let inside = at % BLOCK;
        if !at.is_multiple_of(UNIT)
            || inside < leaf::SIZE as u64
            || inside + (entry::SIZE + name.len()) as u64 > BLOCK
        {
            return None;
        }
        let word = self.memory.quad(at + entry::HASH.offset as u64)?;
        let rest = (word >> 32) as u32;
        let length = rest & 0xff;
        if length == 0 || rest >> 16 != 0 {
            return None;
        }
        if word as u32 != hash || length != name.len() as u32 {
            return Some(None);
        }
        for (i, four) in name.chunks(4).enumerate() {
            let there = self.memory.word(at + (entry::SIZE + 4 * i) as u64)?.to_le_bytes();
            if there[..four.len()] != *four {
                return Some(None);
            }
        }
        let ino = self.memory.quad(at + entry::INODE.offset as u64)?;
        let kind = rest >> 8 & 0xff;
        FileKind::from_number(kind as u8).map(|_| Some((ino, kind)))
    }

    fn find_small(&self, inode: u64, leaf: u64, name: &[u8], hash: u32) -> Known<Option<(u64, u32)>> {
        let size = self.question.inode_size;
        let byte = |at: usize| -> Option<u32> {
            let word = self.memory.word(inode.wrapping_add(at as u64 & !3))?;
            Some(word >> (at % 4 * 8) & 0xff)
        };
        for i in 0..size.small_entries() {
            if byte(size.small_tags() + i)? != u32::from(small_tag(hash)) {
                continue;
            }
            let unit = byte(size.small_units() + i)?;
            if unit != 0
                && let found @ Some(_) = self.probe(leaf.wrapping_add(u64::from(unit) * UNIT), name, hash)?
            {
                return Some(found);
            }
        }
        Some(None)
    }

    fn find_in_region(&self, at: u64, name: &[u8], hash: u32) -> Known<Option<(u64, u32)>> {
        if !at.is_multiple_of(BLOCK) {
            return None;
        }
        let mut bucket = Slot::home(hash as u16);
        for _ in 0..BUCKETS {
            let slots = at.wrapping_add((index::SLOTS.offset + bucket * BUCKET_SLOTS * 8) as u64);
            let first = self.memory.quad(slots)?;
            if first == u64::MAX {
                return None;
            }
            for i in 0..BUCKET_SLOTS as u64 {
                let slot = Slot(if i == 0 { first } else { self.memory.quad(slots + i * 8)? });
                if slot.tag() == hash as u16
                    && slot.position() != 0
                    && let found @ Some(_) = self.probe(slot.position(), name, hash)?
                {
                    return Some(found);
                }
            }
            if first & Slot::OVERFLOW == 0 {
                return Some(None);
            }
            bucket = (bucket + 1) % BUCKETS;
        }
        None
    }

    fn region_of(&self, root: u64, hash: u32) -> Known<u64> {
        let (mut block, mut above) = (root, u32::from(MAX_TREE_LEVEL) + 1);
        for _ in 0..MAX_TREE_LEVEL {
            if !block.is_multiple_of(BLOCK) {
                return None;
            }
            let head = self.memory.word(block)?;
            let (level, count) = (head >> 8 & 0xff, head >> 16);
            if head & 0xff != BlockKind::Tree as u32
                || level == 0
                || level >= above
                || count == 0
                || count > TREE_MAX as u32
            {
                return None;
            }
            let lowest = |i: u32| self.memory.word(block + (tree::HASHES.offset as u64) + u64::from(i) * 4);
            let mut i = ((u64::from(hash) * u64::from(count)) >> 32) as u32;
            while i > 0 && lowest(i)? > hash {
                i -= 1;
            }
            while i + 1 < count && lowest(i + 1)? <= hash {
                i += 1;
            }
            let child = self.memory.quad(block + tree::POSITIONS.offset as u64 + u64::from(i) * 8)?;
            if level == 1 {
                return Some(child).filter(|child| *child != 0);
            }
            (above, block) = (level, child);
        }
        None
    }

    fn find(&self, dir: u64, name: &[u8]) -> Known<Option<(u64, u32)>> {
        let size = self.question.inode_size;
        let inode = dir.wrapping_mul(size.bytes());
        let mode = self.memory.word(inode)? as u16;
        let root = self.memory.quad(inode.wrapping_add(size.dir_root().offset as u64))?;
        if mode & MODE_TYPE != MODE_DIRECTORY {
            return None;
        }
        if root == 0 {
            return Some(None);
        }
        let hash = half_md4(self.question.seed, name);
        let (block, form) = (root - root % BLOCK, root % BLOCK);
        let is = |root: DirRoot| form == root.word() % BLOCK;
        if is(DirRoot::Small(BLOCK)) {
            return self.find_small(inode, block, name, hash);
        }
        let index = match () {
            () if is(DirRoot::Region(BLOCK)) => block,
            () if is(DirRoot::Tree(BLOCK)) => self.region_of(block, hash)?,
            () => return None,
        };
        if index == 0 { None } else { self.find_in_region(index, name, hash) }
    }

    fn resolve(&self, path: &[u8]) -> Found {
        let Some(first) = path.first() else { return Found::failed(Code::NotFound) };
        if path.len() > MAX_PATH {
            return Found::failed(Code::NotResident);
        }
        let skip = |at: usize| at + path[at..].iter().take_while(|byte| **byte == b'/').count();
        let mut dir = if *first == b'/' { self.question.root } else { self.question.base };
        let mut kind = FileKind::Directory as u32;
        let mut at = skip(0);
        while at < path.len() {
            if kind != FileKind::Directory as u32 {
                return Found::failed(Code::NotDirectory);
            }
            let length = path[at..].iter().take_while(|byte| **byte != b'/').count();
            let name = &path[at..at + length];
            let has_rest = at + length < path.len();
            at = skip(at + length);
            let is_last = at == path.len();
            if name.contains(&0) || name.len() > MAX_NAME {
                return Found::failed(Code::NotResident);
            }
            match name {
                b"." => continue,
                b".." => {
                    let place = dir.wrapping_mul(self.question.inode_size.bytes());
                    let place = place.wrapping_add(inode::PARENT_OR_DEVICE.offset as u64);
                    match self.memory.quad(place) {
                        None | Some(0) => return Found::failed(Code::NotResident),
                        Some(parent) => dir = parent,
                    }
                    continue;
                }
                _ => {}
            }
            let (ino, found) = match self.find(dir, name) {
                None => return Found::failed(Code::NotResident),
                Some(None) => {
                    return Found::failed(if is_last { Code::NotFound } else { Code::ComponentNotFound });
                }
                Some(Some(found)) => found,
            };
            if found == FileKind::Symlink as u32 && (self.question.follow || has_rest) {
                return Found::failed(Code::NotResident);
            }
            (dir, kind) = (ino, found);
        }
        if kind != FileKind::Directory as u32 && path.last() == Some(&b'/') {
            return Found::failed(Code::NotDirectory);
        }
        Found { code: Code::Success, kind, ino: dir }
    }
}
