//! One call whose bytes go to memory of the caller part by part: a device that is not mapped, a network.
//!
//! A part has as many of the next files as fit into the memory that the caller gives, and is read as a batch
//! of its own. A file that is larger than that is read by itself, and goes to several parts. All of them
//! belong to one state of the file; where it has changed meanwhile, its parts come again from its start on.

use super::alone;
use super::batch::FileBatch;
use super::contents::{FileContents, too_little};
use super::layout::FileLayout;
use super::locate::Located;
use super::options::{FileList, ReadFiles};
use crate::by_inode::pieces::{in_one_state, read_state};
use crate::running::volume::Volume;
use crate::vocabulary::error::{Error, Result};
use lanefs_format::Code;

/// Memory to which the bytes of many files go part by part. (See [`Volume::read_files_in_parts`].)
///
/// Its calls come from the thread that reads, some of them while changes of the volume are stopped. So they
/// must not use the volume, and not wait for one who does.
pub trait FileSink {
    /// Errors of the sink. They end the call.
    type Error: From<Error>;

    /// Number of bytes of all files at most.
    fn capacity(&self) -> u64;

    /// Returns memory for the bytes from byte `at` on of all files: one byte at least where that is below the
    /// capacity, and none beyond the capacity. Its old content does not matter.
    ///
    /// # Errors
    /// Those of the sink.
    fn memory(&mut self, at: u64) -> std::result::Result<&mut [u8], Self::Error>;

    /// Takes the first `len` bytes of the memory that the last call of [`memory`](Self::memory) gave for byte
    /// `at`. Bytes that were taken before for the same place do not count any more.
    ///
    /// # Errors
    /// Those of the sink.
    fn take(&mut self, at: u64, len: usize) -> std::result::Result<(), Self::Error>;
}

/// # Many files, part after part
impl Volume {
    /// Reads many files, or a part of each, as [`read_files`](Self::read_files) does and with the same
    /// results. Their bytes go to a `sink`, as much at a time as it has memory for; `layout` tells where they
    /// are then. Each byte is copied once, to that memory. Returns the number of files that were read.
    ///
    /// A part is read as a batch of its own, so absent blocks are fetched in the order of their positions
    /// inside a part only.
    ///
    /// # Errors
    /// As [`read_files`](Self::read_files), with [`Code::Invalid`] where the files have more bytes than the
    /// sink's capacity; those of the sink. The layout has no files then, and the bytes in the sink are of no
    /// use. Where the files are too large from the beginning, the sink gets none.
    pub fn read_files_in_parts<'f, S: FileSink>(
        &self,
        options: &ReadFiles<'_>,
        files: impl Into<FileList<'f>>,
        sink: &mut S,
        layout: &mut FileLayout,
    ) -> std::result::Result<usize, S::Error> {
        let files = files.into();
        layout.clear();
        options.check_ranges(files)?;
        let batch = FileBatch { volume: self, options, stop: None };
        let located = batch.locate(files)?;
        let mut parts = Parts { batch, files, located: &located, sink, layout };
        let read = parts.read();
        if read.is_err() {
            layout.clear();
        }
        read.map(|()| layout.successes())
    }
}

/// One call.
struct Parts<'p, S> {
    batch: FileBatch<'p>,
    files: FileList<'p>,
    located: &'p [Located],
    sink: &'p mut S,
    layout: &'p mut FileLayout,
}

/// Why a file that is read by itself has no bytes.
enum Failure<E> {
    /// The file cannot be read, which affects no other.
    OfFile(Error),
    /// The call ends.
    OfCall(E),
}

impl<S: FileSink> Parts<'_, S> {
    fn read(&mut self) -> std::result::Result<(), S::Error> {
        self.check_room()?;
        let mut row = 0;
        while row < self.located.len() {
            row += match self.read_together(row)? {
                0 => self.read_by_itself(row)?,
                count => count,
            };
        }
        Ok(())
    }

    /// Checks that the files have room as they were found.
    fn check_room(&self) -> Result<()> {
        let needed = self.located.iter().map(|file| file.len).fold(0, u64::saturating_add);
        let capacity = self.sink.capacity();
        if needed > capacity { Err(too_little(capacity, needed)) } else { Ok(()) }
    }

    /// Reads as many of the next files as fit into one part, and returns their number; 0 where the next one
    /// does not.
    fn read_together(&mut self, row: usize) -> std::result::Result<usize, S::Error> {
        let at = self.layout.bytes();
        let memory = self.sink.memory(at)?;
        let mut count = fitting(&self.located[row..], memory.len() as u64);
        while count > 0 {
            let rows = row..row + count;
            let options = self.batch.options.of(rows.clone());
            let batch = FileBatch { options: &options, ..self.batch };
            let mut part = FileContents::lent(memory);
            if batch.read_into(self.files.slice(rows.clone()), &self.located[rows], &mut part).is_ok() {
                self.layout.append(part.layout());
                let len = part.bytes().len();
                self.batch.volume.check_expansion(part.bytes())?;
                self.sink.take(at, len)?;
                break;
            }
            // A file has grown since it was found, so that fewer fit.
            count /= 2;
        }
        Ok(count)
    }

    /// Reads one file, as many bytes at a time as the sink has memory for. Returns the number of files.
    fn read_by_itself(&mut self, row: usize) -> std::result::Result<usize, S::Error> {
        let shared = &self.batch.volume.shared;
        let wanted = self.batch.wanted(self.files, row, &self.located[row]);
        let at = self.layout.bytes();
        let read = in_one_state(shared, |mode| {
            let found = mode.run(shared, |core| alone::find(core, &self.batch, &wanted));
            let (state, len) = found.map_err(Failure::OfFile)?;
            let (capacity, needed) = (self.sink.capacity(), at.saturating_add(len));
            if needed > capacity {
                return Err(Failure::OfCall(too_little(capacity, needed).into()));
            }
            let mut done = 0;
            while done < len {
                let memory = self.sink.memory(at + done).map_err(Failure::OfCall)?;
                let count = (len - done).min(memory.len() as u64) as usize;
                if count == 0 {
                    return Err(Failure::OfCall(too_little(at + done, needed).into()));
                }
                let from = wanted.range.offset + done;
                let is_same = read_state(shared, mode, &state, from, &mut memory[..count], || false);
                if !is_same.map_err(Failure::OfFile)? {
                    return Ok(None);
                }
                let checked = self.batch.volume.check_expansion(&memory[..count]);
                checked.map_err(|error| Failure::OfCall(error.into()))?;
                self.sink.take(at + done, count).map_err(Failure::OfCall)?;
                done += count as u64;
            }
            Ok(Some(len))
        });
        match read {
            Ok(len) => self.layout.push(Code::Success, len),
            Err(Failure::OfFile(error)) => self.layout.push(error.code(), 0),
            Err(Failure::OfCall(error)) => return Err(error),
        }
        Ok(1)
    }
}

/// Returns how many of the first files have room in so many bytes.
fn fitting(located: &[Located], bytes: u64) -> usize {
    let mut sum = 0u64;
    let fits = |file: &&Located| {
        sum = sum.saturating_add(file.len);
        sum <= bytes
    };
    located.iter().take_while(fits).count()
}
