//! A version as an image: an ordinary volume, for writing, too.
//!
//! The image is made under another name, `IMAGE.part`, which ends with a record of how far it is. So a pull
//! that was cut off goes on where it stopped, and the name of the image never has half of one.

use crate::error::{Error, Result};
use crate::format::hash::Hash;
use crate::format::layout::WINDOW_BYTES;
use crate::format::packs::Stored;
use crate::format::page::{Page, Piece};
use crate::format::words::bits;
use crate::publication::Publication;
use crate::publish::OnProgress;
use crate::reading::fetch::{Bytes, Fetcher};
use crate::reading::manifest::Manifest;
use lanefs::escape::escape_path;
use lanefs::expansion::{DEFAULT_FACTOR, is_justified};
use lanefs::format::BLOCK;
use lanefs::host_path::parent_dir;
use rustix::fs::{AtFlags, CWD, FlockOperation, Mode, OFlags, RenameFlags};
use rustix::io::Errno;
use std::collections::HashMap;
use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

/// Windows that are fetched together at most, and bytes of their pieces after decompression: a window may
/// have pieces of which it takes a few blocks.
const BATCH_WINDOWS: u64 = 256;
const BATCH_BYTES: u64 = 128 << 20;
/// Batches between two records.
const BATCHES_PER_RECORD: usize = 4;

/// First bytes of the record.
const MAGIC: &[u8; 8] = b"LanePull";
/// Bytes of the record: these, the version, the number of windows that are done, and the hash of all that.
const RECORD_BYTES: usize = 8 + 32 + 8 + 32;

/// Options of [`Publication::pull_with`].
#[derive(Clone, Debug)]
pub struct PullOptions {
    /// The blocks of an image, but for those of zeros, which are holes, take no more than so many times the
    /// bytes that were fetched for it, and 1 GiB in any case. 0: no bound. So two megabytes in a store do not
    /// fill a disk.
    pub max_expansion: u32,
    /// Permissions (of 0777) of the image, whatever the umask is. `None`: 0666 without those of the umask.
    /// Until it is complete the file is private.
    pub mode: Option<u16>,
}

impl Default for PullOptions {
    fn default() -> Self {
        PullOptions { max_expansion: DEFAULT_FACTOR, mode: None }
    }
}

/// Result of [`Publication::pull`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PullReport {
    /// Blocks that were written.
    pub blocks: u64,
    /// Blocks that an earlier pull, which was cut off, had written.
    pub found: u64,
}

impl Publication {
    /// Writes the version as a new image: its blocks, verified by their pieces, and holes for the others. A
    /// pull of the same version that was cut off is continued. `progress` is called with blocks.
    ///
    /// The image is the same volume, with the same UUID.
    ///
    /// # Errors
    /// [`Error::NoImage`] for a join; [`Error::Host`] where the image exists, or another pull writes it, or
    /// the host fails; [`Error::Interrupted`]; the store's; damaged objects. There is no image then.
    pub fn pull(&self, image: &Path, progress: OnProgress<'_>) -> Result<PullReport> {
        self.pull_with(image, &PullOptions::default(), progress)
    }

    /// [`pull`](Self::pull) with options.
    ///
    /// # Errors
    /// [`Error::Expansion`]; as [`pull`](Self::pull).
    pub fn pull_with(
        &self,
        image: &Path,
        options: &PullOptions,
        progress: OnProgress<'_>,
    ) -> Result<PullReport> {
        if self.shards().is_some() {
            return Err(Error::NoImage(self.shown()));
        }
        check_absent(image)?;
        self.check_closed()?;
        let mut part = UnnamedImage::open(image, self.version(), self.facts().volume_bytes)?;
        let mut report = PullReport { blocks: 0, found: 0 };
        let pulled = self.fill(&mut part, &mut report, options.max_expansion, progress);
        if let Err(error) = pulled {
            // The next pull goes on from here. The user needs the first failure, not one of this call.
            let _ = part.record();
            return Err(error);
        }
        part.finish(image, options.mode)?;
        Ok(report)
    }

    fn fill(
        &self,
        part: &mut UnnamedImage,
        report: &mut PullReport,
        max_expansion: u32,
        progress: OnProgress<'_>,
    ) -> Result<()> {
        let (sender, batches) = sync_channel(1);
        let (fetcher, manifest, from) = (&*self.fetcher, &*self.manifest, part.done);
        std::thread::scope(|scope| {
            let fetching = std::thread::Builder::new()
                .name("lanefs-pull".into())
                .spawn_scoped(scope, move || fetch(fetcher, manifest, from, &sender))
                .map_err(|error| host(&part.path, &error))?;
            let written = self.write(part, report, &batches, max_expansion, progress);
            // A thread that fetches finds no receiver, and ends.
            drop(batches);
            let fetched = fetching.join().unwrap_or(Err(Error::Interrupted));
            written.and(fetched)
        })
    }

