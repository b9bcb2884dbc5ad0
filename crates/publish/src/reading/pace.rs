//! The pace of a store: latency, bandwidth, and the time that each of many requests takes, as the requests so
//! far show them. The last one bounds a batch where the store, or this machine, has no more to give: then
//! fewer requests are worth bytes that nobody needs.
//!
//! A call that needs many bytes of many objects decides by it what a request should have: bytes that nobody
//! needs, or another request.

use lanefs_sync::lock::Mutex;
use std::time::{Duration, Instant};

/// The pace before anything is measured: that of a store in the same part of the world, over 1 Gbit/s.
const FIRST_LATENCY_SECONDS: f64 = 0.03;
const FIRST_BYTES_PER_SECOND: f64 = 125e6;
/// A store answers some thousands of requests in a second.
const FIRST_REQUEST_SECONDS: f64 = 200e-6;
/// Bounds of the first two.
const LATENCY_SECONDS: (f64, f64) = (50e-6, 2.0);
const BYTES_PER_SECOND: (f64, f64) = (100e3, 10e9);
/// Most bytes of a request that measures the latency, and the number of those of which the fastest counts.
const SMALL_BYTES: u64 = 64 << 10;
const SMALL_REQUESTS: u32 = 64;
/// Requests in a row that measure what each of many takes, with so many others under way at their end. They
/// have so few bytes together that the bandwidth does not bound them: 4 KiB each.
const ROW_REQUESTS: u32 = 64;
const ROW_UNDER_WAY: u32 = 8;
const ROW_BYTES: u64 = 256 << 10;
/// Fewest bytes that measure the bandwidth.
const LARGE_BYTES: u64 = 1 << 20;
/// Bounds of a gap between two parts of an object that are read by one request.
const GAP_BYTES: (f64, f64) = (16384.0, 262_144.0);

/// The pace of a store as far as it is known.
#[derive(Default)]
pub(crate) struct Pace(Mutex<Measured>);

struct Measured {
    /// It stays as it was given.
    is_given: bool,
    latency_seconds: f64,
    bytes_per_second: f64,
    /// The fastest of the last small requests, and their number.
    fastest_seconds: f64,
    small_requests: u32,
    /// Time that a request takes where many are under way, beside that of its bytes.
    request_seconds: f64,
    /// The time at which the present row of requests began, and their number and bytes since.
    row_since: Option<Instant>,
    row_requests: u32,
    row_bytes: u64,
    under_way: u32,
    /// The time at which the first of the requests under way began, and the requests and bytes since.
    busy_since: Option<Instant>,
    busy_requests: u32,
    busy_bytes: u64,
}

impl Default for Measured {
    fn default() -> Self {
        Measured {
            is_given: false,
            latency_seconds: FIRST_LATENCY_SECONDS,
            bytes_per_second: FIRST_BYTES_PER_SECOND,
            fastest_seconds: f64::INFINITY,
            small_requests: 0,
            request_seconds: FIRST_REQUEST_SECONDS,
            row_since: None,
            row_requests: 0,
            row_bytes: 0,
            under_way: 0,
            busy_since: None,
            busy_requests: 0,
            busy_bytes: 0,
        }
    }
}

impl Measured {
    /// Notes the time of a request.
    fn note_request(&mut self, bytes: u64, took: Duration) {
        if self.is_given || bytes > SMALL_BYTES {
            return;
        }
        let seconds = took.as_secs_f64().clamp(LATENCY_SECONDS.0, LATENCY_SECONDS.1);
        self.fastest_seconds = self.fastest_seconds.min(seconds);
        self.small_requests += 1;
        // A faster one counts at once, slower ones when all of the last ones were slower.
        self.latency_seconds = self.latency_seconds.min(seconds);
        if self.small_requests == SMALL_REQUESTS {
            self.latency_seconds = self.fastest_seconds;
            (self.fastest_seconds, self.small_requests) = (f64::INFINITY, 0);
        }
    }

    /// Counts a request that has ended. The row is measured at its last one.
    fn count_in_row(&mut self, bytes: u64, now: Instant) {
        let Some(since) = self.row_since else {
            // The time before the first end is the latency.
            (self.row_since, self.row_requests, self.row_bytes) = (Some(now), 0, 0);
            return;
        };
        self.row_requests += 1;
        self.row_bytes += bytes;
        if self.row_requests == ROW_REQUESTS {
            if self.under_way >= ROW_UNDER_WAY {
                self.note_row(self.row_bytes, now - since);
            }
            (self.row_since, self.row_requests, self.row_bytes) = (Some(now), 0, 0);
        }
    }

