//! Requests under way: bounded in number and in bytes, however many threads make calls.

use lanefs_sync::lock::{Condvar, Mutex};

/// Bytes of the requests under way at most, but for a single one.
const MOST_BYTES: u64 = 128 << 20;

/// The requests of a fetcher that are under way.
pub(crate) struct InFlight {
    /// Most of them.
    most: usize,
    used: Mutex<Used>,
    ended: Condvar,
}

#[derive(Default)]
struct Used {
    requests: usize,
    bytes: u64,
    /// Threads that wait for more bytes than the end of one request may give.
    waiting_for_bytes: usize,
}

/// A request that counts as under way until this is dropped.
pub(crate) struct Admitted<'f> {
    all: &'f InFlight,
    bytes: u64,
}

impl InFlight {
    pub(crate) fn new(most: usize) -> Self {
        InFlight { most: most.max(1), used: Mutex::default(), ended: Condvar::default() }
    }

    /// Requests at the same time at most.
    pub(crate) fn most(&self) -> usize {
        self.most
    }

    /// Waits until there is room for a request of so many bytes. A thread that has one asks for no other.
    pub(crate) fn admit(&self, bytes: u64) -> Admitted<'_> {
        let mut used = self.used.lock();
        while used.requests > 0 && (used.requests >= self.most || used.bytes + bytes > MOST_BYTES) {
            let is_for_bytes = used.requests < self.most;
            used.waiting_for_bytes += usize::from(is_for_bytes);
            self.ended.wait(&mut used);
            used.waiting_for_bytes -= usize::from(is_for_bytes);
        }
        used.requests += 1;
        used.bytes += bytes;
        Admitted { all: self, bytes }
    }
}

impl Drop for Admitted<'_> {
    fn drop(&mut self) {
        let mut used = self.all.used.lock();
        used.requests -= 1;
        used.bytes -= self.bytes;
        let is_for_one = used.waiting_for_bytes == 0;
        drop(used);
        // Hundreds of threads may wait, and to wake all of them costs more than the request. One that finds
        // too few bytes is counted when it waits again, and some request is under way that wakes all at its
        // end.
        if is_for_one { self.all.ended.notify_one() } else { self.all.ended.notify_all() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

    #[test]
    fn requests_are_bounded_in_number_and_bytes_and_all_are_made() {
        let flight = InFlight::new(5);
        let (requests, bytes, done) = (AtomicUsize::new(0), AtomicU64::new(0), AtomicUsize::new(0));
        std::thread::scope(|scope| {
            for thread in 0..16 {
                let (flight, requests, bytes, done) = (&flight, &requests, &bytes, &done);
                scope.spawn(move || {
                    for round in 0..50 {
                        // One in ten has more bytes than all may have.
                        let own = if round % 10 == thread % 10 { MOST_BYTES + 1 } else { MOST_BYTES / 3 };
                        let admitted = flight.admit(own);
                        let others = requests.fetch_add(1, Ordering::Relaxed);
                        let sum = bytes.fetch_add(own, Ordering::Relaxed) + own;
                        assert!(others < 5 && (sum <= MOST_BYTES || others == 0), "{others} and {sum}");
                        std::thread::yield_now();
                        bytes.fetch_sub(own, Ordering::Relaxed);
                        requests.fetch_sub(1, Ordering::Relaxed);
                        done.fetch_add(1, Ordering::Relaxed);
                        drop(admitted);
                    }
                });
            }
        });
        assert_eq!(done.into_inner(), 16 * 50);
    }
}