    fn write(
        &self,
        part: &mut UnnamedImage,
        report: &mut PullReport,
        batches: &Receiver<Batch>,
        max_expansion: u32,
        progress: OnProgress<'_>,
    ) -> Result<()> {
        let all = self.facts().blocks;
        let (mut since_record, mut written) = (0, 0);
        loop {
            if !progress(report.blocks + report.found, all) {
                return Err(Error::Interrupted);
            }
            let Ok(batch) = batches.recv() else { return Ok(()) };
            report.found += batch.found;
            for (piece, bytes) in &batch.pieces {
                written += part.write(piece, bytes)?;
                self.check_expansion(written, max_expansion)?;
                report.blocks += u64::from(piece.taken.count_ones());
            }
            part.done = batch.end;
            since_record += 1;
            if since_record == BATCHES_PER_RECORD {
                part.record()?;
                since_record = 0;
            }
        }
    }
}

impl Publication {
    /// # Errors
    /// [`Error::Expansion`] where bytes are more than those that were fetched justify.
    fn check_expansion(&self, written: u64, factor: u32) -> Result<()> {
        match is_justified(written, self.counts().given(), factor.into()) {
            true => Ok(()),
            false => Err(Error::Expansion { version: self.shown(), factor }),
        }
    }
}

/// The pieces of some windows, in order.
struct Batch {
    pieces: Vec<(Piece, Bytes)>,
    /// Number of the window after the last one.
    end: u64,
    /// Blocks of windows that were done before.
    found: u64,
}

/// Fetches all pieces from window `from` on, and passes them in batches.
fn fetch(fetcher: &Fetcher, manifest: &Manifest, from: u64, batches: &SyncSender<Batch>) -> Result<()> {
    manifest.walk(fetcher, |_, _, page| {
        let Page::Leaf(pieces) = page else { return Ok(()) };
        for windows in in_batches(pieces) {
            let first = windows.partition_point(|piece| piece.window < from);
            let (done, wanted) = windows.split_at(first);
            let batch = Batch {
                pieces: fetch_batch(fetcher, wanted)?,
                end: windows.last().map_or(from, |last| last.window + 1).max(from),
                found: done.iter().map(|piece| u64::from(piece.taken.count_ones())).sum(),
            };
            batches.send(batch).map_err(|_| Error::Interrupted)?;
        }
        Ok(())
    })
}

/// Cuts the pieces of a page into those that are fetched together. A window is not cut.
fn in_batches(pieces: &[Piece]) -> impl Iterator<Item = &[Piece]> {
    let mut bytes = 0;
    pieces.chunk_by(move |a, b| {
        bytes += u64::from(a.stored.raw);
        let goes_on = a.window == b.window
            || a.window / BATCH_WINDOWS == b.window / BATCH_WINDOWS && bytes < BATCH_BYTES;
        bytes = if goes_on { bytes } else { 0 };
        goes_on
    })
}

fn fetch_batch(fetcher: &Fetcher, pieces: &[Piece]) -> Result<Vec<(Piece, Bytes)>> {
    let mut wanted: Vec<Stored> = pieces.iter().map(|piece| piece.stored).collect();
    wanted.sort_unstable_by_key(|stored| (stored.hash, stored.raw));
    wanted.dedup();
    let fetched: HashMap<Stored, Result<Bytes>> =
        wanted.iter().copied().zip(fetcher.get_many(&wanted)).collect();
    let bytes = |piece: &Piece| {
        let bytes = fetched.get(&piece.stored).cloned().unwrap_or(Err(Error::Interrupted))?;
        piece.check(&bytes).map_err(|why| fetcher.damaged_at(&piece.stored, why))?;
        Ok((*piece, bytes))
    };
    pieces.iter().map(bytes).collect()
}

fn host(path: &Path, error: &io::Error) -> Error {
    Error::Host { file: escape_path(path), why: error.to_string() }
}

fn refuse(path: &Path, why: &str) -> Error {
    Error::Host { file: escape_path(path), why: why.into() }
}

fn exists(image: &Path) -> Error {
    refuse(image, "exists already; choose another name, or remove it")
}

