//! The entries of a directory as an iterator.

use crate::running::volume::Volume;
use crate::vocabulary::as_path::AsPath;
use crate::vocabulary::error::{Error, Result};
use crate::vocabulary::path::show;
use crate::vocabulary::types::{Caller, DirEntry, Ino};
use lanefs_format::{Code, FileKind};

/// Entries that are read at a time.
const PAGE_ENTRIES: usize = 256;

/// The entries of a directory, in no particular order, without `.` and `..`. Entries that stay are neither
/// left out nor given twice, whatever is made or removed meanwhile. After an error the iterator ends.
pub struct ReadDir<'v> {
    volume: &'v Volume,
    dir: Ino,
    page: std::vec::IntoIter<DirEntry>,
    cookie: u64,
    is_last: bool,
}

/// # Directories, by path
impl Volume {
    /// Lists the entries of a directory.
    ///
    /// ```
    /// # fn main() -> lanefs::Result<()> {
    /// use lanefs::{CreateOptions, Volume};
    ///
    /// let volume = Volume::create_memory(&CreateOptions { size: 64 << 20, ..CreateOptions::default() })?;
    /// volume.create_dir("/a")?;
    /// volume.write_file("/b", b"")?;
    /// let mut names = Vec::new();
    /// for entry in volume.read_dir("/")? {
    ///     names.push(entry?.name);
    /// }
    /// names.sort();
    /// assert_eq!(names, [b"a", b"b"]);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Code::NotDirectory`]; those of [`resolve`](Self::resolve).
    pub fn read_dir(&self, path: impl AsPath) -> Result<ReadDir<'_>> {
        let path = path.as_path();
        let attr = self.resolve(path)?;
        if attr.kind != FileKind::Directory {
            return Err(Error::from(Code::NotDirectory).at(show(path)));
        }
        Ok(ReadDir { volume: self, dir: attr.ino, page: Vec::new().into_iter(), cookie: 0, is_last: false })
    }
}

impl Iterator for ReadDir<'_> {
    type Item = Result<DirEntry>;

    fn next(&mut self) -> Option<Self::Item> {
        if let Some(entry) = self.page.next() {
            return Some(Ok(entry));
        }
        if self.is_last {
            return None;
        }
        let page = match self.volume.readdir(&Caller::OWNER, self.dir, self.cookie, PAGE_ENTRIES) {
            Ok(page) => page,
            Err(error) => {
                self.is_last = true;
                return Some(Err(error));
            }
        };
        match page.last() {
            Some(entry) => self.cookie = entry.cookie,
            None => self.is_last = true,
        }
        self.page = page.into_iter();
        self.page.next().map(Ok)
    }
}

impl std::iter::FusedIterator for ReadDir<'_> {}
