//! Fetching of stored bytes: from memory, from the cache, from the store.
//!
//! A piece that several threads need is fetched by one of them. Pieces that lie near each other in a pack are
//! read by one request. Nothing is used before it was verified.

use super::cache::Cache;
use super::in_flight::InFlight;
use super::lru::Lru;
use super::pace::Pace;
use super::threads;
use crate::error::{Error, Result};
use crate::format::buffers::{Buffer, Buffers};
use crate::format::hash::Hash;
use crate::format::packs::{PackRef, Stored};
use crate::format::piece;
use crate::format::words::Bad;
use crate::objects::Objects;
use lanefs_sync::lock::{Condvar, Mutex};
use std::collections::{HashMap, hash_map};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Requests at the same time of one who reads all pieces.
const CHECKS: usize = 32;
/// Most bytes of one request.
const REQUEST_BYTES: u64 = 4 << 20;

/// The bytes of a piece or page, verified and decompressed.
pub(crate) type Bytes = Arc<Buffer>;

/// Identity of decompressed bytes: the name of the stored ones, how they are stored, and the size that they
/// were promised to have.
type Key = (Hash, u16, u32);

fn key(stored: &Stored) -> Key {
    (stored.name(), stored.codec, stored.raw)
}

/// Counts since the publication was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Ranged reads of packs.
    pub requests: u64,
    /// Bytes that the store gave.
    pub bytes: u64,
    /// Pieces that came from the local cache.
    pub cached: u64,
    /// Their stored bytes.
    pub cached_bytes: u64,
}

impl Counts {
    /// Stored bytes that the store and the cache gave.
    pub fn given(&self) -> u64 {
        self.bytes.saturating_add(self.cached_bytes)
    }
}

/// Fetches the pieces and pages of a store.
pub(crate) struct Fetcher {
    pub(crate) objects: Objects,
    cache: Option<Arc<Cache>>,
    /// Pieces that are fetched go to the cache.
    fills_cache: bool,
    buffers: Arc<Buffers>,
    pub(crate) pace: Pace,
    in_flight: InFlight,
    state: Mutex<FetcherState>,
    requests: AtomicU64,
    bytes: AtomicU64,
    cached: AtomicU64,
    cached_bytes: AtomicU64,
}

struct FetcherState {
    memory: Lru<Key, Bytes>,
    /// Stored bytes that were fetched ahead, by their hashes, which were verified.
    ahead: HashMap<Hash, SharedBytes>,
    flights: HashMap<Key, Arc<Flight>>,
}

/// A part of bytes that others share.
pub(crate) struct SharedBytes {
    pub(crate) bytes: Arc<Vec<u8>>,
    pub(crate) range: Range<usize>,
}

impl SharedBytes {
    pub(crate) fn bytes(&self) -> &[u8] {
        self.bytes.get(self.range.clone()).unwrap_or_default()
    }
}

/// The kind of the bytes of a fetch.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Piece,
    Page,
}

/// A fetch that is under way.
#[derive(Default)]
struct Flight {
    outcome: Mutex<Option<Result<Bytes>>>,
    ended: Condvar,
}

impl Flight {
    fn wait(&self) -> Result<Bytes> {
        let mut outcome = self.outcome.lock();
        loop {
            match &*outcome {
                Some(outcome) => return outcome.clone(),
                None => self.ended.wait(&mut outcome),
            }
        }
    }
}

/// The state in which a call found a piece.
enum Found {
    Here(Bytes),
    Flying(Arc<Flight>),
}

/// A fetch that this thread does. However it ends, no thread waits for it in vain.
struct Own<'f> {
    fetcher: &'f Fetcher,
    stored: Stored,
    kind: Kind,
    flight: Arc<Flight>,
    is_done: bool,
}

impl Own<'_> {
    fn finish(mut self, outcome: Result<Bytes>) {
        self.is_done = true;
        if let (Ok(bytes), Kind::Piece) = (&outcome, self.kind) {
            // Here, where several threads work. Each reference to the piece is checked by these.
            bytes.hashes();
        }
        self.end(outcome);
    }

    fn end(&self, outcome: Result<Bytes>) {
        let key = key(&self.stored);
        let mut state = self.fetcher.state.lock();
        if let Ok(bytes) = &outcome {
            state.memory.insert(key, bytes.clone(), bytes.capacity() as u64);
        }
        state.flights.remove(&key);
        drop(state);
        *self.flight.outcome.lock() = Some(outcome);
        self.flight.ended.notify_all();
    }
}

