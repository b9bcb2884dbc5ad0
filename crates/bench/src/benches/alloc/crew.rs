//! Threads that begin and end a workload together, and the measurement of their work.

use super::resident::resident_bytes;
use crate::error::Result;
use serde::{Deserialize, Serialize};
use std::sync::Barrier;
use std::time::{Duration, Instant};

/// Outcome of one run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Outcome {
    /// Number of calls of `malloc` and `free` within the time.
    pub(super) operations: u64,
    /// Time from the start of the first thread to the end of the last one.
    pub(super) elapsed_ns: u64,
    /// Growth of the resident memory from before the warm-up until all threads have done their last
    /// operation. No thread has ended by then, and each still owns its blocks.
    pub(super) resident_bytes: u64,
}

/// Runs `warm_up` and then `work`, which is timed and returns its number of operations, for each member in a
/// thread of its own. A single member works in the calling thread: some allocators are quickest in a process
/// of one thread.
pub(super) fn crew<M: Send>(
    members: &mut [M],
    warm_up: impl Fn(&mut M) + Sync,
    work: impl Fn(&mut M) -> u64 + Sync,
) -> Result<Outcome> {
    if let [member] = members {
        let before = resident_bytes()?;
        warm_up(member);
        let timed = timed(member, &work);
        return Ok(outcome([timed], before, resident_bytes()?));
    }
    let barrier = Barrier::new(members.len() + 1);
    let (barrier, warm_up, work) = (&barrier, &warm_up, &work);
    std::thread::scope(|scope| {
        let mut threads = Vec::with_capacity(members.len());
        for member in members {
            threads.push(scope.spawn(move || {
                // Barriers: started, and memory measured; warmed up; done; memory measured.
                barrier.wait();
                barrier.wait();
                warm_up(member);
                barrier.wait();
                let timed = timed(member, work);
                barrier.wait();
                barrier.wait();
                timed
            }));
        }
        barrier.wait();
        let before = resident_bytes();
        barrier.wait();
        barrier.wait();
        barrier.wait();
        let after = resident_bytes();
        barrier.wait();
        let threads = threads.into_iter();
        // A worker's panic continues here, as it would without threads.
        let timed = threads.map(|t| t.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        Ok(outcome(timed, before?, after?))
    })
}

type Timed = (u64, Instant, Instant);

fn timed<M>(member: &mut M, work: impl Fn(&mut M) -> u64) -> Timed {
    let start = Instant::now();
    let operations = work(member);
    (operations, start, Instant::now())
}

fn outcome(timed: impl IntoIterator<Item = Timed>, before: u64, after: u64) -> Outcome {
    let (mut operations, mut first, mut last) = (0, None, None);
    for (count, start, end) in timed {
        operations += count;
        first = first.into_iter().chain([start]).min();
        last = last.into_iter().chain([end]).max();
    }
    let elapsed = first.zip(last).map_or(Duration::ZERO, |(first, last)| last - first);
    Outcome {
        operations,
        elapsed_ns: elapsed.as_nanos() as u64,
        resident_bytes: after.saturating_sub(before),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// More than the C library ever keeps of freed memory (M_MMAP_THRESHOLD, 32 MiB), so that each run's
    /// memory is new.
    const EACH: usize = 40 << 20;

    #[test]
    fn operations_add_up_and_memory_is_looked_at_while_it_is_held() {
        let _alone = crate::benches::alloc::resident::alone();
        for count in [1, 3] {
            let run = || {
                let mut members: Vec<(u64, Vec<u8>)> = (1..=count).map(|n| (n, Vec::new())).collect();
                let done = crew(
                    &mut members,
                    |member| member.1 = std::hint::black_box(vec![1; EACH]),
                    |member| {
                        std::thread::sleep(Duration::from_millis(2));
                        member.0
                    },
                );
                done.unwrap()
            };
            let done = run();
            assert_eq!(done.operations, (1..=count).sum::<u64>());
            assert!(done.elapsed_ns >= 2_000_000);
            // Other tests of this process release memory meanwhile, but not each time.
            let seen: Vec<u64> = (0..10).map(|_| run().resident_bytes).collect();
            assert!(seen.iter().any(|bytes| *bytes >= count * (EACH as u64 - (1 << 20))), "{seen:?}");
        }
    }
}
