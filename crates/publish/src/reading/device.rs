//! A version of one volume as a device.

use super::fetch::{Counts, Fetcher};
use super::manifest::Manifest;
use super::pieces::{Pieces, Plan};
use super::read_ahead::ReadAhead;
use crate::error::{Error, Result};
use crate::format::layout::{FANOUT, WINDOW_BYTES};
use crate::format::page::Piece;
use lanefs::format::BLOCK;
use lanefs::{Device, IoBufMut, Read, ReadErrors};
use std::collections::HashMap;
use std::io;
use std::ops::Range;
use std::sync::Arc;

/// Bytes of pieces that are in memory at the same time for one call, but for those of a single window.
const MEMORY_BYTES: u64 = 32 << 20;
/// Parts of one call, each in one window, that are planned together.
const PLANNED_PARTS: usize = 4096;

/// Function that learns of each read that failed, with the requests until then.
pub type OnFailure = Arc<dyn Fn(&Error, Counts) + Send + Sync>;

/// The bytes of a version of one volume. Blocks that are not published read as zeros.
#[derive(Clone)]
pub(crate) struct VersionDevice {
    pub(crate) fetcher: Arc<Fetcher>,
    pub(crate) manifest: Arc<Manifest>,
    pub(crate) read_ahead: Option<Arc<ReadAhead>>,
    /// Requests of one call that are under way at the same time at most.
    pub(crate) requests: usize,
    pub(crate) on_failure: Option<OnFailure>,
}

/// The part of a request that lies in one window.
struct WindowPart {
    request: usize,
    /// Byte position on the volume.
    at: u64,
    /// The bytes of the request's buffer.
    range: Range<usize>,
}

impl VersionDevice {
    /// Returns counts of the requests to the store.
    pub(crate) fn counts(&self) -> Counts {
        self.fetcher.counts()
    }

    fn len_of_volume(&self) -> u64 {
        self.manifest.root.facts.volume_bytes
    }

    /// Fills the parts of some requests, and passes each failure with the number of its request. First it
    /// finds all pieces, then it decides what of them is fetched.
    fn fill(&self, requests: &mut [Read<'_>], parts: &[WindowPart], failed: &mut dyn FnMut(usize, Error)) {
        let leaf = |part: &WindowPart| part.at / WINDOW_BYTES / FANOUT;
        let (most, mut leaves) = (self.manifest.leaves_together(), 1);
        let fits = |part: &WindowPart, next: &WindowPart| {
            leaves += usize::from(leaf(part) != leaf(next));
            let fits = leaves <= most;
            leaves = if fits { leaves } else { 1 };
            fits
        };
        let mut pieces = Vec::with_capacity(parts.len());
        for parts in parts.chunk_by(fits) {
            self.manifest.load_leaves(&self.fetcher, parts.iter().map(leaf));
            pieces.extend(self.pieces(parts));
        }
        let parts: Vec<(&WindowPart, Result<Vec<Piece>>)> = parts.iter().zip(pieces).collect();
        let plan = Plan::new(&self.fetcher, references(&parts));
        let (mut memory, mut asked) = (0, 0);
        let fits_with_next = |part: &(&WindowPart, Result<Vec<Piece>>), next: &(&WindowPart, _)| {
            // Parts of the same window that follow one another share its pieces, and count together.
            asked |= blocks(part.0);
            if part.0.at / WINDOW_BYTES != next.0.at / WINDOW_BYTES {
                let of_run = part.1.iter().flatten().filter(|piece| piece.taken & asked != 0);
                memory += of_run.map(|piece| plan.memory_bytes(piece, asked)).sum::<u64>();
                asked = 0;
            }
            let fits = memory < MEMORY_BYTES;
            memory = if fits { memory } else { 0 };
            fits
        };
        for parts in parts.chunk_by(fits_with_next) {
            self.fill_together(requests, parts, &plan, failed);
        }
    }

    /// Fills parts whose pieces are in memory at the same time.
    fn fill_together(
        &self,
        requests: &mut [Read<'_>],
        parts: &[(&WindowPart, Result<Vec<Piece>>)],
        plan: &Plan,
        failed: &mut dyn FnMut(usize, Error),
    ) {
        if let Some(read_ahead) = &self.read_ahead {
            let found = parts.iter().filter_map(|(_, pieces)| pieces.as_ref().ok());
            let data = found.flatten().filter(|piece| !piece.is_metadata);
            read_ahead.note(data.map(|piece| piece.window), &self.fetcher, &self.manifest);
        }
        let fetched = Pieces::fetch(&self.fetcher, self.requests, plan, references(parts));
        for (part, pieces) in parts {
            let target = requests[part.request].buffer.part(part.range.clone());
            let checked = pieces.as_ref().map_err(Error::clone).and_then(|pieces| {
                // By each reference for itself: two of them may take other blocks of the same bytes.
                let mut touched = touched(part, pieces);
                touched.try_for_each(|(piece, _)| fetched.check(&self.fetcher, piece)).map(|()| pieces)
            });
            if let Err(error) = checked.and_then(|pieces| copy(part.at, target, pieces, &fetched)) {
                failed(part.request, error);
            }
        }
    }

    /// Finds the pieces of each part's window.
    fn pieces(&self, parts: &[WindowPart]) -> Vec<Result<Vec<Piece>>> {
        let mut last: Option<(u64, Result<Vec<Piece>>)> = None;
        let mut find = |window: u64| match &last {
            Some((known, pieces)) if *known == window => pieces.clone(),
            _ => {
                let pieces = self.manifest.pieces(&self.fetcher, window);
                last = Some((window, pieces.clone()));
                pieces
            }
        };
        parts.iter().map(|part| find(part.at / WINDOW_BYTES)).collect()
    }

    /// Fills a slice from byte `at` on, which lies inside the volume, and tells nobody of a failure.
    pub(crate) fn read_checked(&self, at: u64, buffer: &mut [u8]) -> Result<()> {
        let parts: Vec<WindowPart> = split(0, at, buffer.len()).collect();
        let (mut requests, mut outcome) = ([Read { at, buffer: IoBufMut::new(buffer) }], Ok(()));
        self.fill(&mut requests, &parts, &mut |_, error| outcome = Err(error));
        outcome
    }
}

/// Tells of a failed read, and makes it one of the device.
pub(crate) fn report(error: Error, tell: Option<&OnFailure>, counts: Counts) -> io::Error {
    if let Some(tell) = tell {
        tell(&error, counts);
    }
    match error {
        Error::Damaged { .. } => io::Error::new(io::ErrorKind::InvalidData, error),
        error => io::Error::other(error),
    }
}

/// The blocks of its window that a part touches.
fn blocks(part: &WindowPart) -> u64 {
    let first = part.at % WINDOW_BYTES / BLOCK;
    let end = (part.at % WINDOW_BYTES + part.range.len() as u64).div_ceil(BLOCK);
    let below = |count: u64| if count >= 64 { u64::MAX } else { (1 << count) - 1 };
    below(end) & !below(first)
}

/// The pieces that a part is read from, with its blocks.
fn touched<'p>(part: &WindowPart, pieces: &'p [Piece]) -> impl Iterator<Item = (&'p Piece, u64)> {
    let blocks = blocks(part);
    pieces.iter().filter(move |piece| piece.taken & blocks != 0).map(move |piece| (piece, blocks))
}

/// Those of all parts whose pieces were found.
fn references<'p>(parts: &'p [(&WindowPart, Result<Vec<Piece>>)]) -> impl Iterator<Item = (&'p Piece, u64)> {
    let found = parts.iter().filter_map(|(part, pieces)| Some((part, pieces.as_ref().ok()?)));
    found.flat_map(|(part, pieces)| touched(part, pieces))
}

