//! Twin of `shaders/walk.comp`.

use crate::shared::layout::{CACHED_NAME_BYTES, DIR_PATH_MAX, MODE_DIRECTORY, MODE_SYMLINK, MODE_TYPE};
use crate::shared::limits::{COMPONENT_FUEL, MAX_DEPTH, MAX_DISPATCHES, MAX_PATH_BYTES};
use crate::shared::query::{LookupQuery, PathResult};
use crate::shared::structures::{FillRequest, LearnRequest};
use crate::twin::headers::cache::cached;
use crate::twin::headers::directory::{Directories, Entry};
use crate::twin::headers::fuel::Fuel;
use crate::twin::headers::memory::Memory;
use crate::twin::headers::name::{Name, ShortName};
use lanefs::format::{
    Code, FileKind, INODE_ACCESS_ACL, INODE_CORE, INODE_INLINE, MAX_NAME, MAX_SYMLINKS_FOLLOWED, inode,
};

/// Work that lookups leave to later kernels.
#[derive(Clone, Debug, Default)]
pub struct Requests {
    /// Number of the path that is resolved, in its batch.
    pub path: u32,
    /// Paths that were walked.
    pub walks: usize,
    /// Entries found in the tree, for `fill`.
    pub fills: Vec<FillRequest>,
    /// Paths of directories that were walked, for `learn`.
    pub learns: Vec<LearnRequest>,
}

/// State with which a dispatch of `walk` begins.
#[derive(Clone, Copy, Debug, Default)]
pub struct ResumePoint {
    /// Offset in the text.
    pub(in crate::twin) at: usize,
    /// The directory.
    pub(in crate::twin) dir: u64,
    pub(in crate::twin) followed: u32,
    pub(in crate::twin) has_slash: bool,
    /// An entry, or the host, has said that `dir` is a directory.
    pub(in crate::twin) is_known: bool,
    /// The walk began at the start of the path and has met nothing but directories.
    pub(in crate::twin) is_plain: bool,
}

/// Resolves a path from a state on, in as many dispatches as it takes.
pub fn walk<M: Memory>(
    memory: &M,
    query: &LookupQuery,
    path: &[u8],
    mut state: ResumePoint,
    requests: &mut Requests,
) -> PathResult {
    for _ in 0..MAX_DISPATCHES {
        let fuel = &Fuel::new(query.fuel);
        let directories = Directories { memory, inode_size: query.inode_size, fuel };
        let mut lookup = PathLookup { memory, query, fuel, directories, requests };
        match lookup.resolve(path, &mut state) {
            Stopped::Unfinished => {}
            Stopped::Failed(code) => return PathResult::failed(code),
            Stopped::Found(found) => return found,
        }
    }
    PathResult::failed(Code::NotResident)
}

enum Stopped {
    Found(PathResult),
    Failed(Code),
    Unfinished,
}

impl From<Code> for Stopped {
    fn from(code: Code) -> Self {
        Stopped::Failed(code)
    }
}

/// Remaining text: that of the path, or of a link's target.
#[derive(Clone)]
struct Rest {
    text: Vec<u8>,
    at: usize,
}

impl Rest {
    fn is_over(&self) -> bool {
        self.at >= self.text.len()
    }
}

/// A dispatch of one lookup.
struct PathLookup<'q, M> {
    memory: &'q M,
    query: &'q LookupQuery,
    fuel: &'q Fuel,
    directories: Directories<'q, M>,
    requests: &'q mut Requests,
}

