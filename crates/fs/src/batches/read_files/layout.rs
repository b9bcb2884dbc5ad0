//! Where the bytes of each file of a batch lie.

use lanefs_format::Code;
use std::ops::Range;

/// The place of each file's bytes in the memory of a batch, and its result. The files lie one after the
/// other, in the order in which they were asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FileLayout {
    /// Start of each file's bytes, and the end of the last; empty for no file.
    offsets: Vec<u64>,
    codes: Vec<Code>,
}

impl FileLayout {
    /// Number of files.
    pub fn len(&self) -> usize {
        self.codes.len()
    }

    /// True for the layout of no file.
    pub fn is_empty(&self) -> bool {
        self.codes.is_empty()
    }

    /// The results, one for each file.
    pub fn codes(&self) -> &[Code] {
        &self.codes
    }

    /// One more number than there are files: file `i` lies from byte `offsets()[i]` to `offsets()[i + 1]`.
    /// A file without success has no bytes.
    pub fn offsets(&self) -> &[u64] {
        if self.offsets.is_empty() { &[0] } else { &self.offsets }
    }

    /// Number of bytes of all files.
    pub fn bytes(&self) -> u64 {
        self.offsets.last().copied().unwrap_or(0)
    }

    /// The place of a file's bytes; `None` past the last.
    ///
    /// # Errors
    /// The file's code.
    pub fn get(&self, file: usize) -> Option<Result<Range<u64>, Code>> {
        let code = *self.codes.get(file)?;
        let range = self.offsets[file]..self.offsets[file + 1];
        Some(if code == Code::Success { Ok(range) } else { Err(code) })
    }

    /// Forgets the files, and keeps the memory.
    pub fn clear(&mut self) {
        self.offsets.clear();
        self.codes.clear();
    }

    /// Number of files that were read.
    pub(super) fn successes(&self) -> usize {
        self.codes.iter().filter(|code| **code == Code::Success).count()
    }

    /// Adds a file of so many bytes.
    pub(super) fn push(&mut self, code: Code, len: u64) {
        if self.offsets.is_empty() {
            self.offsets.push(0);
        }
        self.offsets.push(self.bytes().saturating_add(len));
        self.codes.push(code);
    }

    /// Adds the files of another layout.
    pub(super) fn append(&mut self, other: &FileLayout) {
        for (code, pair) in other.codes.iter().zip(other.offsets.windows(2)) {
            self.push(*code, pair[1] - pair[0]);
        }
    }

    /// Gives a file another result.
    pub(super) fn set_code(&mut self, file: usize, code: Code) {
        self.codes[file] = code;
    }

    /// Puts other offsets in place, for the same files, and returns the old ones.
    pub(super) fn replace_offsets(&mut self, offsets: Vec<u64>) -> Vec<u64> {
        debug_assert_eq!(offsets.len(), self.codes.len() + 1, "an end for each file");
        std::mem::replace(&mut self.offsets, offsets)
    }
}
