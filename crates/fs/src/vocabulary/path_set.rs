//! Many paths in one text, with offsets: the argument of every call on a batch.
//!
//! A list of strings costs an allocation for each path, and a batch that reads it waits for memory at each.
//! A [`PathSet`] keeps all text in one piece. [`Paths`] is a view of it, or of text and offsets that another
//! library owns, such as a column of strings in Apache Arrow's layout, which is then not copied.

use super::as_path::AsPath;
use std::io::{self, BufRead, Read};
use std::ops::Range;
use std::path::Path;

/// Paths that own their text. It is reused after [`clear`](PathSet::clear).
///
/// ```
/// use lanefs::PathSet;
///
/// let set: PathSet = ["/data/a", "/data/b"].into_iter().collect();
/// assert_eq!(set.view().get(1), Some(&b"/data/b"[..]));
///
/// let lines = PathSet::split(b"/data/a\n/data/b\n".to_vec(), b'\n');
/// assert!(lines.view().iter().eq(set.view().iter()));
/// ```
#[derive(Clone, Debug)]
pub struct PathSet {
    text: Vec<u8>,
    /// Start of each path, and the end of the text. Each path has `gap` bytes after it, which are not part
    /// of it.
    offsets: Vec<u64>,
    gap: u8,
}

impl Default for PathSet {
    fn default() -> Self {
        PathSet::new()
    }
}

impl PathSet {
    /// Returns an empty set.
    pub fn new() -> Self {
        PathSet::with_capacity(0, 0)
    }

    /// Returns an empty set with room for this many paths and bytes of text.
    pub fn with_capacity(paths: usize, bytes: usize) -> Self {
        let mut offsets = Vec::with_capacity(paths + 1);
        offsets.push(0);
        PathSet { text: Vec::with_capacity(bytes), offsets, gap: 0 }
    }

    /// Splits text into the paths that `delimiter` (a newline or a NUL) ends or separates. The text is not
    /// copied. An empty line is an empty path, which no volume has.
    pub fn split(text: Vec<u8>, delimiter: u8) -> Self {
        let mut set = PathSet::new();
        set.replace(text, delimiter);
        set
    }

    /// Replaces all paths by those of a text, as [`split`](Self::split) has them. Returns the old text, whose
    /// memory can be used again.
    pub fn replace(&mut self, mut text: Vec<u8>, delimiter: u8) -> Vec<u8> {
        if text.last().is_some_and(|last| *last != delimiter) {
            text.push(delimiter);
        }
        self.offsets.truncate(1);
        self.offsets.extend(memchr::memchr_iter(delimiter, &text).map(|at| at as u64 + 1));
        self.gap = 1;
        std::mem::replace(&mut self.text, text)
    }

    /// Reads all of a source, and [splits](Self::split) it.
    ///
    /// # Errors
    /// The source's.
    pub fn read(source: &mut impl Read, delimiter: u8) -> io::Result<Self> {
        let mut text = Vec::new();
        source.read_to_end(&mut text)?;
        Ok(PathSet::split(text, delimiter))
    }

    /// Reads a file of paths, and [splits](Self::split) it. The file is not mapped into memory: another
    /// process may change it, and a Rust slice must not change while it is read.
    ///
    /// # Errors
    /// The host's.
    pub fn read_file(file: impl AsRef<Path>, delimiter: u8) -> io::Result<Self> {
        Ok(PathSet::split(std::fs::read(file)?, delimiter))
    }

    /// Appends the next paths of a source: at least one where there is one, until there are `paths` in the
    /// set or `bytes` of text. Returns false at the end of the source.
    ///
    /// # Errors
    /// The source's; the set is then as it was before.
    pub fn fill(
        &mut self,
        source: &mut impl BufRead,
        delimiter: u8,
        paths: usize,
        bytes: usize,
    ) -> io::Result<bool> {
        self.set_gap(1);
        let (len, count) = (self.text.len(), self.offsets.len());
        loop {
            match source.read_until(delimiter, &mut self.text) {
                Ok(0) => return Ok(false),
                Ok(_) => {}
                Err(error) => {
                    self.text.truncate(len);
                    self.offsets.truncate(count);
                    return Err(error);
                }
            }
            if self.text.last() != Some(&delimiter) {
                self.text.push(delimiter);
            }
            self.offsets.push(self.text.len() as u64);
            if self.len() >= paths || self.text.len() >= bytes {
                return Ok(true);
            }
        }
    }