    /// Notes the time in which a row of requests ended, one after the other.
    fn note_row(&mut self, bytes: u64, took: Duration) {
        if self.is_given || bytes > ROW_BYTES {
            return;
        }
        let one = (took.as_secs_f64() / f64::from(ROW_REQUESTS)).min(self.latency_seconds);
        self.request_seconds = f64::midpoint(self.request_seconds, one);
    }

    /// Notes the requests and bytes of a time in which some were under way. It measures the bandwidth where
    /// the bytes are enough to fill the way from the store.
    fn note_busy(&mut self, requests: u32, bytes: u64, took: Duration) {
        if self.is_given || bytes < LARGE_BYTES || (bytes as f64) < self.product() {
            return;
        }
        let seconds = took.as_secs_f64();
        let others = self.latency_seconds + self.request_seconds * f64::from(requests);
        let seconds = (seconds - others).max(seconds / 4.0).max(1e-6);
        let measured = (bytes as f64 / seconds).clamp(BYTES_PER_SECOND.0, BYTES_PER_SECOND.1);
        self.bytes_per_second = f64::midpoint(self.bytes_per_second, measured);
    }

    /// Bytes that the store gives in the time of a round trip.
    fn product(&self) -> f64 {
        self.latency_seconds * self.bytes_per_second
    }
}

impl Pace {
    /// The pace of a store that is known and not measured.
    pub(crate) fn known(latency: Duration, bytes_per_second: u64) -> Pace {
        let latency_seconds = latency.as_secs_f64().clamp(LATENCY_SECONDS.0, LATENCY_SECONDS.1);
        let bytes_per_second = (bytes_per_second as f64).clamp(BYTES_PER_SECOND.0, BYTES_PER_SECOND.1);
        let request_seconds = 0.0;
        let (is_given, measured) = (true, Measured::default());
        Pace(Measured { is_given, latency_seconds, bytes_per_second, request_seconds, ..measured }.into())
    }

    /// Makes a request that returns a number of bytes, and measures it.
    pub(crate) fn measure<E>(&self, request: impl FnOnce() -> Result<Vec<u8>, E>) -> Result<Vec<u8>, E> {
        let begin = Instant::now();
        let mut state = self.0.lock();
        state.under_way += 1;
        state.busy_since.get_or_insert(begin);
        drop(state);
        let answer = request();
        let mut state = self.0.lock();
        state.under_way -= 1;
        state.count_in_row(answer.as_ref().map_or(0, |bytes| bytes.len() as u64), Instant::now());
        if let Ok(bytes) = &answer {
            state.busy_requests += 1;
            state.busy_bytes += bytes.len() as u64;
            state.note_request(bytes.len() as u64, begin.elapsed());
        }
        if state.under_way == 0
            && let Some(since) = state.busy_since.take()
        {
            state.row_since = None;
            let requests = std::mem::take(&mut state.busy_requests);
            let bytes = std::mem::take(&mut state.busy_bytes);
            state.note_busy(requests, bytes, since.elapsed());
        }
        answer
    }

    /// Bytes between two parts of an object that cost no more than one of `requests` requests that are under
    /// way at the same time.
    pub(crate) fn gap_bytes(&self, requests: usize) -> u64 {
        let state = self.0.lock();
        let one = state.request_seconds.max(state.latency_seconds / requests.max(1) as f64);
        (one * state.bytes_per_second).clamp(GAP_BYTES.0, GAP_BYTES.1) as u64
    }

