//! What was asked how often, how long it took and how often it failed. Read by whoever shows it; counting never waits.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

macro_rules! operations {
    ($($name:ident = $text:literal,)*) => {
        /// A request of the kernel's.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[expect(missing_docs, reason = "each is the request that bears its name")]
        pub enum Operation { $($name,)* }

        impl Operation {
            /// All of them, in order.
            pub const ALL: &'static [Operation] = &[$(Operation::$name),*];

            /// The name for people.
            pub const fn name(self) -> &'static str {
                match self { $(Operation::$name => $text,)* }
            }
        }
    };
}

operations! {
    Lookup = "lookup", Forget = "forget", Getattr = "getattr", Setattr = "setattr", Readlink = "readlink", Mknod = "mknod",
    Mkdir = "mkdir", Unlink = "unlink", Rmdir = "rmdir", Symlink = "symlink", Rename = "rename", Link = "link",
    Create = "create", Read = "read", Write = "write", Fsync = "fsync", Readdir = "readdir", Statfs = "statfs",
    Setxattr = "setxattr", Getxattr = "getxattr", Listxattr = "listxattr", Removexattr = "removexattr",
    Fallocate = "fallocate", Seek = "seek", CopyRange = "copy_range",
}

/// Steps of a histogram: the first counts what took less than 1 µs, each further one twice as long, the last all beyond.
pub const STEPS: usize = 24;

#[derive(Default)]
struct Counters {
    errors: AtomicU64,
    nanoseconds: AtomicU64,
    steps: [AtomicU64; STEPS],
}

/// Counters of one mount.
pub struct Statistics {
    operations: Vec<Counters>,
}

/// One operation's counters at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// Which.
    pub operation: Operation,
    /// How often it was asked for.
    pub count: u64,
    /// How often it failed.
    pub errors: u64,
    /// Time taken in all.
    pub time: Duration,
    /// How many took less than 1 µs, 2 µs, 4 µs and so on; the last one has all that took longer.
    pub steps: [u64; STEPS],
}

impl Default for Statistics {
    fn default() -> Self {
        Statistics { operations: Operation::ALL.iter().map(|_| Counters::default()).collect() }
    }
}

impl Statistics {
    /// Does something and counts it.
    pub(crate) fn count<T, E>(
        &self,
        operation: Operation,
        work: impl FnOnce() -> Result<T, E>,
    ) -> Result<T, E> {
        let begin = Instant::now();
        let outcome = work();
        if let Some(counters) = self.operations.get(operation as usize) {
            let nanoseconds = begin.elapsed().as_nanos() as u64;
            counters.nanoseconds.fetch_add(nanoseconds, Relaxed);
            counters.errors.fetch_add(u64::from(outcome.is_err()), Relaxed);
            if let Some(step) = counters.steps.get(step(nanoseconds)) {
                step.fetch_add(1, Relaxed);
            }
        }
        outcome
    }

    /// All counters. Those of operations that run meanwhile may be there in part.
    pub fn snapshot(&self) -> Vec<Snapshot> {
        let each = Operation::ALL.iter().zip(&self.operations);
        each.map(|(operation, counters)| {
            let steps: [u64; STEPS] =
                std::array::from_fn(|i| counters.steps.get(i).map_or(0, |step| step.load(Relaxed)));
            Snapshot {
                operation: *operation,
                count: steps.iter().sum(),
                errors: counters.errors.load(Relaxed),
                time: Duration::from_nanos(counters.nanoseconds.load(Relaxed)),
                steps,
            }
        })
        .collect()
    }
}

/// Which step of the histogram a time belongs to.
fn step(nanoseconds: u64) -> usize {
    let microseconds = nanoseconds / 1000;
    (u64::BITS - microseconds.leading_zeros()).min(STEPS as u32 - 1) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_done_is_counted_where_it_belongs() {
        assert_eq!([0, 999, 1000, 1999, 2000, 4000].map(step), [0, 0, 1, 1, 2, 3]);
        assert_eq!(step(u64::MAX), STEPS - 1);
        let statistics = Statistics::default();
        let _ = statistics.count(Operation::Lookup, || Ok::<_, ()>(()));
        let _ = statistics.count(Operation::Lookup, || Err::<(), _>(()));
        let all = statistics.snapshot();
        let lookup = &all[Operation::Lookup as usize];
        assert_eq!((lookup.operation, lookup.count, lookup.errors), (Operation::Lookup, 2, 1));
        assert_eq!(all.iter().map(|one| one.count).sum::<u64>(), 2);
    }
}
