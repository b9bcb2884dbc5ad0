//! Many files in place: slices into the memory of the volume, where a file lies there in one piece.
//!
//! ```text
//!  paths or inodes ── locate ── pin what is resident ── fetch by position, and pin ── copy the rest ── views
//!                                  │
//!               files in one extent; inline ones, holes, several extents and no room for pins: copies
//! ```
//!
//! [`Pins`] argues why a slice is allowed there.

use super::batch::{FileBatch, TOGETHER};
use super::contents::FileContents;
use super::locate::Located;
use super::options::{ByteRange, FileList, ReadFiles, range_of};
use super::read::windows;
use super::rounds::in_rounds;
use crate::attempt::Core;
use crate::by_inode::ops;
use crate::files::map::{self, MapState};
use crate::files::perm::{READ, access};
use crate::mounted::shared::Shared;
use crate::running::volume::Volume;
use crate::vocabulary::error::{Error, Outcome, Result};
use crate::vocabulary::threads::in_threads;
use crate::vocabulary::types::{Caller, Ino};
use lanefs_format::{BLOCK, Code, inode as f};
use lanefs_store::{BlockRange, Pinned, Pins, Want};
use lanefs_sync::lock::Mutex;
use std::sync::Arc;

/// Pin number of a file that is in no pinned frame: the number of no pin.
const COPIED: u32 = u32::MAX;

/// The contents of many files, in the order in which they were asked for: of most as slices of the volume's
/// own memory, of the others as copies. See [`Volume::view_files`].
///
/// The files stay in memory and the volume stays open as long as this value lives, also when the [`Volume`]
/// is closed.
pub struct FileViews {
    pins: Pins<Shared>,
    /// The number of each file's pin, or [`COPIED`].
    pin_numbers: Vec<u32>,
    /// Codes of all files, and the bytes of those that are not pinned.
    copies: FileContents<'static>,
}

impl FileViews {
    /// Number of files.
    pub fn len(&self) -> usize {
        self.pin_numbers.len()
    }

    /// True for views of no file.
    pub fn is_empty(&self) -> bool {
        self.pin_numbers.is_empty()
    }

    /// The results, one for each file.
    pub fn codes(&self) -> &[Code] {
        self.copies.codes()
    }

    /// The bytes of a file; `None` past the last.
    ///
    /// # Errors
    /// The file's code.
    #[inline]
    pub fn get(&self, file: usize) -> Option<std::result::Result<&[u8], Code>> {
        match self.pins.bytes(*self.pin_numbers.get(file)?) {
            Some(bytes) => Some(Ok(bytes)),
            None => self.copies.get(file),
        }
    }

    /// The bytes or the code of each file, in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = std::result::Result<&[u8], Code>> {
        (0..self.len()).map(|file| self.get(file).unwrap_or(Err(Code::Invalid)))
    }

    /// True where the bytes of a file are in the volume's own memory. It is false for copies, and for files
    /// without bytes.
    pub fn is_in_place(&self, file: usize) -> bool {
        self.pin_numbers.get(file).is_some_and(|number| *number != COPIED)
    }

    /// Bytes of the files that had to be copied.
    pub fn copied_bytes(&self) -> u64 {
        self.copies.bytes().len() as u64
    }
}

impl std::fmt::Debug for FileViews {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FileViews").field("files", &self.len()).field("copied", &self.copied_bytes()).finish()
    }
}

/// A file that was found, and where it is.
struct ViewedFile {
    row: usize,
    ino: Ino,
    /// The inode's generation when the path led to it; `None`: the caller gave the number.
    generation: Option<u32>,
    range: ByteRange,
    len: u64,
    state: ViewState,
}

/// The state of a view: the bytes of the file are to be copied, known, or pinned.
#[derive(Clone, Copy)]
enum ViewState {
    /// The bytes are not in one piece, or not known: they are copied.
    Copied,
    /// The file has no bytes to read.
    Empty,
    /// The bytes are at this position of the volume, in one piece; not pinned yet.
    At(u64),
    /// The bytes are pinned under this number.
    Pinned(u32),
}