/// # Errors
/// [`Error::Host`] where there is such a file.
fn check_absent(image: &Path) -> Result<()> {
    match image.symlink_metadata() {
        Ok(_) => Err(exists(image)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(host(image, &error)),
    }
}

/// The image before it has its name.
struct UnnamedImage {
    path: PathBuf,
    file: File,
    version: Hash,
    /// Bytes of the volume: the record follows them.
    len: u64,
    /// Windows below this number are written.
    done: u64,
}

impl UnnamedImage {
    /// Makes the file, or opens one that a pull left. Locks it.
    fn open(image: &Path, version: Hash, len: u64) -> Result<UnnamedImage> {
        let mut name = OsString::from(image);
        name.push(".part");
        let path = PathBuf::from(name);
        let file = open_private(&path)?;
        match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(Errno::WOULDBLOCK) => {
                return Err(refuse(&path, "another pull writes it; wait until it has ended"));
            }
            Err(errno) => return Err(host(&path, &errno.into())),
        }
        let mut part = UnnamedImage { path, file, version, len, done: 0 };
        part.check_name(image)?;
        part.begin()?;
        Ok(part)
    }

    /// Another pull may have ended, and renamed the file, between the open and the lock.
    fn check_name(&self, image: &Path) -> Result<()> {
        check_absent(image)?;
        match self.is_named(&self.path) {
            true => Ok(()),
            false => Err(refuse(&self.path, "another pull has just ended; try again")),
        }
    }

    /// Returns whether a name is still this file's.
    fn is_named(&self, path: &Path) -> bool {
        let identity = |metadata: std::fs::Metadata| (metadata.dev(), metadata.ino());
        let (own, named) = (self.file.metadata(), path.symlink_metadata());
        matches!((own.map(identity), named.map(identity)), (Ok(own), Ok(named)) if own == named)
    }

    /// Finds out how far an earlier pull of the version came, or begins.
    fn begin(&mut self) -> Result<()> {
        let len = self.file.metadata().map_err(|error| self.failed(&error))?.len();
        if len > 0 {
            let mut record = [0; RECORD_BYTES];
            let at = len.checked_sub(RECORD_BYTES as u64);
            let read = at.map(|at| self.file.read_exact_at(&mut record, at));
            let Some((version, done)) = read.and_then(io::Result::ok).and_then(|()| parse(&record)) else {
                return Err(refuse(&self.path, "is not what a pull leaves; move it away"));
            };
            if version == self.version && at == Some(self.len) {
                self.done = done;
                return Ok(());
            }
            // That of another version is of no use.
            self.file.set_len(0).map_err(|error| self.failed(&error))?;
        }
        self.record()
    }

    fn failed(&self, error: &io::Error) -> Error {
        host(&self.path, error)
    }

    /// Writes the blocks that are taken from a piece. Those of zeros stay holes. Returns the bytes written.
    fn write(&self, piece: &Piece, bytes: &[u8]) -> Result<u64> {
        let outside = || Error::damaged("manifest", "names a block outside the volume");
        let mut written = 0;
        // The run of blocks that follow one another in the piece and in the image.
        let mut run: Option<(u64, Range<usize>)> = None;
        let write = |(at, range): (u64, Range<usize>)| {
            let run = bytes.get(range).filter(|run| at + run.len() as u64 <= self.len);
            let run = run.ok_or_else(outside)?;
            self.file.write_all_at(run, at).map_err(|error| self.failed(&error))
        };
        for block in bits(piece.taken) {
            let from = piece.rank(block) * BLOCK as usize;
            let at = piece.window * WINDOW_BYTES + u64::from(block) * BLOCK;
            let end = from + BLOCK as usize;
            let content = bytes.get(from..end).ok_or_else(outside)?;
            if content.iter().all(|byte| *byte == 0) {
                continue;
            }
            written += BLOCK;
            match &mut run {
                Some((start, range)) if range.end == from && *start + range.len() as u64 == at => {
                    range.end = end;
                }
                _ => {
                    if let Some(done) = run.replace((at, from..end)) {
                        write(done)?;
                    }
                }
            }
        }
        run.map_or(Ok(()), write)?;
        Ok(written)
    }

    /// Makes everything durable, and then a record that says so.
    fn record(&self) -> Result<()> {
        let mut record = [MAGIC, &self.version.0[..], &self.done.to_le_bytes()].concat();
        record.extend_from_slice(&Hash::of(&record).0);
        let written = self.file.sync_data().and_then(|()| self.file.write_all_at(&record, self.len));
        written.map_err(|error| self.failed(&error))
    }

    /// Gives the image its name, and removes the record.
    fn finish(self, image: &Path, mode: Option<u16>) -> Result<()> {
        self.file.sync_all().map_err(|error| self.failed(&error))?;
        // From here on the image is a file like others of this user.
        let mode = Mode::from_raw_mode(mode.map_or_else(|| 0o666 & !umask(), |mode| (mode & 0o777).into()));
        rustix::fs::fchmod(&self.file, mode).map_err(|errno| self.failed(&errno.into()))?;
        // The very file gets the name: another user may have put another one under that of the part.
        let open = format!("/proc/self/fd/{}", self.file.as_raw_fd());
        match rustix::fs::linkat(CWD, &open, CWD, image, AtFlags::SYMLINK_FOLLOW) {
            Ok(()) => {
                // Another file that has the name of the part by now is left.
                if self.is_named(&self.path) {
                    let _ = std::fs::remove_file(&self.path);
                }
            }
            Err(Errno::EXIST) => return Err(exists(image)),
            // The file system has no second names.
            Err(_) => match rustix::fs::renameat_with(CWD, &self.path, CWD, image, RenameFlags::NOREPLACE) {
                Err(Errno::INVAL | Errno::NOSYS) => {
                    check_absent(image)?;
                    std::fs::rename(&self.path, image).map_err(|error| host(image, &error))?;
                }
                Err(Errno::EXIST) => return Err(exists(image)),
                renamed => renamed.map_err(|errno| host(image, &errno.into()))?,
            },
        }
        if !self.is_named(image) {
            return Err(refuse(image, "another file was put in its place; remove it and pull again"));
        }
        let end = || {
            self.file.set_len(self.len)?;
            self.file.sync_all()?;
            File::open(parent_dir(image))?.sync_all()
        };
        end().map_err(|error| host(image, &error))
    }
}

