//! Paths split at their last slash, and the directories before it.

use crate::attempt::Core;
use crate::mounted::dir_table::{Known, PathKey, TableView};
use crate::names::resolve::Start;
use lanefs_format::MAX_NAME;

/// Index that stands for no prefix.
pub(super) const NONE: u32 = u32::MAX;

/// Everything before the last slash of a path, which several paths may share.
pub(super) struct Prefix<'p> {
    pub(super) key: PathKey<'p>,
    hash: Option<u64>,
    record: Option<u32>,
    /// How far the table leads.
    pub(super) known: Known,
    /// How far the walk has led since.
    pub(super) learned: Option<Known>,
    /// Paths of the block that have it.
    pub(super) paths: u32,
    /// Number of the directory, where the batch has a list of them; else [`NONE`].
    directory: u32,
}

impl Prefix<'_> {
    /// Returns the number of the directory in the batch's list, and the directory, where an attempt that is
    /// valid has found it.
    pub(super) fn resolved(&self) -> Option<(usize, u64)> {
        let known = self.learned.unwrap_or(self.known);
        let is_whole = self.directory != NONE && known.bytes as usize == self.key.path.len();
        is_whole.then_some((self.directory as usize, known.dir))
    }

    /// True where the table leads to the directory of the last name.
    #[inline(always)]
    pub(super) fn is_known(&self) -> bool {
        self.known.bytes as usize == self.key.path.len()
    }

    /// Returns a fact for the table, with its key.
    pub(super) fn fact(&self) -> Option<(PathKey<'_>, Known)> {
        self.learned.filter(|learned| *learned != self.known).map(|known| (self.key, known))
    }
}

/// The prefixes of a block of paths; the same one in a row appears once.
#[derive(Default)]
pub(super) struct Prefixes<'p>(pub(super) Vec<Prefix<'p>>);

impl<'p> Prefixes<'p> {
    /// Splits a path whose last component is plain; `None` for another. Returns the index of its prefix, or
    /// [`NONE`] for a name in the start directory, and the last component.
    #[inline(always)]
    pub(super) fn split(&mut self, start: &Start<'_>, path: &'p [u8]) -> Option<(u32, &'p [u8])> {
        let slash = memchr::memrchr(b'/', path);
        let name = &path[slash.map_or(0, |at| at + 1)..];
        // A slash at the end requires a directory.
        if !is_plain(name) || name.is_empty() {
            return None;
        }
        let prefix = &path[..slash.unwrap_or(0)];
        if prefix.is_empty() {
            return Some((NONE, name));
        }
        let key = PathKey { start: start_of(start, path), path: prefix };
        match self.0.last_mut() {
            // The paths of a listing come directory by directory.
            Some(last) if last.key.start == key.start && last.key.path == prefix => last.paths += 1,
            _ => {
                let known = Known { dir: key.start, bytes: 0 };
                self.push(key, known, NONE);
            }
        }
        Some((self.0.len() as u32 - 1, name))
    }

    /// Adds a directory of the batch's list, which is the prefix of the next name. `resolved` is its inode,
    /// where an earlier attempt has found it. Returns the index of the prefix; `None` for a directory with a
    /// NUL, which has none.
    #[inline(always)]
    pub(super) fn enter(
        &mut self,
        start: &Start<'_>,
        number: u32,
        directory: &'p [u8],
        resolved: Option<u64>,
    ) -> Option<u32> {
        match self.0.last_mut() {
            Some(last) if last.directory == number => last.paths += 1,
            _ => {
                let path = directory.strip_suffix(b"/").unwrap_or(directory);
                let first = start_of(start, directory);
                let known = match resolved {
                    Some(dir) => Known { dir, bytes: path.len() as u32 },
                    None if memchr::memchr(0, path).is_some() => return None,
                    None => Known { dir: first, bytes: 0 },
                };
                self.push(PathKey { start: first, path }, known, number);
            }
        }
        Some(self.0.len() as u32 - 1)
    }

    #[inline(always)]
    fn push(&mut self, key: PathKey<'p>, known: Known, directory: u32) {
        self.0.push(Prefix { key, hash: None, record: None, known, learned: None, paths: 1, directory });
    }

    /// Looks all prefixes up in the table. Each step is done for all of them, so that their cache lines are
    /// fetched at the same time.
    pub(super) fn probe(&mut self, core: &Core<'_>, table: &TableView<'_>) {
        for prefix in self.0.iter_mut().filter(|prefix| !prefix.is_known()) {
            prefix.hash = table.prepare(&prefix.key);
        }
        for prefix in &mut self.0 {
            prefix.record = prefix.hash.and_then(|hash| table.probe(hash));
        }
        let size = core.store.inode_size();
        for prefix in &mut self.0 {
            match prefix.record.and_then(|record| table.compare(record, &prefix.key)) {
                // A record that is being written may have any number.
                Some(known) if known.bytes as usize <= prefix.key.path.len() => prefix.known = known,
                // An earlier attempt of the batch has found it.
                None if prefix.is_known() => {}
                _ => continue,
            }
            let inode = prefix.known.dir.wrapping_mul(size.bytes());
            core.store.prefetch(inode.wrapping_add(size.dir_root().offset as u64));
        }
    }
}

/// The directory in which a path starts.
#[inline(always)]
pub(super) fn start_of(start: &Start<'_>, path: &[u8]) -> u64 {
    if path.first() == Some(&b'/') { start.root } else { start.base }
}

/// True for a component that is looked up as it is.
#[inline(always)]
pub(super) fn is_plain(name: &[u8]) -> bool {
    name.len() <= MAX_NAME && (name.first() != Some(&b'.') || name != b"." && name != b"..")
}