impl<M: Memory> PathLookup<'_, M> {
    fn inode(&self, ino: u64) -> u64 {
        ino.wrapping_mul(self.query.inode_size.bytes())
    }

    fn request_fill(&mut self, dir: u64, entry: &Entry, length: usize) {
        if entry.at != 0 && length <= CACHED_NAME_BYTES {
            self.requests.fills.push(FillRequest { dir, entry: entry.at });
        }
    }

    fn request_learn(&mut self, dir: u64, bytes: usize) {
        if self.memory.dir_buckets() != 0 && bytes <= DIR_PATH_MAX {
            let path = self.requests.path;
            self.requests.learns.push(LearnRequest { dir, path, bytes: bytes as u32 });
        }
    }

    fn search_permission(&self, dir: u64) -> Result<(), Code> {
        let Some(user) = &self.query.user else { return Ok(()) };
        let offset = self.inode(dir);
        let head = self.memory.word(offset).unwrap_or(0);
        let mode = head as u16;
        let has_list = head >> 16 & u32::from(INODE_ACCESS_ACL) != 0;
        if mode & MODE_TYPE != MODE_DIRECTORY || has_list {
            return Err(Code::NotResident);
        }
        let word = |at: usize| self.memory.word(offset + at as u64).unwrap_or(0);
        let (uid, gid) = (word(inode::UID.offset), word(inode::GID.offset));
        let mut is_in_group = gid == user.gid;
        for group in &user.groups {
            if !self.fuel.burn() {
                break;
            }
            is_in_group |= *group == gid;
        }
        let granted = match () {
            () if uid == user.uid => mode >> 6,
            () if is_in_group => mode >> 3,
            () => mode,
        };
        if granted & 1 != 0 { Ok(()) } else { Err(Code::AccessDenied) }
    }

    fn target_of(&self, ino: u64) -> Option<Rest> {
        let offset = self.inode(ino);
        let head = self.memory.word(offset)?;
        let size = self.memory.quad(offset + inode::BYTES.offset as u64)?;
        let is_inline = head as u16 & MODE_TYPE == MODE_SYMLINK && head >> 16 & u32::from(INODE_INLINE) != 0;
        let room = self.query.inode_size.bytes() - INODE_CORE as u64;
        if !is_inline || size == 0 || size > room {
            return None;
        }
        let mut text = Vec::new();
        for i in 0..size.div_ceil(4) {
            text.extend(self.memory.word(offset + INODE_CORE as u64 + i * 4)?.to_le_bytes());
        }
        text.truncate(size as usize);
        Some(Rest { text, at: 0 })
    }

    /// Returns the end of the component that begins at `at`: at a slash, at a NUL, at the end of the text;
    /// or it is too long for a name.
    fn component_end(&self, rest: &Rest) -> usize {
        let name = rest.text[rest.at..].iter().take(MAX_NAME + 1);
        let length = name.take_while(|byte| **byte != b'/' && **byte != 0).count();
        self.fuel.spend(2 + length as u32 / 4);
        rest.at + length
    }

    fn skip(&self, rest: &Rest, mut at: usize) -> usize {
        while rest.text.get(at) == Some(&b'/') && self.fuel.burn() {
            at += 1;
        }
        at
    }

    fn resolve(&mut self, path: &[u8], state: &mut ResumePoint) -> Stopped {
        if path.is_empty() {
            return Code::NotFound.into();
        }
        if path.len() > MAX_PATH_BYTES {
            return Code::NotResident.into();
        }
        let mut rest = Rest { text: path.to_vec(), at: 0 };
        let mut outer: Vec<Rest> = Vec::new();
        let ResumePoint { at, mut dir, mut followed, mut has_slash, mut is_known, mut is_plain } = *state;
        let mut kind = FileKind::Directory as u32;
        let mut is_path = true;
        rest.at = self.skip(&rest, at);
        loop {
            if rest.is_over()
                && let Some(below) = outer.pop()
            {
                rest = below;
            }
            if rest.is_over() {
                break;
            }
            if kind != FileKind::Directory as u32 {
                return Code::NotDirectory.into();
            }
            if self.fuel.left() < COMPONENT_FUEL && outer.is_empty() && is_path {
                *state = ResumePoint { at: rest.at, dir, followed, has_slash, is_known, is_plain };
                return Stopped::Unfinished;
            }
            if !self.fuel.burn() {
                return Code::NotResident.into();
            }
            let (begin, end) = (rest.at, self.component_end(&rest));
            if end - begin > MAX_NAME || rest.text.get(end) == Some(&0) {
                return Code::NotResident.into();
            }
            rest.at = self.skip(&rest, end);
            let has_components = !rest.is_over() || !outer.is_empty();
            let must_be_dir = end < rest.text.len() || !outer.is_empty() || has_slash;
            if let Err(code) = self.search_permission(dir) {
                return if self.fuel.left() == 0 { Code::NotResident } else { code }.into();
            }
            let text = rest.text[begin..end].to_vec();
            match &text[..] {
                b"." => {
                    is_plain = false;
                    continue;
                }
                b".." => {
                    is_plain = false;
                    let offset = self.inode(dir).wrapping_add(inode::PARENT_OR_DEVICE.offset as u64);
                    match self.memory.quad(offset) {
                        None | Some(0) => return Code::NotResident.into(),
                        Some(parent) => (dir, is_known) = (parent, false),
                    }
                    continue;
                }
                _ => {}
            }
            if is_plain && end == rest.text.len() && begin > 1 {
                self.request_learn(dir, begin - 1);
            }
            let found = match cached(self.memory, self.fuel, dir, &ShortName::new(self.query.seed, &text)) {
                Some(entry) => Some(Some(entry)),
                None => {
                    let name = Name::new(self.query.seed, &text, self.fuel);
                    self.directories.find(dir, is_known, &name)
                }
            };
            let Some(found) = found.filter(|_| self.fuel.left() != 0) else {
                return Code::NotResident.into();
            };
            let Some(entry) = found else {
                return if has_components { Code::ComponentNotFound } else { Code::NotFound }.into();
            };
            self.request_fill(dir, &entry, text.len());
            if entry.kind == FileKind::Symlink as u32 && (self.query.follow || must_be_dir) {
                followed += 1;
                is_plain = false;
                if followed > MAX_SYMLINKS_FOLLOWED {
                    return Code::SymlinkLoop.into();
                }
                let Some(target) = self.target_of(entry.ino) else { return Code::NotResident.into() };
                if !rest.is_over() {
                    if outer.len() == MAX_DEPTH {
                        return Code::NotResident.into();
                    }
                    outer.push(rest);
                } else if outer.is_empty() {
                    has_slash |= end < rest.text.len();
                    is_path = false;
                }
                rest = target;
                if rest.text.first() == Some(&b'/') {
                    (dir, is_known) = (self.query.root, true);
                }
                rest.at = self.skip(&rest, 0);
                continue;
            }
            (dir, kind, is_known) = (entry.ino, entry.kind, true);
        }
        if self.fuel.left() == 0 {
            return Code::NotResident.into();
        }
        if kind != FileKind::Directory as u32 && (has_slash || rest.text.last() == Some(&b'/')) {
            return Code::NotDirectory.into();
        }
        Stopped::Found(PathResult { code: Code::Success, kind, ino: dir })
    }
}