/// Makes a file that only this user can open, or opens one of a pull before. Another user may have put a file
/// or a link there: his owner and mode would become those of the image.
fn open_private(path: &Path) -> Result<File> {
    let mut options = File::options();
    options.read(true).write(true).mode(0o600);
    match options.clone().create_new(true).open(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        made => return made.map_err(|error| host(path, &error)),
    }
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let foreign = "is not what a pull of this user leaves: a private file with one name; remove it";
    let file = options.custom_flags(flags.bits() as i32).open(path).map_err(|error| {
        match error.raw_os_error() == Some(Errno::LOOP.raw_os_error()) {
            true => refuse(path, foreign),
            false => host(path, &error),
        }
    })?;
    let found = file.metadata().map_err(|error| host(path, &error))?;
    let is_own = found.is_file()
        && found.uid() == rustix::process::geteuid().as_raw()
        && found.nlink() == 1
        && found.mode() & 0o077 == 0;
    if is_own { Ok(file) } else { Err(refuse(path, foreign)) }
}

/// Permissions that new files of this process do not get. (The system call that tells them changes them, for
/// all threads.)
fn umask() -> u32 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("Umask:"));
    line.and_then(|mask| u32::from_str_radix(mask.trim(), 8).ok()).unwrap_or(0o077)
}

/// Parses a record; `None` for other bytes.
fn parse(record: &[u8; RECORD_BYTES]) -> Option<(Hash, u64)> {
    let (stated, check) = record.split_at(RECORD_BYTES - 32);
    if Hash::of(stated).0 != check {
        return None;
    }
    let rest = stated.strip_prefix(MAGIC)?;
    let (version, rest) = rest.split_first_chunk()?;
    Some((Hash(*version), u64::from_le_bytes(rest.try_into().ok()?)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::layout::MAX_PIECES;
    use crate::format::packs::{Framing, PackRef, ZSTD};

    #[test]
    fn batches_have_whole_windows_and_bounded_bytes() {
        let piece = |number: u64| {
            let pack = PackRef { name: Hash([1; 32]), bytes: 1 << 30, footer: 100 };
            let stored = Stored {
                pack,
                offset: number as u32,
                bytes: 9,
                raw: WINDOW_BYTES as u32,
                codec: ZSTD,
                hash: Hash([2; 32]),
                framing: Framing::None,
            };
            let window = number / MAX_PIECES as u64;
            let taken = 1 << (number % MAX_PIECES as u64);
            Piece {
                window,
                is_metadata: false,
                taken,
                blocks: u64::MAX,
                borrowed: None,
                stored,
                content: None,
            }
        };
        let pieces: Vec<Piece> = (0..1000 * MAX_PIECES as u64).map(piece).collect();
        let all: Vec<&[Piece]> = in_batches(&pieces).collect();
        assert_eq!(all.concat(), pieces);
        for pair in all.windows(2) {
            assert_ne!(pair[0].last().map(|piece| piece.window), pair[1].first().map(|piece| piece.window));
        }
        let most = BATCH_BYTES + MAX_PIECES as u64 * WINDOW_BYTES;
        assert!(all.iter().all(|batch| (batch.len() as u64) * WINDOW_BYTES <= most));
        // One piece for each window: as many windows as there may be.
        let alone: Vec<Piece> = pieces.iter().step_by(MAX_PIECES).copied().collect();
        let counts: Vec<usize> = in_batches(&alone).map(<[Piece]>::len).collect();
        assert_eq!(counts, [256, 256, 256, 232]);
    }
}
