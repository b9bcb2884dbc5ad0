//! Reading ahead: who reads block after block finds the next ones here.
//!
//! A read that begins where the last one of its stream ended is sequential. How far is read ahead doubles each time; it is done in
//! windows, several of which are under way, and each time the reader comes to the start of one, more are asked for. So the
//! device always has something to do.

use crate::Store;
use lanefs_sync::Mutex;
use std::sync::mpsc::Sender;

/// Streams that are followed at a time.
const STREAMS: usize = 32;

/// How far is read ahead in blocks, at first and at most: 128 KiB and 8 MiB.
const DISTANCE: (u64, u64) = (32, 2048);

/// What one request reads, in blocks: 1 MiB.
const WINDOW: u64 = 256;

/// A run of blocks to be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// Number of the first block.
    pub first: u64,
    /// How many.
    pub count: u32,
}

#[derive(Clone, Copy, Default)]
struct Stream {
    /// Where the reader was last seen.
    last: u64,
    /// Where the next window begins, and where what belongs together ends.
    next: u64,
    end: u64,
    /// How far is read ahead; 0 for no stream.
    distance: u64,
    /// First block of the oldest window that the reader has not come to.
    marker: u64,
}

#[derive(Default)]
struct Streams {
    list: [Stream; STREAMS],
    oldest: usize,
}

/// What is being read in order, and who reads ahead.
#[derive(Default)]
pub(crate) struct ReadAhead {
    streams: Mutex<Streams>,
    helper: Mutex<Helper>,
}

/// Who reads ahead.
#[derive(Default)]
enum Helper {
    #[default]
    Nobody,
    /// To be started when there is something to read.
    Waiting(Box<dyn FnOnce() -> Sender<Run> + Send>),
    At(Sender<Run>),
}

/// What to read for a miss.
pub(crate) struct Plan {
    /// What the reader waits for, and what comes along.
    pub(crate) now: Run,
    /// What follows, to be read meanwhile.
    pub(crate) later: Vec<Run>,
}

impl ReadAhead {
    /// What to do about a miss at block `at`, of which `need` blocks are wanted and `extent` belong together.
    pub(crate) fn plan(&self, at: u64, need: u32, extent: u32) -> Plan {
        let mut streams = self.streams.lock();
        // Behind where its reader was, and not behind what was asked for.
        let known = streams.list.iter().position(|s| s.distance > 0 && s.last < at && at <= s.next);
        let Some(known) = known else {
            // The first read of a stream: only what is wanted.
            let oldest = streams.oldest;
            streams.oldest = (oldest + 1) % STREAMS;
            let next = at + u64::from(need);
            let distance = DISTANCE.0.max(2 * u64::from(need)).min(DISTANCE.1);
            streams.list[oldest] =
                Stream { last: at, next, end: at + u64::from(extent), distance, marker: u64::MAX };
            return Plan { now: Run { first: at, count: need }, later: Vec::new() };
        };
        let stream = &mut streams.list[known];
        stream.end = stream.end.max(at + u64::from(extent));
        stream.next = stream.next.max(at + u64::from(need));
        // As long as it has not come to the last window that was asked for, enough is under way.
        let is_due = stream.marker == u64::MAX || at >= stream.marker;
        stream.last = at;
        let later = if is_due { stream.advance(at) } else { Vec::new() };
        Plan { now: Run { first: at, count: need }, later }
    }

    /// The reader has come to a marked block.
    pub(crate) fn reached(&self, block: u64) {
        let later = {
            let mut streams = self.streams.lock();
            let stream = streams.list.iter_mut().find(|s| s.distance > 0 && s.marker == block);
            stream.map_or(Vec::new(), |stream| {
                stream.last = block;
                stream.advance(block)
            })
        };
        self.ask(later);
    }

    /// Has runs read by somebody else.
    pub(crate) fn ask(&self, runs: Vec<Run>) {
        if runs.is_empty() {
            return;
        }
        let mut helper = self.helper.lock();
        *helper = match std::mem::take(&mut *helper) {
            Helper::Waiting(start) => Helper::At(start()),
            helper => helper,
        };
        if let Helper::At(helper) = &*helper {
            for run in runs {
                let _ = helper.send(run);
            }
        }
    }

    /// Blocks whose first use is to be reported.
    pub(crate) fn markers(&self) -> [u64; STREAMS] {
        self.streams.lock().list.map(|stream| if stream.distance > 0 { stream.marker } else { u64::MAX })
    }
}

impl Store {
    /// Who is sent what to [read ahead](Self::read_ahead); `start` is called when there is something.
    pub fn read_ahead_by(&self, start: impl FnOnce() -> Sender<Run> + Send + 'static) {
        *self.ahead.helper.lock() = Helper::Waiting(Box::new(start));
    }

    /// Nothing more is read ahead; the helper finds nobody to send it runs.
    pub fn stop_reading_ahead(&self) {
        *self.ahead.helper.lock() = Helper::Nobody;
    }
}

impl Stream {
    /// The reader is at block `at`: windows to be read now.
    fn advance(&mut self, at: u64) -> Vec<Run> {
        let mut runs = Vec::new();
        let far = (at + self.distance).min(self.end);
        self.marker = self.next;
        while self.next < far {
            let count = WINDOW.min(self.end - self.next);
            runs.push(Run { first: self.next, count: count as u32 });
            self.next += count;
        }
        debug_assert!(runs.is_sorted_by(|a, b| a.first + u64::from(a.count) == b.first));
        if runs.is_empty() {
            self.marker = u64::MAX;
        }
        debug_assert!(self.distance > 0, "a stream that is followed");
        self.distance = (self.distance * 2).min(DISTANCE.1);
        runs
    }
}
