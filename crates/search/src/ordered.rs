//! Jobs on several threads, whose results come in the order of the jobs.

use lanefs_sync::lock::Mutex;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};

/// Jobs for each thread that may be done or under way before the first result that is missing.
const AHEAD: usize = 4;

/// Jobs on their way to the threads.
struct JobQueue<J> {
    received: Mutex<Receiver<(u64, J)>>,
    /// No more results are taken. Relaxed: it guards no data, threads only have to see it soon.
    is_over: AtomicBool,
}

/// A message of a thread.
enum Message<R> {
    Result(u64, R),
    /// The thread ends by a panic, so the result of its job will never come.
    Panicked,
}

/// Does the jobs that `next` returns, on up to `threads` threads, and passes their results to `take`, in the
/// order of the jobs. Each thread calls `worker` once for what it works with. `next` and `take` are called on
/// this thread. An error of `take` ends all: jobs that no thread has begun are dropped.
///
/// No more than four results for each thread wait for an earlier one.
///
/// # Panics
/// If a thread does.
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
    let (results, done) = channel::<Message<R>>();
    let queue = JobQueue { received: Mutex::new(received), is_over: AtomicBool::new(false) };
    std::thread::scope(|scope| {
        let mut running = 0;
        for _ in 0..threads {
            let (queue, worker, results) = (&queue, &worker, results.clone());
            let thread = move || {
                let results = Results(results);
                work_on(queue, worker(), &results);
            };
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
        // The channel of jobs is closed on every way out, so the threads end.
        let collected = collect(jobs, &done, running * AHEAD, &mut next, &mut take);
        queue.is_over.store(true, Ordering::Relaxed);
        collected
    })
}

/// The sender of a thread, which tells of its panic.
struct Results<R>(Sender<Message<R>>);

impl<R> Drop for Results<R> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            // Without a receiver nobody waits.
            let _ = self.0.send(Message::Panicked);
        }
    }
}

fn work_on<J, R>(queue: &JobQueue<J>, mut work: impl FnMut(J) -> R, results: &Results<R>) {
    loop {
        let next = queue.received.lock().recv();
        let Ok((number, job)) = next else { return };
        if queue.is_over.load(Ordering::Relaxed)
            || results.0.send(Message::Result(number, work(job))).is_err()
        {
            return;
        }
    }
}

fn collect<J, R, E>(
    jobs: Sender<(u64, J)>,
    done: &Receiver<Message<R>>,
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
                    // The queue lives longer than this sender.
                    let _ = jobs.send((sent, job));
                    sent += 1;
                }
                None => is_over = true,
            }
        }
        if taken == sent {
            return Ok(());
        }
        // The scope passes a panic of a thread on.
        let Ok(Message::Result(number, result)) = done.recv() else { return Ok(()) };
        debug_assert!((taken..sent).contains(&number), "job {number} of {taken} to {sent}");
        early.insert(number, result);
        debug_assert!(early.len() <= ahead, "{} results wait", early.len());
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

    #[test]
    fn a_job_that_is_queued_when_all_is_over_is_not_begun() {
        let ((jobs, received), (results, done)) = (channel(), channel());
        let queue = JobQueue { received: Mutex::new(received), is_over: AtomicBool::new(false) };
        (0..3).for_each(|job| jobs.send((job, job)).expect("a queue"));
        drop(jobs);
        let mut begun = Vec::new();
        let work = |job: u64| {
            begun.push(job);
            queue.is_over.store(true, Ordering::Relaxed);
        };
        work_on(&queue, work, &Results(results));
        assert_eq!(begun, [0]);
        assert!(matches!(done.recv(), Ok(Message::Result(0, ()))));
    }

    #[test]
    #[should_panic(expected = "a scoped thread panicked")]
    fn a_panic_of_one_thread_is_passed_on_and_no_hang() {
        let mut jobs = 0u64..;
        let work = |job: u64| {
            assert!(job != 7, "planted");
            job
        };
        let _ = in_order(3, || jobs.next(), || work, |_| Ok::<(), ()>(()));
    }
}