    /// Appends a path.
    pub fn push(&mut self, path: impl AsPath) {
        self.text.extend_from_slice(path.as_path());
        if self.gap != 0 {
            self.text.push(0);
        }
        self.offsets.push(self.text.len() as u64);
    }

    /// Removes all paths, and keeps the memory.
    pub fn clear(&mut self) {
        self.text.clear();
        self.offsets.truncate(1);
        self.gap = 0;
    }

    /// Number of paths.
    pub fn len(&self) -> usize {
        self.offsets.len() - 1
    }

    /// True for a set without paths.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes of text, with what lies between the paths.
    pub fn bytes(&self) -> usize {
        self.text.len()
    }

    /// Returns the paths as a view, which every call on a batch takes.
    pub fn view(&self) -> Paths<'_> {
        Paths { text: &self.text, offsets: Offsets::U64(&self.offsets), gap: self.gap }
    }

    /// Makes room for a gap after each path.
    fn set_gap(&mut self, gap: u8) {
        if self.gap == gap {
            return;
        }
        debug_assert_eq!((self.gap, gap), (0, 1));
        let mut wider = PathSet::with_capacity(self.len(), self.text.len() + self.len());
        wider.gap = gap;
        self.view().iter().for_each(|path| wider.push(path));
        *self = wider;
    }
}

impl<P: AsPath> Extend<P> for PathSet {
    fn extend<I: IntoIterator<Item = P>>(&mut self, paths: I) {
        paths.into_iter().for_each(|path| self.push(path));
    }
}

impl<P: AsPath> FromIterator<P> for PathSet {
    fn from_iter<I: IntoIterator<Item = P>>(paths: I) -> Self {
        let paths = paths.into_iter();
        let mut set = PathSet::with_capacity(paths.size_hint().0, 0);
        set.extend(paths);
        set
    }
}

/// The reason why text and offsets are not a set of paths.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadOffsets {
    /// There is not even the one offset of a set without paths.
    #[error("a set of n paths needs n + 1 offsets, and there are none")]
    None,
    /// An offset is negative, or smaller than the one before it.
    #[error("offset {index} of the paths is smaller than the one before it, or negative")]
    Descending {
        /// Index of the offset.
        index: usize,
    },
    /// The last offset lies past the end of the text.
    #[error("the last offset of the paths is {end}, and the text has {bytes} bytes")]
    PastEnd {
        /// The last offset.
        end: u64,
        /// Bytes of text.
        bytes: usize,
    },
}

/// A borrowed set of paths: text, and offsets into it.
#[derive(Clone, Copy, Debug)]
pub struct Paths<'t> {
    text: &'t [u8],
    /// One more than there are paths. They ascend, and the last is not past the end of the text.
    offsets: Offsets<'t>,
    gap: u8,
}

