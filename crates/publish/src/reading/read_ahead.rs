//! Reading ahead: who reads data in the order of its positions finds the next windows here.
//!
//! Requests that continue one another are a stream. After its second request, or a large first one, a stream
//! is read ahead of, twice as far with each further one, up to a bound; the next part is fetched when half of
//! the last one is used, so that the store works while its reader does. Linux reads files ahead in this way.

use super::fetch::Fetcher;
use super::manifest::Manifest;
use crate::format::layout::WINDOW_BYTES;
use crate::format::packs::Stored;
use lanefs_sync::lock::Mutex;
use std::ops::Range;
use std::sync::Arc;

/// Streams that are known at the same time.
const STREAMS: usize = 8;
/// Windows between two requests of a stream at most.
const GAP: u64 = 2;
/// Runs of windows in one request at most: one with more is not part of a stream.
const RUNS: usize = 4;
/// Windows that are read ahead first.
const FIRST: u64 = 4;
/// A part of the memory for pieces that all parts under way may take.
const SHARE: u64 = 4;

/// Finds streams, and fetches what comes next in them.
pub(crate) struct ReadAhead {
    streams: Mutex<Streams>,
    /// Windows that are being fetched, also by others that share the memory.
    under_way: Arc<Mutex<u64>>,
    /// Windows that may be fetched at the same time, and that a stream is read ahead of at most.
    most: u64,
}

/// The streams, the one that was used last at the end.
#[derive(Default)]
struct Streams(Vec<Stream>);

/// Requests that continue one another.
struct Stream {
    /// The window after the last one that was asked for.
    next: u64,
    /// The window after the last one that was read ahead.
    ahead: u64,
    /// Windows of the last part.
    size: u64,
}

impl Streams {
    /// Notes a request for windows, and returns those that are read ahead now: `room` at most, and up to
    /// `most` beyond the request. The next request has the others.
    fn note(&mut self, asked: &Range<u64>, most: u64, room: u64) -> Option<Range<u64>> {
        let continues = |stream: &Stream| {
            (stream.next.saturating_sub(GAP + 1)..=stream.next + GAP).contains(&asked.start)
        };
        let found = self.0.iter().position(continues);
        let mut stream = match found {
            Some(found) => self.0.remove(found),
            None => Stream { next: asked.end, ahead: 0, size: 0 },
        };
        stream.next = stream.next.max(asked.end);
        let is_large = asked.end - asked.start >= FIRST;
        let is_due = (found.is_some() || is_large) && stream.ahead < stream.next + stream.size.div_ceil(2);
        let part = is_due.then(|| {
            stream.size = (stream.size * 2).max(asked.end - asked.start).clamp(FIRST, most);
            let first = stream.ahead.max(stream.next);
            let part = first..(stream.next + stream.size).min(first + room);
            stream.ahead = part.end;
            part
        });
        if self.0.len() == STREAMS {
            self.0.remove(0);
        }
        self.0.push(stream);
        part.filter(|part| !part.is_empty())
    }
}

impl ReadAhead {
    /// Reads ahead for a fetcher that keeps so many bytes of pieces.
    pub(crate) fn new(memory: u64) -> Self {
        ReadAhead {
            streams: Mutex::default(),
            under_way: Arc::default(),
            most: memory / SHARE / WINDOW_BYTES,
        }
    }

    /// Reads another volume ahead, and shares the memory with this one.
    pub(crate) fn beside(&self) -> Self {
        ReadAhead { streams: Mutex::default(), under_way: Arc::clone(&self.under_way), most: self.most }
    }

    /// Notes that windows of data were asked for together, and fetches what comes next, in threads of its
    /// own. Pieces that cannot be fetched are fetched again by who needs them.
    pub(crate) fn note(
        self: &Arc<Self>,
        windows: impl Iterator<Item = u64>,
        fetcher: &Arc<Fetcher>,
        manifest: &Arc<Manifest>,
    ) {
        if self.most < FIRST {
            return;
        }
        for asked in runs(windows.collect()) {
            let mut streams = self.streams.lock();
            // Only this adds to the number, under its lock, so the room is there.
            let mut under_way = self.under_way.lock();
            let room = self.most.saturating_sub(*under_way);
            let Some(part) = streams.note(&asked, self.most, room) else { continue };
            *under_way += part.end - part.start;
            drop(under_way);
            drop(streams);
            self.begin(part, fetcher, manifest);
        }
    }

    /// Fetches windows that are counted as under way.
    fn begin(self: &Arc<Self>, part: Range<u64>, fetcher: &Arc<Fetcher>, manifest: &Arc<Manifest>) {
        let place = Place { ahead: Arc::clone(self), count: part.end - part.start };
        if part.start * WINDOW_BYTES >= manifest.root.facts.volume_bytes {
            return;
        }
        let (fetcher, manifest) = (Arc::clone(fetcher), Arc::clone(manifest));
        let fetch = move || {
            let _place = place;
            fetch(&fetcher, &manifest, part);
        };
        // Without a thread nothing is read ahead.
        let _ = std::thread::Builder::new().name("read ahead".into()).spawn(fetch);
    }
}

