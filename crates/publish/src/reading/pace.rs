//! The pace of a store: latency and bandwidth, as the requests so far show them.
//!
//! A call that needs many bytes of many objects decides by it what a request should have: bytes that nobody
//! needs, or another request, or another step after the answers of a first one.

use lanefs_sync::lock::Mutex;
use std::time::{Duration, Instant};

/// The pace before anything is measured: that of a store in the same part of the world, over 1 Gbit/s.
const FIRST_LATENCY_SECONDS: f64 = 0.03;
const FIRST_BYTES_PER_SECOND: f64 = 125e6;
/// Bounds of both.
const LATENCY_SECONDS: (f64, f64) = (50e-6, 2.0);
const BYTES_PER_SECOND: (f64, f64) = (100e3, 10e9);
/// Most bytes of a request that measures the latency, and the number of those of which the fastest counts.
const SMALL_BYTES: u64 = 64 << 10;
const SMALL_REQUESTS: u32 = 64;
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
    under_way: u32,
    /// The time at which the first of the requests under way began, and the bytes since.
    busy_since: Option<Instant>,
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
            under_way: 0,
            busy_since: None,
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

    /// Notes the bytes of a time in which requests were under way. It measures the bandwidth where they are
    /// enough to fill the way from the store.
    fn note_busy(&mut self, bytes: u64, took: Duration) {
        if self.is_given || bytes < LARGE_BYTES || (bytes as f64) < self.product() {
            return;
        }
        let seconds = took.as_secs_f64();
        let seconds = (seconds - self.latency_seconds).max(seconds / 4.0).max(1e-6);
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
        Pace(Measured { is_given: true, latency_seconds, bytes_per_second, ..Measured::default() }.into())
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
        if let Ok(bytes) = &answer {
            state.busy_bytes += bytes.len() as u64;
            state.note_request(bytes.len() as u64, begin.elapsed());
        }
        if state.under_way == 0
            && let Some(since) = state.busy_since.take()
        {
            let bytes = std::mem::take(&mut state.busy_bytes);
            state.note_busy(bytes, since.elapsed());
        }
        answer
    }

    /// Bytes between two parts of an object that cost no more than one of `requests` requests that are under
    /// way at the same time.
    pub(crate) fn gap_bytes(&self, requests: usize) -> u64 {
        let bytes = self.0.lock().product() / requests.max(1) as f64;
        bytes.clamp(GAP_BYTES.0, GAP_BYTES.1) as u64
    }

    /// True where so many bytes take longer than another round trip.
    pub(crate) fn is_worth_a_round_trip(&self, bytes: u64) -> bool {
        bytes as f64 > self.0.lock().product()
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
        pace.note_busy(100, Duration::from_secs(1));
        assert_eq!(pace.bytes_per_second, FIRST_BYTES_PER_SECOND);
        for _ in 0..20 {
            pace.note_busy(10 << 20, Duration::from_secs_f64(1.0 + pace.latency_seconds));
        }
        assert!(
            (pace.bytes_per_second / f64::from(10 << 20) - 1.0).abs() < 0.01,
            "{}",
            pace.bytes_per_second
        );
        pace.note_busy(u64::MAX, Duration::ZERO);
        assert!(pace.bytes_per_second <= BYTES_PER_SECOND.1);
    }

    #[test]
    fn a_gap_is_read_where_the_way_is_long_and_a_round_trip_pays_where_it_is_short() {
        let of = |latency_seconds, bytes_per_second| {
            Pace(Mutex::new(Measured { latency_seconds, bytes_per_second, ..Measured::default() }))
        };
        let (far, near) = (of(0.1, 1e9), of(0.001, 1e9));
        assert_eq!((far.gap_bytes(1000), near.gap_bytes(1000)), (100_000, 16 << 10));
        assert_eq!(far.gap_bytes(1), 256 << 10);
        assert!(!far.is_worth_a_round_trip(50 << 20) && near.is_worth_a_round_trip(50 << 20));
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
