//! Several threads that start together.

use crate::error::Result;
use std::sync::Barrier;
use std::time::{Duration, Instant};

/// Work of threads that started together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ThreadsOutcome {
    /// Time from the start of the first thread to the end of the last one.
    pub(crate) elapsed: Duration,
    /// Sum of the times of all threads, each from its own start to its own end.
    pub(crate) busy: Duration,
    /// Sum of the values that they returned.
    pub(crate) sum: u64,
}

/// Runs `work` on threads that start together; each receives its number, counted from 0.
pub(crate) fn together(threads: usize, work: impl Fn(usize) -> Result<u64> + Sync) -> Result<ThreadsOutcome> {
    if threads <= 1 {
        let start = Instant::now();
        let sum = work(0)?;
        let elapsed = start.elapsed();
        return Ok(ThreadsOutcome { elapsed, busy: elapsed, sum });
    }
    let barrier = Barrier::new(threads);
    let (barrier, work) = (&barrier, &work);
    std::thread::scope(|scope| {
        let running: Vec<_> = (0..threads)
            .map(|number| {
                scope.spawn(move || {
                    barrier.wait();
                    let start = Instant::now();
                    let answer = work(number);
                    (answer, start, Instant::now())
                })
            })
            .collect();
        let (mut first, mut last): (Option<Instant>, Option<Instant>) = (None, None);
        let mut all = ThreadsOutcome::default();
        for thread in running {
            // A worker's panic continues here, as it would without threads.
            let (answer, start, end) = thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            all.sum += answer?;
            all.busy += end - start;
            first = first.into_iter().chain([start]).min();
            last = last.into_iter().chain([end]).max();
        }
        all.elapsed = first.zip(last).map_or(Duration::ZERO, |(first, last)| last - first);
        Ok(all)
    })
}

/// Splits the requests evenly among threads that start together; returns the time from their start to the end
/// of the last one, and the sum of the values that they returned.
pub(crate) fn in_threads<T: Sync>(
    requests: &[T],
    threads: usize,
    work: impl Fn(&[T]) -> Result<u64> + Sync,
) -> Result<(Duration, u64)> {
    let done = together(threads, |thread| work(share(requests, threads, thread)))?;
    Ok((done.elapsed, done.sum))
}

/// Returns the share of one of several threads; lengths of shares differ by at most one.
pub(crate) fn share<T>(all: &[T], threads: usize, thread: usize) -> &[T] {
    let threads = threads.max(1);
    let start = |thread: usize| all.len() * thread.min(threads) / threads;
    &all[start(thread)..start(thread + 1)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Error;

    #[test]
    fn threads_share_all_requests() {
        let requests: Vec<u64> = (0..1001).collect();
        for threads in [1, 2, 3, 16] {
            let (_, sum) = in_threads(&requests, threads, |share| Ok(share.iter().sum())).unwrap();
            assert_eq!(sum, 500_500);
        }
        let failed =
            in_threads(
                &requests,
                2,
                |share| if share.first() == Some(&0) { Ok(0) } else { Err(Error::Stopped) },
            );
        assert!(matches!(failed, Err(Error::Stopped)));
        assert_eq!(in_threads(&[0u64; 0], 2, |share| Ok(share.len() as u64)).unwrap().1, 0);
    }

    #[test]
    fn no_thread_is_busy_longer_than_all_are() {
        let done = together(4, |thread| Ok(thread as u64)).unwrap();
        assert_eq!(done.sum, 6);
        assert!(done.busy <= 4 * done.elapsed);
    }
}