#[derive(Clone, Copy, Debug)]
enum Offsets<'t> {
    U64(&'t [u64]),
    I64(&'t [i64]),
    I32(&'t [i32]),
}

impl Offsets<'_> {
    #[inline(always)]
    fn len(&self) -> usize {
        match self {
            Offsets::U64(list) => list.len(),
            Offsets::I64(list) => list.len(),
            Offsets::I32(list) => list.len(),
        }
    }

    /// A negative number becomes one that is larger than any text.
    #[inline(always)]
    fn at(&self, index: usize) -> Option<u64> {
        match self {
            Offsets::U64(list) => list.get(index).copied(),
            Offsets::I64(list) => list.get(index).map(|offset| *offset as u64),
            Offsets::I32(list) => list.get(index).map(|offset| *offset as u64),
        }
    }
}

impl<'t> Paths<'t> {
    /// Returns the paths of text with 64-bit offsets, as in Arrow's `LargeUtf8` and `LargeBinary`: path `i`
    /// lies from offset `i` to offset `i + 1`. Nothing is copied.
    ///
    /// # Errors
    /// The offsets do not ascend, or leave the text.
    pub fn from_offsets(text: &'t [u8], offsets: &'t [i64]) -> Result<Self, BadOffsets> {
        Paths::checked(text, Offsets::I64(offsets))
    }

    /// As [`from_offsets`](Self::from_offsets) with 32-bit offsets, as in Arrow's `Utf8` and `Binary`.
    ///
    /// # Errors
    /// The offsets do not ascend, or leave the text.
    pub fn from_offsets32(text: &'t [u8], offsets: &'t [i32]) -> Result<Self, BadOffsets> {
        Paths::checked(text, Offsets::I32(offsets))
    }

    fn checked(text: &'t [u8], offsets: Offsets<'t>) -> Result<Self, BadOffsets> {
        let last = offsets.len().checked_sub(1).ok_or(BadOffsets::None)?;
        let mut before = 0;
        for index in 0..=last {
            let offset = offsets.at(index).unwrap_or(u64::MAX);
            if offset < before || offset > i64::MAX as u64 {
                return Err(BadOffsets::Descending { index });
            }
            before = offset;
        }
        if before > text.len() as u64 {
            return Err(BadOffsets::PastEnd { end: before, bytes: text.len() });
        }
        Ok(Paths { text, offsets, gap: 0 })
    }

    /// Number of paths.
    #[inline(always)]
    pub fn len(&self) -> usize {
        self.offsets.len() - 1
    }

    /// True for a set without paths.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns a path; `None` past the last.
    #[inline(always)]
    pub fn get(&self, index: usize) -> Option<&'t [u8]> {
        let start = self.offsets.at(index)?;
        let end = self.offsets.at(index + 1)?;
        self.text.get(start as usize..end as usize - usize::from(self.gap))
    }

    /// The paths, in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &'t [u8]> + Clone + use<'t> {
        let paths = *self;
        (0..self.len()).map(move |index| paths.get(index).unwrap_or(&[]))
    }

    /// Visits the range of each path in [`text`](Self::text), in order.
    #[inline(always)]
    pub fn each_range(&self, mut visit: impl FnMut(Range<usize>)) {
        let (first, gap) = (self.offsets.at(0).unwrap_or(0), usize::from(self.gap));
        let mut each = |start: u64, end: u64| visit((start - first) as usize..(end - first) as usize - gap);
        match self.offsets {
            Offsets::U64(list) => list.windows(2).for_each(|pair| each(pair[0], pair[1])),
            Offsets::I64(list) => list.windows(2).for_each(|pair| each(pair[0] as u64, pair[1] as u64)),
            Offsets::I32(list) => list.windows(2).for_each(|pair| each(pair[0] as u64, pair[1] as u64)),
        }
    }

    /// Returns some of the paths.
    ///
    /// # Panics
    /// The range is not within the set, or ends before it starts, as with a slice.
    pub fn slice(&self, range: Range<usize>) -> Paths<'t> {
        assert!(range.start <= range.end, "paths {}..{} of a set", range.start, range.end);
        let offsets = range.start..range.end + 1;
        let offsets = match self.offsets {
            Offsets::U64(list) => Offsets::U64(&list[offsets]),
            Offsets::I64(list) => Offsets::I64(&list[offsets]),
            Offsets::I32(list) => Offsets::I32(&list[offsets]),
        };
        Paths { offsets, ..*self }
    }

    /// The text of all paths, with what lies between them.
    pub fn text(&self) -> &'t [u8] {
        let (first, last) = (self.offsets.at(0), self.offsets.at(self.len()));
        match (first, last) {
            (Some(first), Some(last)) => self.text.get(first as usize..last as usize).unwrap_or(&[]),
            _ => &[],
        }
    }
}

