//! Names of entries, by directories.

use lanefs::{FileKind, Ino};

/// Number of an entry of [`Names`].
pub type EntryId = u32;

/// Names below some directories. Entries of a directory stand together, in the order of their names, and
/// directories in the order of a walk: each one before those below it.
#[derive(Debug, Default)]
pub struct Names {
    /// Names of all entries.
    pub(super) text: Vec<u8>,
    pub(super) entries: Vec<Entry>,
    pub(super) masks: Vec<u64>,
    pub(super) inodes: Vec<Ino>,
    /// Segments of all directories.
    pub(super) segments: Vec<u8>,
    pub(super) dirs: Vec<Dir>,
}

/// An entry of a directory.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    /// Offset of its name after [`Dir::text_at`].
    pub(super) at: u32,
    pub(super) len: u16,
    pub(super) kind: FileKind,
    pub(super) is_ascii: bool,
}

/// A directory with entries.
#[derive(Clone, Copy, Debug)]
pub(super) struct Dir {
    /// The directory above; its own number at the top.
    pub(super) parent: u32,
    /// Number of directories above.
    pub(super) level: u32,
    /// Number of directories between the entries and the start of the walk.
    pub(super) depth: u32,
    /// The part of the path after that of the directory above, with a slash at the end.
    pub(super) segment_at: usize,
    pub(super) segment_len: u32,
    /// Length of the whole path, with the slash.
    pub(super) path_len: u32,
    pub(super) is_ascii: bool,
    /// All names are ASCII.
    pub(super) has_ascii: bool,
    /// All bytes of all names.
    pub(super) mask: u64,
    pub(super) text_at: usize,
    pub(super) entries: (EntryId, EntryId),
}

impl Names {
    /// Number of entries.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// True if there is no entry.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Inode number and type of an entry, and its depth below the start.
    ///
    /// # Panics
    /// There is no such entry.
    pub fn entry(&self, id: EntryId) -> (Ino, FileKind, usize) {
        let index = id as usize;
        let depth = self.dirs[self.dir_of(id)].depth as usize;
        (self.inodes[index], self.entries[index].kind, depth)
    }

    /// Appends the path of an entry to `path`.
    ///
    /// # Panics
    /// There is no such entry.
    pub fn push_path(&self, id: EntryId, path: &mut Vec<u8>) {
        let dir = self.dir_of(id);
        self.push_dir(dir, path);
        path.extend_from_slice(self.name(&self.dirs[dir], id));
    }

    /// The path of an entry.
    ///
    /// # Panics
    /// There is no such entry.
    pub fn path(&self, id: EntryId) -> Vec<u8> {
        let mut path = Vec::new();
        self.push_path(id, &mut path);
        path
    }

    /// Length of the path of an entry.
    pub(super) fn path_len(&self, id: EntryId) -> usize {
        let dir = &self.dirs[self.dir_of(id)];
        dir.path_len as usize + usize::from(self.entries[id as usize].len)
    }

    /// The directory of an entry.
    pub(super) fn dir_of(&self, id: EntryId) -> usize {
        self.dirs.partition_point(|dir| dir.entries.1 <= id)
    }

    pub(super) fn name(&self, dir: &Dir, id: EntryId) -> &[u8] {
        let entry = &self.entries[id as usize];
        let at = dir.text_at + entry.at as usize;
        &self.text[at..at + usize::from(entry.len)]
    }

    /// Appends the path of a directory, with a slash at the end.
    pub(super) fn push_dir(&self, dir: usize, path: &mut Vec<u8>) {
        let begin = path.len();
        let mut end = begin + self.dirs[dir].path_len as usize;
        path.resize(end, 0);
        let mut dir = dir;
        loop {
            let segment = self.segment(dir);
            path[end - segment.len()..end].copy_from_slice(segment);
            end -= segment.len();
            let parent = self.dirs[dir].parent as usize;
            if parent == dir {
                return debug_assert_eq!(end, begin);
            }
            dir = parent;
        }
    }

    pub(super) fn segment(&self, dir: usize) -> &[u8] {
        let dir = &self.dirs[dir];
        &self.segments[dir.segment_at..dir.segment_at + dir.segment_len as usize]
    }
}

/// The bytes of a name as a set: a bit for each letter without its case, for each digit, and others that
/// share bits.
pub(super) fn mask(name: &[u8]) -> u64 {
    name.iter().fold(0, |mask, byte| mask | bit(*byte))
}

/// The bit of a byte in [`mask`].
pub(super) fn bit(byte: u8) -> u64 {
    let number = match byte {
        b'a'..=b'z' => byte - b'a',
        b'A'..=b'Z' => byte - b'A',
        b'0'..=b'9' => 26 + byte - b'0',
        b'.' => 36,
        b'_' => 37,
        b'-' => 38,
        b' ' => 39,
        _ => 40 + byte % 24,
    };
    1 << number
}