impl ViewedFile {
    /// Makes an attempt to find the bytes.
    fn find(&self, core: &Core<'_>, caller: &Caller) -> Outcome<ViewState> {
        let node = ops::regular(core, self.ino)?;
        access(core, caller, &node, READ)?;
        let is_other = self.generation.is_some_and(|generation| generation != node.view.get(f::GENERATION));
        if is_other || self.range.within(node.size()) != self.len || node.is_inline() {
            return Ok(if is_other || self.len > 0 { ViewState::Copied } else { ViewState::Empty });
        }
        if self.len == 0 {
            return Ok(ViewState::Empty);
        }
        let inside = self.range.offset % BLOCK;
        let blocks = (inside + self.len).div_ceil(BLOCK);
        let extent = map::lookup(core, node, self.range.offset / BLOCK, blocks)?;
        Ok(match extent.state {
            MapState::Data(at) if extent.blocks >= blocks => ViewState::At(at + inside),
            _ => ViewState::Copied,
        })
    }

    /// Pins the bytes where they are known and resident. Nothing can be said of a file that cannot be
    /// pinned: a copy finds out.
    fn pin(&mut self, pins: &mut Pins<Shared>) {
        if let ViewState::At(at) = self.state {
            match pins.pin(at, self.len) {
                Ok(Pinned::At(number)) => self.state = ViewState::Pinned(number),
                Ok(Pinned::Absent) => {}
                Ok(Pinned::Full | Pinned::Split) | Err(_) => self.state = ViewState::Copied,
            }
        }
    }

    /// The blocks of a file that is not resident.
    fn missing(&self) -> Option<BlockRange> {
        let ViewState::At(at) = self.state else { return None };
        let first = at / BLOCK;
        Some(BlockRange { first, count: ((at + self.len).div_ceil(BLOCK) - first) as u32 })
    }
}

/// # Many files in place
impl Volume {
    /// Reads many files, or a part of each, without copying them where that is possible: a file that lies in
    /// one extent is a slice of the memory in which the volume keeps its blocks. Files that are inline, have
    /// holes or several extents are copied. Results and permissions are those of
    /// [`read_files`](Self::read_files).
    ///
    /// The blocks of the slices stay in memory as long as the result lives. All such blocks take half of the
    /// [cache](crate::OpenOptions::cache) at most; files beyond that are copied.
    ///
    /// ```
    /// use lanefs::{Access, CreateOptions, PathSet, ReadFiles, Volume};
    ///
    /// # fn main() -> lanefs::Result<()> {
    /// # let dir = tempfile::tempdir().expect("a directory");
    /// # let image = dir.path().join("image");
    /// let volume = Volume::create(&image, &CreateOptions { size: 64 << 20, ..CreateOptions::default() })?;
    /// volume.write_file("/a", vec![1; 10_000])?;
    /// volume.close()?;
    ///
    /// let volume = Volume::open(&image, Access::Read)?;
    /// let paths: PathSet = ["/a", "/b"].into_iter().collect();
    /// let files = volume.view_files(&ReadFiles::default(), &paths)?;
    /// assert_eq!(files.get(0), Some(Ok(&[1; 10_000][..])));
    /// assert!(files.is_in_place(0) && files.copied_bytes() == 0);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Code::Unsupported`] for a volume that is open for writing, or in memory: its bytes may change under
    /// a slice. Those of [`read_files`](Self::read_files).
    pub fn view_files<'f>(
        &self,
        options: &ReadFiles<'_>,
        files: impl Into<FileList<'f>>,
    ) -> Result<FileViews> {
        let files = files.into();
        options.check_ranges(files)?;
        let batch = FileBatch { volume: self, options, stop: None };
        let pins = Mutex::new(batch.pins()?);
        let mut located = batch.locate(files)?;
        let mut viewed = batch.viewed(files, &located);
        batch.pin_resident(&mut viewed, &pins);
        batch.pin_fetched(&mut viewed, &pins);
        let mut pins = pins.into_inner();
        pins.trim();
        let mut pin_numbers = vec![COPIED; located.len()];
        for file in &viewed {
            match file.state {
                ViewState::Pinned(number) => pin_numbers[file.row] = number,
                ViewState::Empty => {}
                ViewState::Copied | ViewState::At(_) => continue,
            }
            located[file.row].is_done = true;
        }
        let copies = batch.copy_rest(files, &located)?;
        Ok(FileViews { pins, pin_numbers, copies })
    }
}

