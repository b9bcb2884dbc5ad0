//! Jobs on several threads, whose results come in the order of the jobs.

use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, Sender, channel};

/// Jobs for each thread that may be done or under way before the first result that is missing.
const AHEAD: usize = 4;

/// Does the jobs that `next` returns, on up to `threads` threads, and passes their results to `take`, in the
/// order of the jobs. Each thread calls `worker` once for what it works with. `next` and `take` are called on
/// this thread. An error of `take` ends all.
///
/// No more than four results for each thread wait for an earlier one.
pub(crate) fn in_order<J: Send, R: Send, E, W: FnMut(J) -> R>(
    threads: usize,
    mut next: impl FnMut() -> Option<J>,
    worker: impl Fn() -> W + Sync,
    mut take: impl FnMut(R) -> Result<(), E>,
) -> Result<(), E> {
    if threads <= 1 {
        let mut work = worker();
        while let Some(job) = next() {
            take(work(job))?;
        }
        return Ok(());
    }
    let (jobs, received) = channel::<(u64, J)>();
    let (results, done) = channel::<(u64, R)>();
    let received = Mutex::new(received);
    std::thread::scope(|scope| {
        let mut running = 0;
        for _ in 0..threads {
            let (received, worker, results) = (&received, &worker, results.clone());
            let thread = move || work_on(received, worker(), &results);
            running += usize::from(std::thread::Builder::new().spawn_scoped(scope, thread).is_ok());
        }
        drop(results);
        if running == 0 {
            // The host has no thread left.
            let mut work = worker();
            while let Some(job) = next() {
                take(work(job))?;
            }
            return Ok(());
        }
        // (Moved in, so that the channel is closed on every way out, and the threads end.)
        collect(jobs, &done, running * AHEAD, &mut next, &mut take)
    })
}

fn work_on<J, R>(jobs: &Mutex<Receiver<(u64, J)>>, mut work: impl FnMut(J) -> R, results: &Sender<(u64, R)>) {
    loop {
        let next = jobs.lock().recv();
        let Ok((number, job)) = next else { return };
        if results.send((number, work(job))).is_err() {
            return;
        }
    }
}

fn collect<J, R, E>(
    jobs: Sender<(u64, J)>,
    done: &Receiver<(u64, R)>,
    ahead: usize,
    next: &mut dyn FnMut() -> Option<J>,
    take: &mut dyn FnMut(R) -> Result<(), E>,
) -> Result<(), E> {
    let (mut sent, mut taken, mut is_over) = (0, 0, false);
    let mut early = BTreeMap::new();
    loop {
        while !is_over && sent - taken < ahead as u64 {
            match next() {
                Some(job) => {
                    // A worker that panicked is found below.
                    let _ = jobs.send((sent, job));
                    sent += 1;
                }
                None => is_over = true,
            }
        }
        if taken == sent {
            return Ok(());
        }
        // All workers are gone: one has panicked, and the scope passes that on.
        let Ok((number, result)) = done.recv() else { return Ok(()) };
        early.insert(number, result);
        while let Some(result) = early.remove(&taken) {
            take(result)?;
            taken += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU64, Ordering};

    #[test]
    fn results_come_in_the_order_of_the_jobs_and_never_too_many_wait() {
        for threads in [0, 1, 2, 5] {
            let (begun, mut taken) = (AtomicU64::new(0), Vec::new());
            let mut jobs = 0..300u64;
            let done = in_order(
                threads,
                || jobs.next(),
                || {
                    |job: u64| {
                        begun.fetch_max(job, Ordering::Relaxed);
                        // Uneven work: later jobs end first.
                        for _ in 0..(300 - job) % 7 * 1000 {
                            std::hint::black_box(job);
                        }
                        job
                    }
                },
                |job| {
                    assert!(begun.load(Ordering::Relaxed) < job + (threads.max(1) * AHEAD) as u64);
                    taken.push(job);
                    Ok::<(), ()>(())
                },
            );
            assert_eq!(done, Ok(()));
            assert!(taken.iter().copied().eq(0..300), "{threads} threads: {taken:?}");
        }
    }

    #[test]
    fn an_error_ends_all() {
        for threads in [1, 3] {
            let mut jobs = 0u64..;
            let stopped = in_order(
                threads,
                || jobs.next(),
                || |job| job,
                |job| if job < 50 { Ok(()) } else { Err(job) },
            );
            assert_eq!(stopped, Err(50));
        }
    }
}
