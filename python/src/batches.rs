//! Batches in pieces, between which a call can stop.

use crate::columns::Columns;
use crate::engine::OpenVolume;
use crate::path_set::PathSet;
use crate::signals::Signals;
use lanefs::{
    Access, ByteRange, Code, Error, FileContents, FileViews, Paths, ReadFiles, ResolveOptions, Result,
    Volume, WriteMany,
};
use std::ops::Range;

/// Files of the first piece of a read, and of any.
const FIRST_FILES: usize = 1024;
const MOST_FILES: usize = 65_536;
/// Bytes that a piece of a read has about.
const PIECE_BYTES: u64 = 64 << 20;
/// Files of a piece of a write.
const NEW_FILES: usize = 4096;

/// Resolves paths into columns; names under directories without putting them together.
///
/// # Errors
/// The volume's.
pub(crate) fn resolve(
    open: &OpenVolume,
    options: &ResolveOptions,
    paths: &PathSet,
    columns: &mut Columns,
    signals: &Signals,
) -> Result<()> {
    let (count, mut start) = (paths.count(), 0);
    while start < count {
        let rows = start..count.min(start + open.batch());
        start = rows.end;
        let columns = &mut columns.rows(rows.clone());
        match paths.names() {
            Some(names) => open.resolve_names(options, names.slice(rows), columns)?,
            None => open.resolve(options, paths.view().slice(rows), columns)?,
        }
        if signals.raised() {
            break;
        }
    }
    Ok(())
}

/// The contents of many files. Without memory of the caller they have their own.
#[derive(Default)]
pub(crate) struct Contents {
    pub(crate) bytes: Vec<u8>,
    pub(crate) offsets: Vec<i64>,
    pub(crate) codes: Vec<u8>,
}

impl Contents {
    fn add(&mut self, offsets: &[u64], codes: &[Code]) {
        let base = self.end();
        self.offsets.extend(offsets.iter().skip(1).map(|offset| base + *offset as i64));
        self.codes.extend(codes.iter().map(|code| code.number()));
    }

    fn end(&self) -> i64 {
        self.offsets.last().copied().unwrap_or(0)
    }
}

/// The contents of many files, each by itself, as they were read piece by piece.
#[derive(Default)]
pub(crate) struct Viewed {
    /// The number of the first file of each piece, and its files.
    pieces: Vec<(usize, ViewedPiece)>,
    pub(crate) codes: Vec<u8>,
    pub(crate) copied_bytes: u64,
}

enum ViewedPiece {
    InPlace(FileViews),
    /// From a volume that is open for writing, or in memory.
    Copied(FileContents<'static>),
}

impl Viewed {
    fn add(&mut self, piece: ViewedPiece) {
        let (codes, copied) = match &piece {
            ViewedPiece::InPlace(files) => (files.codes(), files.copied_bytes()),
            ViewedPiece::Copied(files) => (files.codes(), files.bytes().len() as u64),
        };
        let first = self.codes.len();
        self.codes.extend(codes.iter().map(|code| code.number()));
        self.copied_bytes += copied;
        self.pieces.push((first, piece));
    }

    /// The bytes of a file; `None` for one that was not read.
    pub(crate) fn get(&self, file: usize) -> Option<&[u8]> {
        let after = self.pieces.partition_point(|(first, _)| *first <= file);
        let (first, piece) = self.pieces.get(after.checked_sub(1)?)?;
        let found = match piece {
            ViewedPiece::InPlace(files) => files.get(file - first),
            ViewedPiece::Copied(files) => files.get(file - first),
        };
        found?.ok()
    }
}

/// A call that reads files.
pub(crate) struct ReadCall<'r> {
    pub(crate) volume: &'r Volume,
    pub(crate) paths: Paths<'r>,
    pub(crate) ranges: Option<&'r [ByteRange]>,
    pub(crate) threads: usize,
    pub(crate) signals: &'r Signals,
}

