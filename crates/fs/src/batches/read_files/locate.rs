//! Finding the files of a batch: inode and length of each.

use super::batch::{FileBatch, TOGETHER};
use super::options::{ByteRange, FileList, range_of};
use super::rounds::in_rounds;
use crate::by_inode::pieces::MAX_WHOLE_BYTES;
use crate::files::inode::Inode;
use crate::vocabulary::columns::{Column, ColumnSet, Rows};
use crate::vocabulary::error::Result;
use crate::vocabulary::threads::in_threads;
use crate::vocabulary::types::{Attr, Ino};
use lanefs_format::{Code, FileKind, inode as f};
use lanefs_sync::lock::Mutex;

/// A file as it was found.
#[derive(Clone, Copy)]
pub(crate) struct Located {
    pub(crate) code: Code,
    pub(super) generation: u32,
    pub(super) ino: Ino,
    /// Number of bytes to read.
    pub(crate) len: u64,
    /// Nothing is left to copy.
    pub(super) is_done: bool,
}

impl Located {
    const NOT_YET: Located =
        Located { code: Code::NotResident, generation: 0, ino: Ino(0), len: 0, is_done: false };

    fn new(ino: Ino, generation: u32, len: u64) -> Self {
        let code = if len > MAX_WHOLE_BYTES { Code::FileTooLarge } else { Code::Success };
        Located { code, generation, ino, len: if len > MAX_WHOLE_BYTES { 0 } else { len }, is_done: false }
    }

    /// A file of this length, for tests of schedules.
    #[cfg(all(test, feature = "_shuttle"))]
    pub(crate) fn of_len(len: u64) -> Self {
        Located::new(Ino(0), 0, len)
    }

    fn failed(code: Code) -> Self {
        Located { code, ..Located::NOT_YET }
    }
}

/// Answers to a part of the paths.
struct LocatedRows<'a> {
    list: &'a mut [Located],
    ranges: Option<&'a [ByteRange]>,
}

impl Rows for LocatedRows<'_> {
    fn wants(&self) -> ColumnSet {
        ColumnSet::of(&[Column::Kind, Column::Size, Column::Generation])
    }

    #[inline(always)]
    fn found(&mut self, row: usize, ino: Ino, kind: FileKind, attr: Option<&Attr>) {
        let (size, generation) = attr.map_or((0, 0), |attr| (attr.size, attr.generation));
        // The read finds out that it is not a file.
        let size = if kind == FileKind::File { size } else { 0 };
        self.list[row] = Located::new(ino, generation, range_of(self.ranges, row).within(size));
    }

    #[inline(always)]
    fn failed(&mut self, row: usize, code: Code) {
        self.list[row] = Located::failed(code);
    }
}

impl FileBatch<'_> {
    /// Finds all files and their sizes.
    pub(crate) fn locate(&self, files: FileList<'_>) -> Result<Vec<Located>> {
        let mut located = vec![Located::NOT_YET; files.len()];
        let threads = self.threads(located.len(), 4 * TOGETHER, false);
        let size = located.len().div_ceil(threads).max(1);
        let failure = Mutex::new(None);
        in_threads(threads, located.chunks_mut(size).enumerate(), |(i, part)| {
            if let Err(error) = self.locate_part(files, i * size, part) {
                failure.lock().get_or_insert(error);
            }
        });
        match failure.into_inner() {
            Some(error) => Err(error),
            None => Ok(located),
        }
    }

    fn locate_part(&self, files: FileList<'_>, first: usize, list: &mut [Located]) -> Result<()> {
        let ranges = self.options.ranges.map(|ranges| &ranges[first..first + list.len()]);
        match files {
            FileList::Paths(paths) => {
                let paths = paths.slice(first..first + list.len());
                self.volume.resolve_rows(&self.options.resolve, paths, &mut LocatedRows { list, ranges })?;
            }
            FileList::Inodes(inodes) => {
                let mut rows: Vec<(usize, &mut Located)> = list.iter_mut().enumerate().collect();
                let store = &self.volume.shared.state.store;
                let inode_size = store.inode_size().bytes();
                for part in rows.chunks_mut(TOGETHER) {
                    part.iter()
                        .for_each(|(i, _)| store.prefetch(inodes[first + i].0.wrapping_mul(inode_size)));
                    in_rounds(
                        &self.volume.shared,
                        part,
                        true,
                        |core, (i, _)| {
                            let node = Inode::load(core, inodes[first + *i].0)?;
                            let size = if node.kind()? == FileKind::File { node.size() } else { 0 };
                            Ok((node.view.get(f::GENERATION), size))
                        },
                        |(i, located), (generation, size)| {
                            let len = range_of(ranges, *i).within(size);
                            **located = Located::new(inodes[first + *i], generation, len);
                        },
                    );
                }
                // A file without an answer is read by itself, which gives its code.
                for (i, located) in rows.into_iter().filter(|(_, located)| located.code == Code::NotResident)
                {
                    *located = Located::new(inodes[first + i], 0, 0);
                }
            }
        }
        Ok(())
    }
}