impl<'t> From<&'t PathSet> for Paths<'t> {
    fn from(set: &'t PathSet) -> Self {
        set.view()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list<'t>(paths: impl Into<Paths<'t>>) -> Vec<&'t [u8]> {
        let paths = paths.into();
        assert_eq!(paths.iter().len(), paths.len());
        assert_eq!(paths.get(paths.len()), None);
        let mut texts = Vec::new();
        paths.each_range(|range| texts.push(&paths.text()[range]));
        assert!(paths.iter().eq(texts), "ranges of the text");
        paths.iter().collect()
    }

    #[test]
    fn lines_with_and_without_an_end_give_the_same_paths() {
        for text in ["a\n\n/b/c\n", "a\n\n/b/c"] {
            assert_eq!(list(&PathSet::split(text.into(), b'\n')), [&b"a"[..], b"", b"/b/c"]);
            assert_eq!(list(&PathSet::read(&mut text.as_bytes(), b'\n').expect("read")).len(), 3);
        }
        assert!(PathSet::split(Vec::new(), b'\n').is_empty());
        assert_eq!(list(&PathSet::split(b"a\nb\0c".to_vec(), 0)), [&b"a\nb"[..], b"c"]);
        let mut set: PathSet = ["/x", "/y"].into_iter().collect();
        assert_eq!(set.replace(b"a\0b".to_vec(), 0), b"/x/y");
        assert_eq!(list(&set), [b"a", b"b"]);
        assert_eq!(set.replace(Vec::new(), b'\n'), b"a\0b\0");
        assert!(set.is_empty());
    }

    #[test]
    fn a_source_is_read_piece_by_piece_into_the_same_memory() {
        let text: String = (0..100).map(|i| format!("/dir/{i}\n")).collect();
        let all = PathSet::split(text.clone().into(), b'\n');
        for (paths, bytes) in [(7, usize::MAX), (1, 0), (1000, 20), (100, usize::MAX)] {
            let (mut source, mut set, mut seen) = (text.as_bytes(), PathSet::new(), Vec::new());
            loop {
                set.clear();
                let more = set.fill(&mut source, b'\n', paths, bytes).expect("read");
                assert!(set.len() <= paths && (more || set.len() < paths));
                seen.extend(set.view().iter().map(<[u8]>::to_vec));
                if !more {
                    break;
                }
            }
            assert!(seen.iter().eq(all.view().iter()), "{paths} paths, {bytes} bytes");
        }
    }

    #[test]
    fn paths_of_all_origins_may_be_mixed() {
        let mut set: PathSet = ["/a", "b"].into_iter().collect();
        assert!(!set.fill(&mut &b"c\nd"[..], b'\n', 10, 100).expect("read"));
        set.push("");
        set.extend([b"e"]);
        assert_eq!(list(&set), [&b"/a"[..], b"b", b"c", b"d", b"", b"e"]);
        assert_eq!(list(set.view().slice(1..3)), [b"b", b"c"]);
        assert_eq!(set.view().slice(1..3).text(), b"b\0c\n");
        set.clear();
        set.push("x");
        assert_eq!((list(&set), set.bytes()), (vec![&b"x"[..]], 1));
    }

    #[test]
    fn a_failed_read_leaves_the_set_as_it_was() {
        struct Fails(usize);
        impl Read for Fails {
            fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
                self.0 = self.0.checked_sub(1).ok_or(io::Error::other("no more"))?;
                buffer[..4].copy_from_slice(b"a\nbc");
                Ok(4)
            }
        }
        let mut set: PathSet = ["/a"].into_iter().collect();
        assert!(set.fill(&mut io::BufReader::new(Fails(3)), b'\n', 100, 1000).is_err());
        assert_eq!(list(&set), [b"/a"]);
    }

    #[test]
    fn offsets_of_another_library_are_checked() {
        let text = b"/a/bc";
        let paths = Paths::from_offsets(text, &[0, 2, 2, 5]).expect("paths");
        assert_eq!(list(paths), [&b"/a"[..], b"", b"/bc"]);
        assert_eq!(list(Paths::from_offsets32(text, &[2, 5]).expect("paths")), [b"/bc"]);
        assert!(Paths::from_offsets(text, &[3]).expect("no paths").is_empty());
        let refused = |offsets: &[i64]| Paths::from_offsets(text, offsets).expect_err("refused");
        assert_eq!(refused(&[]), BadOffsets::None);
        assert_eq!(refused(&[0, 3, 2]), BadOffsets::Descending { index: 2 });
        assert_eq!(refused(&[-1, 3]), BadOffsets::Descending { index: 0 });
        assert_eq!(refused(&[0, 6]), BadOffsets::PastEnd { end: 6, bytes: 5 });
        let narrow = Paths::from_offsets32(text, &[0, -2]).expect_err("refused");
        assert_eq!(narrow, BadOffsets::Descending { index: 1 });
    }
}