impl Drop for Own<'_> {
    fn drop(&mut self) {
        if !self.is_done {
            self.end(Err(Error::Interrupted));
        }
    }
}

impl Fetcher {
    /// Makes a fetcher that keeps `memory` bytes of pieces.
    pub(crate) fn new(objects: Objects, cache: Option<Arc<Cache>>, memory: u64) -> Self {
        let state = FetcherState { memory: Lru::new(memory), ahead: HashMap::new(), flights: HashMap::new() };
        let (requests, bytes, cached, cached_bytes) = Default::default();
        Fetcher {
            in_flight: InFlight::new(objects.store.concurrency()),
            pace: Pace::default(),
            objects,
            cache,
            fills_cache: true,
            buffers: Arc::default(),
            state: state.into(),
            requests,
            bytes,
            cached,
            cached_bytes,
        }
    }

    /// The same fetcher, which puts what it fetches into the cache or does not.
    pub(crate) fn filling(self, fills_cache: bool) -> Self {
        Fetcher { fills_cache, ..self }
    }

    /// The same fetcher with another bound on the requests that are under way at the same time.
    pub(crate) fn with_requests(self, most: usize) -> Self {
        Fetcher { in_flight: InFlight::new(most), ..self }
    }

    /// Requests that are under way at the same time at most.
    pub(crate) fn most_requests(&self) -> usize {
        self.in_flight.most()
    }

    /// The same fetcher, of a store with a known latency and bytes per second.
    pub(crate) fn with_pace(self, known: Option<(Duration, u64)>) -> Self {
        Fetcher {
            pace: known.map_or_else(Pace::default, |(latency, bytes)| Pace::known(latency, bytes)),
            ..self
        }
    }

    pub(crate) fn counts(&self) -> Counts {
        Counts {
            requests: self.requests.load(Ordering::Relaxed),
            bytes: self.bytes.load(Ordering::Relaxed),
            cached: self.cached.load(Ordering::Relaxed),
            cached_bytes: self.cached_bytes.load(Ordering::Relaxed),
        }
    }

    /// The local cache.
    pub(crate) fn cache(&self) -> Option<&Cache> {
        self.cache.as_deref()
    }

    /// Returns the bytes of many pieces, in their order.
    pub(crate) fn get_many(&self, wanted: &[Stored]) -> Vec<Result<Bytes>> {
        self.get_many_by(self.most_requests(), wanted)
    }

    /// As [`get_many`](Self::get_many), with so many requests under way at the same time at most.
    pub(crate) fn get_many_by(&self, requests: usize, wanted: &[Stored]) -> Vec<Result<Bytes>> {
        self.get(wanted, Kind::Piece, requests)
    }

    /// Returns the bytes of many pages, in their order.
    pub(crate) fn get_pages(&self, wanted: &[Stored]) -> Vec<Result<Bytes>> {
        self.get(wanted, Kind::Page, self.most_requests())
    }

    fn get(&self, wanted: &[Stored], kind: Kind, requests: usize) -> Vec<Result<Bytes>> {
        let (found, own) = self.begin(wanted, kind);
        self.fetch(own, requests);
        let wait = |found| match found {
            Found::Here(bytes) => Ok(bytes),
            Found::Flying(flight) => flight.wait(),
        };
        found.into_iter().map(wait).collect()
    }

    /// Finds what is in memory, joins the fetches that are under way, and begins the others.
    fn begin(&self, wanted: &[Stored], kind: Kind) -> (Vec<Found>, Vec<Own<'_>>) {
        let mut own = Vec::new();
        let mut state = self.state.lock();
        let found = wanted.iter().map(|stored| {
            let key = key(stored);
            if let Some(bytes) = state.memory.get(&key) {
                return Found::Here(bytes);
            }
            Found::Flying(match state.flights.entry(key) {
                hash_map::Entry::Occupied(flight) => Arc::clone(flight.get()),
                hash_map::Entry::Vacant(slot) => {
                    let flight = Arc::clone(slot.insert(Arc::default()));
                    let mine = Arc::clone(&flight);
                    own.push(Own { fetcher: self, stored: *stored, kind, flight: mine, is_done: false });
                    flight
                }
            })
        });
        let found = found.collect();
        drop(state);
        (found, own)
    }