impl FileBatch<'_> {
    /// Returns an empty list of pins.
    fn pins(&self) -> Result<Pins<Shared>> {
        Pins::new(Arc::clone(&self.volume.shared), |shared| &shared.state.store).ok_or_else(|| {
            let what = "slices of files in place need a volume in a file or on a device that is open for \
                        reading (Access::Read); read_files copies from every volume";
            Error::At { code: Code::Unsupported, what: what.into() }
        })
    }

    fn viewed(&self, files: FileList<'_>, located: &[Located]) -> Vec<ViewedFile> {
        let found = located.iter().enumerate().filter(|(_, file)| file.code == Code::Success);
        found
            .map(|(row, file)| ViewedFile {
                row,
                ino: file.ino,
                generation: matches!(files, FileList::Paths(_)).then_some(file.generation),
                range: range_of(self.options.ranges, row),
                len: file.len,
                state: ViewState::Copied,
            })
            .collect()
    }

    /// Finds the bytes of all files, and pins those that are resident.
    fn pin_resident(&self, viewed: &mut [ViewedFile], all: &Mutex<Pins<Shared>>) {
        let threads = self.threads(viewed.len(), 4 * TOGETHER, false);
        let caller = &self.options.resolve.caller;
        in_threads(threads, viewed.chunks_mut(TOGETHER), |part| {
            let Ok(mut pins) = self.pins() else { return };
            in_rounds(
                &self.volume.shared,
                part,
                self.options.validates(),
                |core, file| file.find(core, caller),
                |file, state| {
                    file.state = state;
                    file.pin(&mut pins);
                },
            );
            collect(all, pins, part.iter_mut());
        });
    }

    /// Fetches those that are missing, in the order of positions, and pins them.
    fn pin_fetched(&self, viewed: &mut [ViewedFile], all: &Mutex<Pins<Shared>>) {
        let store = &self.volume.shared.state.store;
        // A file for which there is no room in any case is copied in pieces.
        let room = store.stats().blocks_allowed / 2;
        let fits = |range: BlockRange| u64::from(range.count) <= room;
        let mut missing: Vec<&mut ViewedFile> =
            viewed.iter_mut().filter(|file| file.missing().is_some_and(fits)).collect();
        if missing.is_empty() {
            return;
        }
        let range = |file: &ViewedFile| file.missing().unwrap_or(BlockRange { first: 0, count: 0 });
        missing.sort_unstable_by_key(|file| range(file).first);
        let (threads, most, files) = self.window(missing.len());
        let blocks = |file: &&mut ViewedFile| u64::from(range(file).count);
        in_threads(threads, windows(&mut missing, most, files, blocks).into_iter(), |window| {
            let Ok(mut pins) = self.pins() else { return };
            let misses = window.iter().map(|file| range(file)).map(|BlockRange { first, count }| {
                (first * BLOCK, Want::Data { need: count, extent: count })
            });
            store.fetch_many(&misses.collect::<Vec<_>>());
            window.iter_mut().for_each(|file| file.pin(&mut pins));
            collect(all, pins, window.iter_mut().map(|file| &mut **file));
        });
    }

    /// Copies the files that were found and are not done.
    fn copy_rest(&self, files: FileList<'_>, located: &[Located]) -> Result<FileContents<'static>> {
        let mut copies = FileContents::new();
        self.read_into(files, located, &mut copies)?;
        Ok(copies)
    }
}

/// Adds the pins of some files to those of all.
fn collect<'w>(
    all: &Mutex<Pins<Shared>>,
    mut pins: Pins<Shared>,
    files: impl Iterator<Item = &'w mut ViewedFile>,
) {
    pins.trim();
    let first = all.lock().append(pins);
    for file in files {
        if let ViewState::Pinned(number) = &mut file.state {
            *number += first;
        }
    }
}
