//! The contents of many files in one piece of memory.

use super::layout::FileLayout;
use crate::vocabulary::error::{Error, Result};
use lanefs_format::Code;
use std::ops::Range;
use zerocopy::FromZeros;

/// The contents of many files, one after the other, in the order in which they were asked for. Its memory
/// serves one batch after the other: its own, or memory that the caller has lent.
#[derive(Debug, Default)]
pub struct FileContents<'m> {
    memory: Memory<'m>,
    layout: FileLayout,
}

#[derive(Debug)]
enum Memory<'m> {
    Own(Vec<u8>),
    Lent(&'m mut [u8]),
}

impl Default for Memory<'_> {
    fn default() -> Self {
        Memory::Own(Vec::new())
    }
}

/// The final content of a file that was not read as it was planned.
pub(crate) struct Late {
    pub(super) row: usize,
    pub(super) code: Code,
    pub(super) bytes: Vec<u8>,
}

impl<'m> FileContents<'m> {
    /// Returns contents of no file. They allocate memory as they need it, and keep it.
    pub fn new() -> Self {
        FileContents::default()
    }

    /// Returns contents of no file, whose bytes will lie in memory of the caller: that of another library, or
    /// memory that a device reads.
    pub fn lent(memory: &'m mut [u8]) -> Self {
        FileContents { memory: Memory::Lent(memory), ..FileContents::default() }
    }

    /// Number of files.
    pub fn len(&self) -> usize {
        self.layout.len()
    }

    /// True for the contents of no file.
    pub fn is_empty(&self) -> bool {
        self.layout.is_empty()
    }

    /// The results, one for each file.
    pub fn codes(&self) -> &[Code] {
        self.layout.codes()
    }

    /// One more number than there are files: file `i` lies from offset `i` to offset `i + 1` of
    /// [`bytes`](Self::bytes). A file without success has no bytes.
    pub fn offsets(&self) -> &[u64] {
        self.layout.offsets()
    }

    /// The place of each file's bytes, and its result.
    pub fn layout(&self) -> &FileLayout {
        &self.layout
    }

    /// The bytes of all files.
    pub fn bytes(&self) -> &[u8] {
        let end = self.layout.bytes() as usize;
        match &self.memory {
            Memory::Own(bytes) => &bytes[..end],
            Memory::Lent(bytes) => &bytes[..end],
        }
    }

    /// Returns the bytes of all files, and gives up the memory. Those in memory of the caller are copied.
    pub fn into_bytes(self) -> Vec<u8> {
        let end = self.layout.bytes() as usize;
        match self.memory {
            Memory::Own(mut bytes) => {
                bytes.truncate(end);
                bytes
            }
            Memory::Lent(bytes) => bytes[..end].to_vec(),
        }
    }

    /// The bytes of a file; `None` past the last.
    ///
    /// # Errors
    /// The file's code.
    pub fn get(&self, file: usize) -> Option<std::result::Result<&[u8], Code>> {
        let bytes = |range: Range<u64>| &self.bytes()[range.start as usize..range.end as usize];
        self.layout.get(file).map(|range| range.map(bytes))
    }

    /// The bytes or the code of each file, in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = std::result::Result<&[u8], Code>> {
        (0..self.len()).map(|file| self.get(file).unwrap_or(Err(Code::Invalid)))
    }

    /// Bytes of memory of its own.
    pub(crate) fn capacity(&self) -> u64 {
        if let Memory::Own(own) = &self.memory { own.capacity() as u64 } else { 0 }
    }

    /// Forgets the files, and keeps the memory.
    pub fn clear(&mut self) {
        self.layout.clear();
    }

    /// Makes room for files of these lengths, and lends the memory: file after file, without a gap.
    pub(crate) fn lay_out(&mut self, files: impl Iterator<Item = (Code, u64)>) -> Result<&mut [u8]> {
        self.clear();
        files.for_each(|(code, len)| self.layout.push(code, len));
        let end = self.layout.bytes();
        let room = self.memory.room(end, false).inspect_err(|_| self.layout.clear())?;
        Ok(&mut room[..end as usize])
    }

    /// Puts the files in place that were not read as planned: those after them move.
    pub(crate) fn replace(&mut self, late: &[Late]) -> Result<()> {
        if late.is_empty() {
            return Ok(());
        }
        debug_assert!(late.is_sorted_by(|a, b| a.row < b.row), "one for each file, in order");
        let old = self.layout.offsets();
        let (mut end, mut rest) = (0u64, late.iter().peekable());
        let mut new = Vec::with_capacity(old.len());
        new.push(0);
        for (row, pair) in old.windows(2).enumerate() {
            let replaced = rest.next_if(|file| file.row == row);
            end = end.saturating_add(replaced.map_or(pair[1] - pair[0], |file| file.bytes.len() as u64));
            new.push(end);
        }
        let most = end.max(self.layout.bytes());
        let memory = self.memory.room(most, true).inspect_err(|_| self.layout.clear())?;
        let old = self.layout.replace_offsets(new);
        let new = self.layout.offsets();
        move_files(memory, &old, new, |row| late.binary_search_by_key(&row, |file| file.row).is_err());
        for file in late {
            memory[new[file.row] as usize..new[file.row + 1] as usize].copy_from_slice(&file.bytes);
        }
        late.iter().for_each(|file| self.layout.set_code(file.row, file.code));
        Ok(())
    }
}