/// Joins windows to runs with small gaps; none where they lie here and there.
fn runs(mut windows: Vec<u64>) -> Vec<Range<u64>> {
    windows.sort_unstable();
    let mut runs: Vec<Range<u64>> = Vec::new();
    for window in windows {
        match runs.last_mut().filter(|run| window <= run.end + GAP) {
            Some(run) => run.end = run.end.max(window + 1),
            None => runs.push(window..window + 1),
        }
    }
    runs.truncate(if runs.len() > RUNS { 0 } else { RUNS });
    runs
}

/// Windows that count as under way until this is dropped.
struct Place {
    ahead: Arc<ReadAhead>,
    count: u64,
}

impl Drop for Place {
    fn drop(&mut self) {
        *self.ahead.under_way.lock() -= self.count;
    }
}

/// Fetches the data of some windows; their metadata is for who asks for it.
fn fetch(fetcher: &Fetcher, manifest: &Manifest, windows: Range<u64>) {
    let pieces = windows.filter_map(|window| manifest.pieces(fetcher, window).ok()).flatten();
    let mut wanted: Vec<Stored> = Vec::new();
    for piece in pieces.filter(|piece| !piece.is_metadata) {
        if !wanted.contains(&piece.stored) {
            wanted.push(piece.stored);
        }
    }
    fetcher.get_many(&wanted);
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOST: u64 = 64;

    /// The parts that some requests of a window each cause.
    fn parts(windows: impl IntoIterator<Item = u64>) -> Vec<Range<u64>> {
        let mut streams = Streams::default();
        windows.into_iter().filter_map(|window| streams.note(&(window..window + 1), MOST, MOST)).collect()
    }

    #[test]
    fn a_stream_is_read_ahead_of_farther_and_farther_and_each_window_once() {
        let parts = parts(0..1000);
        let sizes: Vec<u64> = parts.iter().map(|part| part.end - part.start).collect();
        assert_eq!(parts[0], 2..6);
        assert!(parts.windows(2).all(|two| two[0].end == two[1].start), "{parts:?}");
        assert!(sizes.iter().max() <= Some(&MOST) && sizes.len() < 50, "{sizes:?}");
        assert!(parts.last().is_some_and(|part| part.end >= 1000));
    }

    #[test]
    fn windows_here_and_there_are_no_stream() {
        assert_eq!(parts((0..100).map(|number| number * 7919 % 1000)), []);
        assert_eq!(parts((0..100).map(|number| number * 4)), []);
    }

    #[test]
    fn windows_that_are_asked_for_together_are_joined() {
        assert_eq!(runs(vec![7, 1, 2, 2, 5, 40]), [1..8, 40..41]);
        assert_eq!(runs((0..9).map(|number| number * 9).collect()), []);
    }

    #[test]
    fn a_large_request_is_read_ahead_of_at_once_as_far_as_it_is_long() {
        let mut streams = Streams::default();
        assert_eq!(streams.note(&(10..20), MOST, MOST), Some(20..30));
        assert_eq!(streams.note(&(100..103), MOST, MOST), None);
        assert_eq!(streams.note(&(1000..2000), MOST, MOST), Some(2000..2064));
    }

    #[test]
    fn two_streams_that_take_turns_are_both_read_ahead_of() {
        let parts = parts((0..50).flat_map(|number| [number, 5000 + number]));
        assert!(parts.iter().any(|part| part.start < 100) && parts.iter().any(|part| part.start >= 5000));
    }

    #[test]
    fn a_request_for_what_was_read_ahead_already_begins_nothing() {
        let mut streams = Streams::default();
        assert_eq!(streams.note(&(0..1), MOST, MOST), None);
        assert_eq!(streams.note(&(0..1), MOST, MOST), Some(1..5));
        assert_eq!(streams.note(&(0..2), MOST, MOST), None);
        // Threads that share a stream come in any order.
        assert_eq!(streams.note(&(3..4), MOST, MOST), Some(5..12));
        assert_eq!(streams.note(&(2..3), MOST, MOST), None);
    }

    #[test]
    fn volumes_that_share_memory_share_the_room() {
        let one = ReadAhead::new(64 << 20);
        let other = one.beside();
        *one.under_way.lock() += 5;
        assert_eq!((*other.under_way.lock(), other.most), (5, one.most));
    }

    #[test]
    fn a_part_for_which_there_is_no_room_is_read_ahead_later() {
        let mut streams = Streams::default();
        assert_eq!(streams.note(&(0..8), MOST, 0), None);
        assert_eq!(streams.note(&(8..9), MOST, 3), Some(9..12));
        assert_eq!(streams.note(&(9..10), MOST, MOST), Some(12..42));
    }

    #[test]
    fn streams_that_are_used_no_more_are_forgotten() {
        let mut streams = Streams::default();
        for number in 0..100 {
            streams.note(&(number * 100..number * 100 + 1), MOST, MOST);
        }
        assert_eq!(streams.0.len(), STREAMS);
    }
}
