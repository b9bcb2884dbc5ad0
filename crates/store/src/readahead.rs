//! Reading ahead: who reads block after block finds the next ones here.
//!
//! A read that begins where the last one of its stream ended is sequential. Its window doubles each time, and the next window is
//! asked for when the reader comes to the start of the present one, so that the device works while the reader does.

use crate::Store;
use crate::sync::Mutex;
use std::sync::mpsc::Sender;

/// Streams that are followed at a time.
const STREAMS: usize = 32;

/// First and largest window, in blocks: 64 KiB and 2 MiB.
const WINDOW: (u32, u32) = (16, 512);

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
    /// Where it goes on, and where what belongs to it ends.
    next: u64,
    end: u64,
    window: u32,
    /// First block of the window that was asked for last.
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
    pub(crate) later: Option<Run>,
}

impl ReadAhead {
    /// What to do about a miss at block `at`, of which `need` blocks are wanted and `extent` belong together.
    pub(crate) fn plan(&self, at: u64, need: u32, extent: u32) -> Plan {
        let mut streams = self.streams.lock();
        let known = streams.list.iter().position(|s| s.window > 0 && (s.next == at || s.marker == at));
        let Some(known) = known else {
            // The first read of a stream: only what is wanted.
            let oldest = streams.oldest;
            streams.oldest = (oldest + 1) % STREAMS;
            let next = at + u64::from(need);
            streams.list[oldest] =
                Stream { next, end: at + u64::from(extent), window: WINDOW.0, marker: u64::MAX };
            return Plan { now: Run { first: at, count: need }, later: None };
        };
        let stream = &mut streams.list[known];
        stream.end = stream.end.max(at + u64::from(extent));
        let now = Run { first: at, count: need.max(stream.window).min(extent) };
        stream.next = at + u64::from(now.count);
        let later = stream.advance();
        Plan { now, later }
    }

    /// The reader has come to a marked block.
    pub(crate) fn reached(&self, block: u64) {
        let later = {
            let mut streams = self.streams.lock();
            let stream = streams.list.iter_mut().find(|stream| stream.window > 0 && stream.marker == block);
            stream.and_then(Stream::advance)
        };
        self.ask(later);
    }

    /// Has a run read by somebody else.
    pub(crate) fn ask(&self, run: Option<Run>) {
        let Some(run) = run else { return };
        let mut helper = self.helper.lock();
        *helper = match std::mem::take(&mut *helper) {
            Helper::Waiting(start) => Helper::At(start()),
            helper => helper,
        };
        if let Helper::At(helper) = &*helper {
            let _ = helper.send(run);
        }
    }

    /// Blocks whose first use is to be reported.
    pub(crate) fn markers(&self) -> [u64; STREAMS] {
        self.streams.lock().list.map(|stream| if stream.window > 0 { stream.marker } else { u64::MAX })
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
    /// The next window.
    fn advance(&mut self) -> Option<Run> {
        self.window = (self.window * 2).min(WINDOW.1);
        let count = (self.end.saturating_sub(self.next)).min(u64::from(self.window)) as u32;
        if count == 0 {
            self.marker = u64::MAX;
            return None;
        }
        let run = Run { first: self.next, count };
        (self.marker, self.next) = (run.first, self.next + u64::from(count));
        Some(run)
    }
}