    /// True where so many bytes take longer than a round trip and so many requests.
    pub(crate) fn is_worth_a_round_trip(&self, bytes: u64, requests: usize) -> bool {
        let state = self.0.lock();
        let seconds = state.latency_seconds + state.request_seconds * requests as f64;
        bytes as f64 > seconds * state.bytes_per_second
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_latency_is_that_of_the_fastest_of_the_last_small_requests() {
        let mut pace = Measured::default();
        pace.note_request(SMALL_BYTES + 1, Duration::from_millis(1));
        assert_eq!(pace.latency_seconds, FIRST_LATENCY_SECONDS, "a large one says nothing");
        pace.note_request(100, Duration::from_millis(8));
        assert_eq!(pace.latency_seconds, 0.008);
        for _ in 0..SMALL_REQUESTS - 2 {
            pace.note_request(100, Duration::from_millis(50));
        }
        assert_eq!(pace.latency_seconds, 0.008);
        (0..=SMALL_REQUESTS).for_each(|_| pace.note_request(100, Duration::from_millis(50)));
        assert_eq!(pace.latency_seconds, 0.05, "the way has become longer");
        pace.note_request(100, Duration::ZERO);
        assert_eq!(pace.latency_seconds, LATENCY_SECONDS.0);
    }

    #[test]
    fn the_bandwidth_is_measured_by_as_many_bytes_as_fill_the_way() {
        let mut pace = Measured::default();
        pace.note_busy(0, 100, Duration::from_secs(1));
        assert_eq!(pace.bytes_per_second, FIRST_BYTES_PER_SECOND);
        for _ in 0..20 {
            pace.note_busy(0, 10 << 20, Duration::from_secs_f64(1.0 + pace.latency_seconds));
        }
        assert!(
            (pace.bytes_per_second / f64::from(10 << 20) - 1.0).abs() < 0.01,
            "{}",
            pace.bytes_per_second
        );
        pace.note_busy(0, u64::MAX, Duration::ZERO);
        assert!(pace.bytes_per_second <= BYTES_PER_SECOND.1);
    }

    #[test]
    fn a_gap_is_read_where_the_way_is_long_and_a_round_trip_pays_where_it_is_short() {
        let of = |latency_seconds, bytes_per_second| {
            Pace::known(Duration::from_secs_f64(latency_seconds), bytes_per_second)
        };
        let (far, near) = (of(0.1, 1_000_000_000), of(0.001, 1_000_000_000));
        assert_eq!((far.gap_bytes(1000), near.gap_bytes(1000)), (100_000, 16 << 10));
        assert_eq!(far.gap_bytes(1), 256 << 10);
        assert!(!far.is_worth_a_round_trip(50 << 20, 1) && near.is_worth_a_round_trip(50 << 20, 1));
    }

    #[test]
    fn requests_that_end_slowly_are_worth_bytes() {
        let pace = Pace::default();
        let now = Instant::now();
        let row_of = |bytes: u64, under_way: u32, each: Duration| {
            let mut state = pace.0.lock();
            (state.row_since, state.under_way) = (None, under_way);
            (0..=ROW_REQUESTS).for_each(|i| state.count_in_row(bytes, now + each * i));
        };
        let row = |under_way, each| row_of(500, under_way, each);
        assert!(pace.is_worth_a_round_trip(100 << 20, 1000), "0.84 s beside 0.23");
        (0..8).for_each(|_| row(ROW_UNDER_WAY - 1, Duration::from_millis(1)));
        assert!(pace.is_worth_a_round_trip(100 << 20, 1000), "few at the same time say nothing");
        (0..8).for_each(|_| row_of(100_000, ROW_UNDER_WAY, Duration::from_millis(1)));
        assert!(pace.is_worth_a_round_trip(100 << 20, 1000), "nor do large ones");
        let before = pace.gap_bytes(256);
        (0..8).for_each(|_| row(ROW_UNDER_WAY, Duration::from_millis(1)));
        assert!(!pace.is_worth_a_round_trip(100 << 20, 1000), "0.84 s beside 1.03");
        assert!((124_000..126_000).contains(&pace.gap_bytes(256)) && before < 26_000, "{before}");
        pace.0.lock().note_busy(1000, 100 << 20, Duration::from_secs_f64(2.0 + FIRST_LATENCY_SECONDS));
        let bandwidth = pace.0.lock().bytes_per_second;
        assert!((114e6..117e6).contains(&bandwidth), "half of 125 and of 105: {bandwidth}");
        (0..8).for_each(|_| row(ROW_UNDER_WAY, Duration::from_micros(100)));
        assert!(pace.is_worth_a_round_trip(100 << 20, 1000), "the store is faster now");
    }

    #[test]
    fn requests_that_overlap_are_one_busy_time() {
        let busy = |pace: &Pace| {
            let state = pace.0.lock();
            (state.under_way, state.busy_bytes)
        };
        let pace = Pace::default();
        let answer = pace.measure::<()>(|| {
            assert_eq!(busy(&pace), (1, 0));
            pace.measure(|| Ok(vec![0; 1000]))?;
            assert_eq!(busy(&pace), (1, 1000));
            Ok(vec![0; 10])
        });
        assert_eq!(answer.map(|bytes| bytes.len()), Ok(10));
        assert_eq!(busy(&pace), (0, 0));
        assert_eq!(pace.measure(|| Err(())), Err(()));
        assert!(pace.0.lock().busy_since.is_none());
    }
}
