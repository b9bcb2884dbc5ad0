//! Readahead: a thread that reads block after block finds the next blocks in memory.
//!
//! A read that begins where the last one of its stream ended is sequential. The distance that is read ahead
//! doubles with each such read. It is divided into windows, several of which are in flight; when the reader
//! reaches the first block of a window, more are requested. So the device always has requests.

use crate::vocabulary::range::{AheadRange, BlockRange};
use lanefs_sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::Sender;

/// Ranges of neighbours that wait for the helper at most: windows of readers, and a close, wait for them.
const NEIGHBOURS_WAITING: u64 = 16;

/// Number of streams that are followed at a time.
const STREAMS: usize = 32;

/// First and largest distance in blocks: 128 KiB and 8 MiB.
const DISTANCE: (u64, u64) = (32, 2048);

/// Blocks of one window: 1 MiB.
const WINDOW_BLOCKS: u64 = 256;

#[derive(Clone, Copy, Default)]
struct Stream {
    /// Last block at which the reader was seen.
    last: u64,
    /// First block of the next window.
    next: u64,
    /// End of the blocks that belong together.
    end: u64,
    /// Blocks that are read ahead; 0 for an unused stream.
    distance: u64,
    /// First block of the oldest window that the reader has not reached.
    marker: u64,
}

#[derive(Default)]
struct Streams {
    list: [Stream; STREAMS],
    oldest: usize,
}

/// The streams of a volume, and the helper that reads ahead.
#[derive(Default)]
pub(crate) struct ReadAhead {
    streams: Mutex<Streams>,
    helper: Mutex<Helper>,
    /// Ranges of neighbours that wait for the helper.
    waiting: AtomicU64,
}

/// The helper thread that reads ahead.
#[derive(Default)]
enum Helper {
    #[default]
    None,
    /// Not started: there was nothing to read yet.
    Waiting(Box<dyn FnOnce() -> Sender<AheadRange> + Send>),
    Started(Sender<AheadRange>),
}

/// Ranges to read for a miss.
pub(crate) struct Plan {
    /// The range that the reader waits for.
    pub(crate) now: BlockRange,
    /// The ranges that follow, for the helper.
    pub(crate) later: Vec<AheadRange>,
}

impl ReadAhead {
    /// Plans the reads for a miss at block `at`: the caller needs `need` blocks, and `extent` blocks belong
    /// together.
    pub(crate) fn plan(&self, at: u64, need: u32, extent: u32) -> Plan {
        let now = BlockRange { first: at, count: need };
        let mut streams = self.streams.lock();
        // The read continues a stream after the reader's last block, up to the end of the windows that were
        // requested.
        let known = streams.list.iter().position(|s| s.distance > 0 && s.last < at && at <= s.next);
        let Some(known) = known else {
            // The first read of a stream reads only the needed blocks.
            let oldest = streams.oldest;
            streams.oldest = (oldest + 1) % STREAMS;
            let next = at + u64::from(need);
            let distance = DISTANCE.0.max(2 * u64::from(need)).min(DISTANCE.1);
            streams.list[oldest] =
                Stream { last: at, next, end: at + u64::from(extent), distance, marker: u64::MAX };
            return Plan { now, later: Vec::new() };
        };
        let stream = &mut streams.list[known];
        stream.end = stream.end.max(at + u64::from(extent));
        stream.next = stream.next.max(at + u64::from(need));
        // Until the reader reaches the last requested window, enough reads are in flight.
        let is_due = stream.marker == u64::MAX || at >= stream.marker;
        stream.last = at;
        let later = if is_due { stream.advance(at) } else { Vec::new() };
        Plan { now, later }
    }

    /// Reports that the reader has reached a marked block.
    pub(crate) fn reached(&self, block: u64) {
        let later = {
            let mut streams = self.streams.lock();
            let stream = streams.list.iter_mut().find(|s| s.distance > 0 && s.marker == block);
            stream.map_or(Vec::new(), |stream| {
                stream.last = block;
                stream.advance(block)
            })
        };
        self.request(later);
    }

    /// Has the helper read ranges, and starts it where it waits.
    pub(crate) fn request(&self, ranges: Vec<AheadRange>) {
        if ranges.is_empty() {
            return;
        }
        let mut helper = self.helper.lock();
        *helper = match std::mem::take(&mut *helper) {
            Helper::Waiting(start) => Helper::Started(start()),
            helper => helper,
        };
        if let Helper::Started(helper) = &*helper {
            for range in ranges {
                let is_neighbour = matches!(range, AheadRange::Neighbours(_));
                if is_neighbour && self.waiting.fetch_add(1, Ordering::Relaxed) >= NEIGHBOURS_WAITING {
                    self.took_neighbours();
                } else {
                    let _ = helper.send(range);
                }
            }
        }
    }

    /// Counts a range of neighbours that waits no longer.
    pub(crate) fn took_neighbours(&self) {
        let less = |waiting: u64| waiting.checked_sub(1);
        let _ = self.waiting.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
    }

    /// Sets the function that starts the helper; it is called when there is something to read.
    pub(crate) fn set_helper(&self, start: impl FnOnce() -> Sender<AheadRange> + Send + 'static) {
        *self.helper.lock() = Helper::Waiting(Box::new(start));
    }

    /// Drops the helper's sender, which ends the helper.
    pub(crate) fn drop_helper(&self) {
        *self.helper.lock() = Helper::None;
    }

    /// Returns the blocks whose first use is to be reported.
    pub(crate) fn markers(&self) -> [u64; STREAMS] {
        self.streams.lock().list.map(|stream| if stream.distance > 0 { stream.marker } else { u64::MAX })
    }
}

impl Stream {
    /// Returns the windows to read now that the reader is at block `at`.
    fn advance(&mut self, at: u64) -> Vec<AheadRange> {
        debug_assert!(self.distance > 0, "an unused stream");
        let mut ranges = Vec::new();
        let far = (at + self.distance).min(self.end);
        self.marker = self.next;
        while self.next < far {
            let count = WINDOW_BLOCKS.min(self.end - self.next);
            ranges.push(BlockRange { first: self.next, count: count as u32 });
            self.next += count;
        }
        debug_assert!(ranges.is_sorted_by(|a, b| a.first + u64::from(a.count) == b.first));
        if ranges.is_empty() {
            self.marker = u64::MAX;
        }
        self.distance = (self.distance * 2).min(DISTANCE.1);
        ranges.into_iter().map(AheadRange::Stream).collect()
    }
}