    /// True where the cache has a piece or a frame, as far as its length tells: it is verified when it is
    /// read.
    pub(crate) fn is_cached(&self, stored: &Stored) -> bool {
        self.cache().and_then(|cache| cache.len(&stored.name())) == Some(stored.bytes.into())
    }

    /// True where a piece or a frame is near: in memory, under way or in the cache.
    pub(crate) fn is_near(&self, stored: &Stored) -> bool {
        let (state, key) = (self.state.lock(), key(stored));
        let is_here = state.memory.has(&key) || state.flights.contains_key(&key);
        drop(state);
        is_here || self.is_cached(stored)
    }

    fn fetch(&self, own: Vec<Own<'_>>, requests: usize) {
        let missing = threads::map(threads::processors(), own, |own| match self.near(&own.stored) {
            Some(bytes) => {
                own.finish(Ok(bytes));
                None
            }
            None => Some(own),
        });
        let gap = self.pace.gap_bytes(requests);
        let joined = join(missing.into_iter().flatten().collect(), gap, |own: &Own<'_>| &own.stored);
        threads::for_each(requests, joined.into_iter(), |request| self.request(request));
    }

    /// Returns bytes that were fetched ahead or are in the cache.
    fn near(&self, stored: &Stored) -> Option<Bytes> {
        let name = stored.name();
        let ahead = self.state.lock().ahead.remove(&name);
        if let Some(bytes) = ahead
            && let Ok(raw) = self.accept(stored, bytes.bytes())
        {
            return Some(raw);
        }
        let cache = self.cache.as_ref()?;
        let bytes = cache.get(&name)?;
        if piece::verify(stored, &bytes).is_err() {
            cache.remove(&name);
            return None;
        }
        self.cached.fetch_add(1, Ordering::Relaxed);
        self.cached_bytes.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        piece::unpack(stored, &bytes, &self.buffers).ok().map(Arc::new)
    }

    /// Verifies bytes of the store, keeps them in the cache, and decompresses them.
    fn accept(&self, stored: &Stored, bytes: &[u8]) -> std::result::Result<Bytes, Bad> {
        piece::verify(stored, bytes)?;
        if let Some(cache) = self.cache.as_ref().filter(|_| self.fills_cache) {
            cache.put(&stored.name(), bytes);
        }
        piece::unpack(stored, bytes, &self.buffers).map(Arc::new)
    }

    /// Reads neighbours from the store. Where some of the bytes are wrong, these are read again, alone: a
    /// store or a way to it that gave wrong bytes once may give the right ones now.
    fn request(&self, own: Vec<Own<'_>>) {
        let wanted: Vec<Stored> = own.iter().map(|own| own.stored).collect();
        let _admitted = self.in_flight.admit(span(&wanted).map_or(0, |(from, to)| to - from));
        own.into_iter().zip(self.read_together(&wanted)).for_each(|(own, outcome)| own.finish(outcome));
    }

    /// Reads neighbours by one request. Each one is verified and decompressed when it is asked for.
    fn read_together<'w>(&'w self, wanted: &'w [Stored]) -> impl Iterator<Item = Result<Bytes>> + 'w {
        let read = self.read_range(wanted);
        wanted.iter().map(move |stored| {
            self.check_codec(stored)?;
            let (from, bytes) = read.as_ref().map_err(Error::clone)?;
            let start = (u64::from(stored.offset) - from) as usize;
            let part = bytes.get(start..bytes.len().min(start + stored.bytes as usize));
            self.accept(stored, part.unwrap_or_default()).or_else(|_| self.again(stored))
        })
    }

    fn read_range(&self, wanted: &[Stored]) -> Result<(u64, Vec<u8>)> {
        let Some((first, (from, to))) = wanted.first().zip(span(wanted)) else { return Ok((0, Vec::new())) };
        Ok((from, self.read(&first.pack, from, to - from)?))
    }

    fn check_codec(&self, stored: &Stored) -> Result<()> {
        if piece::is_known(stored.codec) {
            return Ok(());
        }
        let object = self.objects.shown(&stored.pack.object());
        Err(Error::Codec { object, offset: stored.offset.into(), codec: stored.codec })
    }

    /// Reads pieces from the store, each one from its own pack and offset, whatever memory and cache have,
    /// verifies them, and calls `check` with their content. Keeps none of them. The results come in another
    /// order.
    pub(crate) fn check_many(
        &self,
        wanted: Vec<Stored>,
        check: impl Fn(&Stored, &Buffer) -> std::result::Result<(), Bad> + Sync,
    ) -> Vec<(Stored, Result<()>)> {
        let joined = join(wanted, self.pace.gap_bytes(CHECKS), |stored| stored);
        let checked = threads::map(CHECKS, joined, |request| {
            let read = self.read_together(&request).zip(&request);
            let check = |(read, stored): (Result<Bytes>, &Stored)| {
                let piece = read?;
                check(stored, &piece).map_err(|why| self.damaged_at(stored, why))
            };
            let outcomes: Vec<Result<()>> = read.map(check).collect();
            request.into_iter().zip(outcomes).collect::<Vec<_>>()
        });
        checked.into_iter().flatten().collect()
    }

    /// The error for bytes of a pack that contradict the reference to them.
    pub(crate) fn damaged_at(&self, stored: &Stored, why: Bad) -> Error {
        Error::Damaged {
            object: self.objects.shown(&stored.pack.object()),
            offset: Some(stored.offset.into()),
            why: why.into(),
        }
    }

    /// Reads bytes of a pack, and counts them.
    fn read(&self, pack: &PackRef, offset: u64, bytes: u64) -> Result<Vec<u8>> {
        let read = self.pace.measure(|| self.objects.read_pack(pack, offset, bytes))?;
        self.requests.fetch_add(1, Ordering::Relaxed);
        self.bytes.fetch_add(read.len() as u64, Ordering::Relaxed);
        Ok(read)
    }

    fn again(&self, stored: &Stored) -> Result<Bytes> {
        let bytes = self.read(&stored.pack, stored.offset.into(), stored.bytes.into())?;
        self.accept(stored, &bytes).map_err(|why| self.damaged_at(stored, why))
    }

    /// Reads a range of a pack ahead, for [`keep_ahead`](Self::keep_ahead).
    pub(crate) fn read_ahead(&self, pack: &PackRef, offset: u64, bytes: u64) -> Option<Vec<u8>> {
        let _admitted = self.in_flight.admit(bytes);
        self.read(pack, offset, bytes).ok()
    }

    /// Keeps stored bytes that were read ahead, until they are first needed. The caller has verified that
    /// they have this hash.
    pub(crate) fn keep_ahead(&self, hash: Hash, part: SharedBytes) {
        self.state.lock().ahead.insert(hash, part);
    }
}

#[cfg(test)]
impl Fetcher {
    /// Takes bytes that were kept ahead.
    pub(crate) fn take_ahead(&self, hash: &Hash) -> Option<Vec<u8>> {
        self.state.lock().ahead.remove(hash).map(|part| part.bytes().to_vec())
    }