/// Moves files from their old offsets to the new ones. First those that move down, the lowest first: each
/// moves to bytes that belong to itself or to nobody. Then those that move up, the highest first.
fn move_files(memory: &mut [u8], old: &[u64], new: &[u64], stays: impl Fn(usize) -> bool) {
    let mut shift = |row: usize| {
        let from = old[row] as usize..old[row + 1] as usize;
        memory.copy_within(from, new[row] as usize);
    };
    let rows = 0..old.len() - 1;
    rows.clone().filter(|row| new[*row] < old[*row] && stays(*row)).for_each(&mut shift);
    rows.rev().filter(|row| new[*row] > old[*row] && stays(*row)).for_each(&mut shift);
}

/// The error of memory that does not hold all files.
pub(super) fn too_little(memory: u64, files: u64) -> Error {
    let what = format!("the memory has {memory} bytes, and the files have {files}");
    Error::At { code: Code::Invalid, what }
}

impl Memory<'_> {
    /// Returns at least `bytes` bytes, with their old content where `keep` says so.
    fn room(&mut self, bytes: u64, keep: bool) -> Result<&mut [u8]> {
        let too_much = || Error::Io {
            what: format!("memory for {bytes} bytes of files (read fewer files in one call)"),
            source: std::io::ErrorKind::OutOfMemory.into(),
        };
        match self {
            Memory::Own(own) => {
                let wanted = usize::try_from(bytes).map_err(|_| too_much())?;
                if own.len() < wanted && keep {
                    own.try_reserve_exact(wanted - own.len()).map_err(|_| too_much())?;
                    own.resize(wanted, 0);
                } else if own.len() < wanted {
                    // The host gives zeros, which need not be written.
                    *own = Vec::new();
                    *own = u8::new_vec_zeroed(wanted).map_err(|_| too_much())?;
                }
                Ok(own)
            }
            Memory::Lent(lent) => {
                if lent.len() as u64 >= bytes {
                    return Ok(lent);
                }
                Err(too_little(lent.len() as u64, bytes))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_that_change_their_length_move_the_others() {
        let lens = [3u64, 0, 5, 2, 4, 1, 6];
        let content = |row: usize, len: usize| vec![row as u8 + 1; len];
        // Every set of files that changed, each longer, shorter, or without success.
        for changes in 0..4usize.pow(lens.len() as u32) {
            let mut files = FileContents::new();
            let memory = files.lay_out(lens.iter().map(|len| (Code::Success, *len))).expect("room");
            let mut at = 0;
            for (row, len) in lens.iter().enumerate() {
                memory[at..at + *len as usize].copy_from_slice(&content(row, *len as usize));
                at += *len as usize;
            }
            let change = |row: usize| changes / 4usize.pow(row as u32) % 4;
            let late: Vec<Late> = (0..lens.len())
                .filter_map(|row| match change(row) {
                    0 => None,
                    1 => Some(Late { row, code: Code::Success, bytes: content(row, 9) }),
                    2 => Some(Late { row, code: Code::Success, bytes: content(row, 1) }),
                    _ => Some(Late { row, code: Code::Io, bytes: Vec::new() }),
                })
                .collect();
            files.replace(&late).expect("room");
            let mut end = 0;
            for (row, len) in lens.iter().enumerate() {
                let expected = match change(row) {
                    0 => Ok(content(row, *len as usize)),
                    1 => Ok(content(row, 9)),
                    2 => Ok(content(row, 1)),
                    _ => Err(Code::Io),
                };
                assert_eq!(files.get(row).expect("a file").map(<[u8]>::to_vec), expected, "{changes}, {row}");
                assert_eq!(files.offsets()[row], end);
                end += expected.map_or(0, |bytes| bytes.len() as u64);
            }
            assert_eq!((files.bytes().len() as u64, files.len()), (end, lens.len()));
            assert_eq!(files.into_bytes().len() as u64, end);
        }
    }

    #[test]
    fn memory_that_is_lent_is_used_and_its_end_is_an_error() {
        let mut memory = [9; 10];
        let mut files = FileContents::lent(&mut memory);
        files.lay_out([(Code::Success, 4), (Code::Success, 5)].into_iter()).expect("room").fill(1);
        assert_eq!(files.into_bytes(), [1; 9]);
        let mut files = FileContents::lent(&mut memory);
        files.lay_out([(Code::Success, 4), (Code::Success, 6)].into_iter()).expect("room").fill(1);
        assert_eq!(files.bytes(), [1; 10]);
        let longer = Late { row: 0, code: Code::Success, bytes: vec![2; 5] };
        let error = files.replace(&[longer]).expect_err("no room").to_string();
        assert!(error.contains("the memory has 10 bytes, and the files have 11"), "{error}");
        assert!(files.is_empty() && files.bytes().is_empty() && files.offsets() == [0]);
        let error = files.lay_out([(Code::Success, 11)].into_iter()).expect_err("no room");
        assert_eq!(error.code(), Code::Invalid);
        let error =
            FileContents::new().lay_out([(Code::Success, u64::MAX)].into_iter()).expect_err("no room");
        assert_eq!(error.errno(), Code::Io.errno());
    }
}