impl ReadCall<'_> {
    /// Reads into memory of its own.
    ///
    /// # Errors
    /// The volume's, the host's.
    pub(crate) fn read(&self) -> Result<Contents> {
        let mut all = Contents { offsets: vec![0], ..Contents::default() };
        let mut piece = FileContents::new();
        self.in_pieces(|rows| {
            self.read_rows(rows.clone(), &mut piece)?;
            all.add(piece.offsets(), piece.codes());
            if rows.len() == self.paths.len() {
                all.bytes = std::mem::take(&mut piece).into_bytes();
            } else {
                grow(&mut all.bytes, piece.bytes())?;
            }
            Ok(all.end())
        })?;
        Ok(all)
    }

    /// Reads into memory of the caller.
    ///
    /// # Errors
    /// As [`read`](Self::read); [`Code::Invalid`] where the memory is too small.
    pub(crate) fn read_into(&self, memory: &mut [u8]) -> Result<Contents> {
        let mut all = Contents { offsets: vec![0], ..Contents::default() };
        self.in_pieces(|rows| {
            let mut piece = FileContents::lent(&mut memory[all.end() as usize..]);
            self.read_rows(rows, &mut piece)?;
            all.add(piece.offsets(), piece.codes());
            Ok(all.end())
        })?;
        Ok(all)
    }

    /// Reads in place where the volume allows it, else into memory of its own.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    pub(crate) fn view(&self) -> Result<Viewed> {
        let mut all = Viewed::default();
        let mut bytes = 0;
        self.in_pieces(|rows| {
            let piece = if self.volume.access() == Access::Read {
                let files = self.volume.view_files(&self.options(&rows), self.paths.slice(rows))?;
                bytes += files.iter().flatten().map(|file| file.len() as i64).sum::<i64>();
                ViewedPiece::InPlace(files)
            } else {
                let mut files = FileContents::new();
                self.read_rows(rows, &mut files)?;
                bytes += files.bytes().len() as i64;
                ViewedPiece::Copied(files)
            };
            all.add(piece);
            Ok(bytes)
        })?;
        Ok(all)
    }

    fn options(&self, rows: &Range<usize>) -> ReadFiles<'_> {
        let ranges = self.ranges.map(|ranges| &ranges[rows.clone()]);
        ReadFiles { ranges, threads: self.threads, ..ReadFiles::default() }
    }

    fn read_rows(&self, rows: Range<usize>, contents: &mut FileContents<'_>) -> Result<()> {
        self.volume.read_files(&self.options(&rows), self.paths.slice(rows), contents).map(drop)
    }

    /// Calls `read` with pieces of the batch. It returns the bytes of all pieces so far, by which the next
    /// piece gets its size.
    fn in_pieces(&self, mut read: impl FnMut(Range<usize>) -> Result<i64>) -> Result<()> {
        let (count, mut start, mut files) = (self.paths.len(), 0, FIRST_FILES);
        while start < count {
            let rows = start..count.min(start + files);
            start = rows.end;
            let bytes = read(rows)?.unsigned_abs();
            let wanted = PIECE_BYTES.saturating_mul(start as u64) / bytes.max(1);
            files = usize::try_from(wanted).unwrap_or(MOST_FILES).clamp(1, MOST_FILES);
            if self.signals.raised() {
                break;
            }
        }
        Ok(())
    }
}

/// Appends bytes.
///
/// # Errors
/// The host has too little memory.
fn grow(all: &mut Vec<u8>, bytes: &[u8]) -> Result<()> {
    all.try_reserve(bytes.len()).map_err(|_| Error::Io {
        what: format!("memory for {} bytes of files (read fewer files in one call)", all.len() + bytes.len()),
        source: std::io::ErrorKind::OutOfMemory.into(),
    })?;
    all.extend_from_slice(bytes);
    Ok(())
}

/// Makes many files; those after a signal are not made. Returns the code of each.
///
/// # Errors
/// As [`Volume::write_many`].
pub(crate) fn write_many(
    volume: &Volume,
    options: &WriteMany,
    paths: Paths<'_>,
    data: &[u8],
    offsets: &[u64],
    signals: &Signals,
) -> Result<Vec<u8>> {
    if offsets.len() != paths.len() + 1 {
        let what = format!("{} offsets for {} paths; there must be one more", offsets.len(), paths.len());
        return Err(Error::At { code: Code::Invalid, what });
    }
    let mut codes = Vec::with_capacity(paths.len());
    while codes.len() < paths.len() && !signals.raised() {
        let rows = codes.len()..paths.len().min(codes.len() + NEW_FILES);
        let made =
            volume.write_many(options, paths.slice(rows.clone()), data, &offsets[rows.start..=rows.end])?;
        codes.extend(made.iter().map(|code| code.number()));
    }
    Ok(codes)
}