/// Copies bytes of a window from position `at` on from its pieces.
fn copy(at: u64, mut buffer: IoBufMut<'_>, pieces: &[Piece], fetched: &Pieces) -> Result<()> {
    let (at, len) = (at % WINDOW_BYTES, buffer.len() as u64);
    let mut done = 0;
    while done < len {
        let (block, skip) = ((at + done) / BLOCK, (at + done) % BLOCK);
        let count = (BLOCK - skip).min(len - done);
        let mut target = buffer.part(done as usize..(done + count) as usize);
        match pieces.iter().find(|piece| piece.taken >> block & 1 != 0) {
            None => target.fill(0),
            Some(piece) => {
                let bytes = fetched.block(piece, piece.rank(block as u32))?;
                target.copy_from(&bytes[skip as usize..(skip + count) as usize]);
            }
        }
        done += count;
    }
    Ok(())
}

/// Splits a request into parts of one window each.
fn split(request: usize, at: u64, len: usize) -> impl Iterator<Item = WindowPart> {
    let mut done = 0;
    std::iter::from_fn(move || {
        let at = at + done as u64;
        let range = done..len.min(done + (WINDOW_BYTES - at % WINDOW_BYTES) as usize);
        done = range.end;
        (!range.is_empty()).then_some(WindowPart { request, at, range })
    })
}

impl Device for VersionDevice {
    fn len(&self) -> u64 {
        self.len_of_volume()
    }

    fn is_read_only(&self) -> bool {
        true
    }

    fn is_for_closed_volumes(&self) -> bool {
        true
    }

    fn given(&self) -> u64 {
        self.counts().given()
    }

    fn engine(&self) -> String {
        let cache = match self.fetcher.cache() {
            Some(cache) => format!("cache in {}", cache.path().display()),
            None => "no cache".into(),
        };
        let (name, version) = (self.fetcher.objects.store.name(), self.manifest.version);
        format!("publication {name}, version {version}, {cache}")
    }

    fn read_at(&self, at: u64, buffer: IoBufMut<'_>) -> io::Result<()> {
        Ok(self.read_many(&mut [Read { at, buffer }])?)
    }

    fn read_many(&self, requests: &mut [Read<'_>]) -> std::result::Result<(), ReadErrors> {
        let mut failures: HashMap<usize, io::Error> = HashMap::new();
        let mut parts = Vec::new();
        for (index, request) in requests.iter().enumerate() {
            let end = request.at.checked_add(request.buffer.len() as u64);
            if end.is_none_or(|end| end > self.len_of_volume()) {
                failures.insert(index, io::ErrorKind::UnexpectedEof.into());
                continue;
            }
            parts.extend(split(index, request.at, request.buffer.len()));
        }
        for parts in parts.chunks(PLANNED_PARTS) {
            self.fill(requests, parts, &mut |index, error| {
                failures
                    .entry(index)
                    .or_insert_with(|| report(error, self.on_failure.as_ref(), self.counts()));
            });
        }
        let mut errors = ReadErrors::default();
        failures.into_iter().for_each(|(index, error)| errors.add(index, error));
        errors.into_result()
    }

    fn read_batch(&self, requests: &mut [Read<'_>]) -> std::result::Result<(), ReadErrors> {
        VersionDevice { read_ahead: None, ..self.clone() }.read_many(requests)
    }
}
