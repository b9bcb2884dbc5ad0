//! Many files in one call.
//!
//! ```text
//!  paths or inodes ── locate ── lay out ── copy what is resident ─── fetch the rest by position ── contents
//!                       │                          │                             │
//!                 size, generation       files of which blocks are      each by itself, where it
//!                 of every file          absent, and which these are    has changed or is large
//! ```
//!
//! | module | |
//! |---|---|
//! | `options`, `layout`, `contents` | the arguments; where the bytes of each file lie; the bytes of all files in one piece of memory |
//! | `rounds` | attempts whose misses are fetched together |
//! | `planned` | one file: its part of this memory, and how far it is |
//! | `alone` | one file by itself |
//! | `batch`, `locate`, `read` | one call: finding its files, and reading them |
//! | `parts` | one call whose bytes go to memory of the caller part by part |
//! | `bring` | the content of files that are read next, one after the other, and names that are looked up next |
//! | `views` | slices of the volume's memory in place of copies |
//!
//! The bytes of a file and their number come from one valid attempt, so they belong to one state of the file.
//! The memory is laid out before that, by the sizes that were found; a file whose size has changed since is
//! read into memory of its own, and the files after it move.

mod alone;
mod batch;
mod bring;
mod contents;
mod layout;
mod locate;
mod options;
mod parts;
#[cfg(test)]
mod parts_tests;
mod planned;
mod read;
mod rounds;
#[cfg(test)]
mod tests;
mod views;
#[cfg(test)]
mod views_tests;

use crate::running::volume::Volume;
use crate::vocabulary::error::Result;
pub(crate) use batch::FileBatch;
pub use contents::FileContents;
pub(crate) use contents::Late;
pub use layout::FileLayout;
pub(crate) use locate::Located;
pub use options::{ByteRange, FileList, ReadFiles};
pub use parts::FileSink;
pub(crate) use planned::PlannedFile;
pub use views::FileViews;

/// # Many files in a call
impl Volume {
    /// Reads many files, or a part of each, into one piece of memory, in the order asked for. Each file has
    /// the result that [`read`](Self::read) has for the same caller, and one bad file never affects another:
    /// its [code](FileContents::codes) says why it has no bytes. Returns the number of files that were read.
    ///
    /// The bytes of a file are those of one moment: beside a writer, too, no file is half old and half new.
    /// Absent blocks are fetched in the order of their positions on the device. A batch may be larger
    /// than the cache.
    ///
    /// ```
    /// use lanefs::{Code, CreateOptions, FileContents, PathSet, ReadFiles, Volume};
    ///
    /// # fn main() -> lanefs::Result<()> {
    /// let volume = Volume::create_memory(&CreateOptions { size: 64 << 20, ..CreateOptions::default() })?;
    /// volume.write_file("/a", b"one")?;
    /// volume.write_file("/b", b"three")?;
    ///
    /// let paths: PathSet = ["/b", "/c", "/a"].into_iter().collect();
    /// let mut files = FileContents::new();
    /// volume.read_files(&ReadFiles::default(), &paths, &mut files)?;
    /// assert_eq!((files.bytes(), files.offsets()), (&b"threeone"[..], &[0, 5, 5, 8][..]));
    /// assert_eq!(files.get(1), Some(Err(Code::NotFound)));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Code::Invalid`](crate::Code::Invalid) where there is not one range for each file, or where the memory
    /// that the caller lent is too small; [`Error::Io`](crate::Error::Io) where the host has too little; those of
    /// [`resolve_into`](Self::resolve_into); [`Error::Expansion`](crate::Error::Expansion) beyond a
    /// [bound](Self::bound_expansion). There are no contents then.
    pub fn read_files<'f>(
        &self,
        options: &ReadFiles<'_>,
        files: impl Into<FileList<'f>>,
        contents: &mut FileContents<'_>,
    ) -> Result<usize> {
        let files = files.into();
        contents.clear();
        options.check_ranges(files)?;
        let batch = FileBatch { volume: self, options, stop: None };
        let located = batch.locate(files)?;
        batch.read_into(files, &located, contents)?;
        self.check_expansion(contents.bytes()).inspect_err(|_| contents.clear())?;
        Ok(contents.layout().successes())
    }
}
