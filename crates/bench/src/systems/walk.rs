//! The files of a volume in the order of their paths, as a search finds them.

use lanefs::{Caller, DirEntry, FileKind, Ino, Volume};
use lanefs_search::Candidate;

/// Entries in one read of a directory.
const PAGE_ENTRIES: usize = 4096;

/// A walk over all files. It ends early where the volume cannot answer: then the number of files is wrong.
pub(crate) struct WalkedFiles<'v> {
    volume: &'v Volume,
    /// The directories that the walk is inside: length of the path, entries in reverse order.
    open: Vec<(usize, Vec<DirEntry>)>,
    path: Vec<u8>,
}

impl<'v> WalkedFiles<'v> {
    pub(crate) fn new(volume: &'v Volume) -> Self {
        let mut files = WalkedFiles { volume, open: Vec::new(), path: Vec::new() };
        files.enter(volume.root());
        files
    }

    fn enter(&mut self, dir: Ino) {
        let (mut entries, mut cookie) = (Vec::new(), 0);
        while let Ok(page) = self.volume.readdir(&Caller::OWNER, dir, cookie, PAGE_ENTRIES)
            && let Some(last) = page.last()
        {
            cookie = last.cookie;
            entries.extend(page);
        }
        entries.sort_unstable_by(|a, b| b.name.cmp(&a.name));
        self.open.push((self.path.len(), entries));
    }
}

impl Iterator for WalkedFiles<'_> {
    type Item = Candidate;

    fn next(&mut self) -> Option<Candidate> {
        loop {
            let (len, entries) = self.open.last_mut()?;
            self.path.truncate(*len);
            let Some(entry) = entries.pop() else {
                self.open.pop();
                continue;
            };
            if matches!(&entry.name[..], b"." | b"..") {
                continue;
            }
            self.path.push(b'/');
            self.path.extend_from_slice(&entry.name);
            match entry.kind {
                FileKind::Directory => self.enter(entry.ino),
                FileKind::File => {
                    let attr = self.volume.getattr(entry.ino).ok()?;
                    let (path, ino, size) = (self.path.clone(), attr.ino, attr.size);
                    return Some(Candidate { path, shown: None, ino, size, is_named: false });
                }
                _ => {}
            }
        }
    }
}
