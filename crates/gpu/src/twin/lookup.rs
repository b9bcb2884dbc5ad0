//! Twin of `shaders/lookup.comp`.

use super::Memory;
use super::cache::cached;
use super::directory::{Directories, Entry};
use super::fuel::Fuel;
use super::name::Name;
use crate::layout::{
    CACHED_NAME, COMPONENT_FUEL, MAX_DEPTH, MAX_PATH, MODE_DIRECTORY, MODE_SYMLINK, MODE_TYPE,
};
use lanefs::User;
use lanefs::format::{
    Code, FileKind, HashSeed, INODE_CORE, INODE_INLINE, InodeSize, MAX_NAME, MAX_SYMLINKS_FOLLOWED, inode,
};

pub use crate::structures::Note;

/// Where lookups begin, and what they do.
#[derive(Clone, Debug)]
pub struct Question {
    /// Inode number of the root directory.
    pub root: u64,
    /// Inode number of the directory where relative paths begin.
    pub base: u64,
    /// Of the volume's hashes.
    pub seed: HashSeed,
    /// Of the volume.
    pub inode_size: InodeSize,
    /// Symbolic links at the end are followed.
    pub follow: bool,
    /// Whose permissions are checked; `None`: nobody's.
    pub user: Option<User>,
    /// Rounds of all loops of an invocation.
    pub fuel: u32,
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

/// Dispatches that go on with one another's lookups, at most.
pub const MAX_DISPATCHES: usize = 256;

/// Resolves a path, in as many dispatches as it takes; what it found in the tree is added to `notes`.
pub fn lookup<M: Memory>(memory: &M, question: &Question, path: &[u8], notes: &mut Vec<Note>) -> Found {
    let mut state = State::default();
    for _ in 0..MAX_DISPATCHES {
        let fuel = &Fuel::new(question.fuel);
        let directories = Directories { memory, inode_size: question.inode_size, fuel };
        let stopped = Lookup { memory, question, fuel, directories, notes }.resolve(path, &mut state);
        let found = match stopped {
            Stopped::Unfinished => continue,
            Stopped::Failed(code) => return Found::failed(code),
            Stopped::Found(found) => found,
        };
        let mode = memory.word(found.ino.wrapping_mul(question.inode_size.bytes()));
        let mode = mode.map_or(0, |word| word & 0xffff);
        return if mode == 0 || mode == 0xffff { Found::failed(Code::NotResident) } else { found };
    }
    Found::failed(Code::NotResident)
}

/// What the next dispatch of a lookup begins with.
#[derive(Clone, Copy, Default)]
struct State {
    /// Where the text goes on, and in which directory; nothing: at the start.
    goes_on: Option<(usize, u64)>,
    followed: u32,
    has_slash: bool,
}

enum Stopped {
    Found(Found),
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
struct Lookup<'q, M> {
    memory: &'q M,
    question: &'q Question,
    fuel: &'q Fuel,
    directories: Directories<'q, M>,
    notes: &'q mut Vec<Note>,
}

impl<M: Memory> Lookup<'_, M> {
    fn inode(&self, ino: u64) -> u64 {
        ino.wrapping_mul(self.question.inode_size.bytes())
    }

    fn note(&mut self, dir: u64, entry: &Entry, length: usize) {
        if entry.at != 0 && length <= CACHED_NAME {
            self.notes.push(Note { dir, entry: entry.at });
        }
    }

    fn search_permission(&self, dir: u64) -> Result<(), Code> {
        let Some(user) = &self.question.user else { return Ok(()) };
        let place = self.inode(dir);
        let mode = self.memory.word(place).unwrap_or(0) as u16;
        if mode & MODE_TYPE != MODE_DIRECTORY {
            return Err(Code::NotResident);
        }
        let word = |at: usize| self.memory.word(place + at as u64).unwrap_or(0);
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
        let place = self.inode(ino);
        let head = self.memory.word(place)?;
        let size = self.memory.quad(place + inode::BYTES.offset as u64)?;
        let is_inline = head as u16 & MODE_TYPE == MODE_SYMLINK && head >> 16 & u32::from(INODE_INLINE) != 0;
        let room = self.question.inode_size.bytes() - INODE_CORE as u64;
        if !is_inline || size == 0 || size > room {
            return None;
        }
        let mut text = Vec::new();
        for i in 0..size.div_ceil(4) {
            text.extend(self.memory.word(place + INODE_CORE as u64 + i * 4)?.to_le_bytes());
        }
        text.truncate(size as usize);
        Some(Rest { text, at: 0 })
    }

    /// Where the component that begins at `at` ends: at a slash, at a NUL, at the end; or it is too long for a name.
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

    fn resolve(&mut self, path: &[u8], state: &mut State) -> Stopped {
        let Some(first) = path.first() else { return Code::NotFound.into() };
        if path.len() > MAX_PATH {
            return Code::NotResident.into();
        }
        let mut rest = Rest { text: path.to_vec(), at: 0 };
        let mut outer: Vec<Rest> = Vec::new();
        let mut dir = if *first == b'/' { self.question.root } else { self.question.base };
        let mut kind = FileKind::Directory as u32;
        let (mut is_known, mut is_path) = (true, true);
        let State { mut followed, mut has_slash, .. } = *state;
        if let Some((at, here)) = state.goes_on {
            (rest.at, dir, is_known) = (at, here, false);
        }
        rest.at = self.skip(&rest, rest.at);
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
                *state = State { goes_on: Some((rest.at, dir)), followed, has_slash };
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
                b"." => continue,
                b".." => {
                    let place = self.inode(dir).wrapping_add(inode::PARENT_OR_DEVICE.offset as u64);
                    match self.memory.quad(place) {
                        None | Some(0) => return Code::NotResident.into(),
                        Some(parent) => (dir, is_known) = (parent, false),
                    }
                    continue;
                }
                _ => {}
            }
            let name = Name::new(self.question.seed, &text, self.fuel);
            let found = match cached(self.memory, dir, &name) {
                Some(entry) => Some(Some(entry)),
                None => self.directories.find(dir, is_known, &name),
            };
            let Some(found) = found.filter(|_| self.fuel.left() != 0) else {
                return Code::NotResident.into();
            };
            let Some(entry) = found else {
                return if has_components { Code::ComponentNotFound } else { Code::NotFound }.into();
            };
            self.note(dir, &entry, text.len());
            if entry.kind == FileKind::Symlink as u32 && (self.question.follow || must_be_dir) {
                followed += 1;
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
                    (dir, is_known) = (self.question.root, true);
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
        Stopped::Found(Found { code: Code::Success, kind, ino: dir })
    }
}
