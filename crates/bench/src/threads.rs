//! Several threads that start together on shares of one list of requests.

use crate::Result;
use std::sync::Barrier;
use std::time::{Duration, Instant};

/// Splits the requests evenly among threads that start together; returns the time from their start to the last one's
/// end, and the sum of what they returned.
pub(crate) fn in_threads<T: Sync>(
    requests: &[T],
    threads: usize,
    work: impl Fn(&[T]) -> Result<u64> + Sync,
) -> Result<(Duration, u64)> {
    if threads <= 1 {
        let start = Instant::now();
        let good = work(requests)?;
        return Ok((start.elapsed(), good));
    }
    let barrier = Barrier::new(threads);
    let (barrier, work) = (&barrier, &work);
    std::thread::scope(|scope| {
        let share = requests.len().div_ceil(threads).max(1);
        let mut shares = requests.chunks(share);
        let running: Vec<_> = (0..threads)
            .map(|_| shares.next().unwrap_or_default())
            .map(|share| {
                scope.spawn(move || {
                    barrier.wait();
                    let start = Instant::now();
                    let good = work(share);
                    (good, start, Instant::now())
                })
            })
            .collect();
        let (mut first, mut last, mut good) = (None, None, 0);
        for thread in running {
            // A panic of a worker goes on here, as it would without threads.
            let (answer, start, end) = thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            good += answer?;
            first = first.into_iter().chain([start]).min();
            last = last.into_iter().chain([end]).max();
        }
        let elapsed =
            first.zip(last).map_or(Duration::ZERO, |(first, last): (Instant, Instant)| last - first);
        Ok((elapsed, good))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Error;

    #[test]
    fn threads_share_all_requests() {
        let requests: Vec<u64> = (0..1001).collect();
        for threads in [1, 2, 3, 16] {
            let (_, sum) = in_threads(&requests, threads, |share| Ok(share.iter().sum())).unwrap();
            assert_eq!(sum, 500_500);
        }
        let failed =
            in_threads(&requests, 2, |share| if share[0] == 0 { Ok(0) } else { Err(Error::Stopped) });
        assert!(matches!(failed, Err(Error::Stopped)));
        assert_eq!(in_threads(&[0u64; 0], 2, |share| Ok(share.len() as u64)).unwrap().1, 0);
    }
}