    /// Number of the others.
    pub(crate) fn count_ahead(&self) -> usize {
        self.state.lock().ahead.len()
    }
}

/// The bytes of a pack from the first to the last of some, which are sorted by their offsets.
fn span(wanted: &[Stored]) -> Option<(u64, u64)> {
    Some((u64::from(wanted.first()?.offset), wanted.iter().map(end).max()?))
}

fn end(stored: &Stored) -> u64 {
    u64::from(stored.offset) + u64::from(stored.bytes)
}

/// Groups fetches into requests: neighbours in a pack with a gap of so many bytes at most are read together.
fn join<T>(mut wanted: Vec<T>, gap: u64, stored: impl Fn(&T) -> &Stored) -> Vec<Vec<T>> {
    wanted.sort_unstable_by_key(|one| (stored(one).pack.name, stored(one).offset));
    let mut requests: Vec<Vec<T>> = Vec::new();
    for next in wanted {
        let follows = |request: &[T]| match (request.first(), request.last()) {
            (Some(first), Some(last)) => follows(stored(first), stored(last), stored(&next), gap),
            _ => false,
        };
        match requests.last_mut() {
            Some(request) if follows(request) => request.push(next),
            _ => requests.push(vec![next]),
        }
    }
    requests
}

fn follows(first: &Stored, last: &Stored, next: &Stored, gap: u64) -> bool {
    last.pack == next.pack
        && u64::from(next.offset) <= end(last) + gap
        && end(next).saturating_sub(first.offset.into()) <= REQUEST_BYTES
}
