//! Counters of requests: number, failures and duration. Counting never waits.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

macro_rules! operations {
    ($($name:ident = $text:literal,)*) => {
        /// Kind of a request of the kernel.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[expect(missing_docs, reason = "each is the request of that name")]
        pub enum Operation { $($name,)* }

        impl Operation {
            /// All kinds, in order.
            pub const ALL: &'static [Operation] = &[$(Operation::$name),*];

            /// Returns the name in output.
            pub const fn name(self) -> &'static str {
                match self { $(Operation::$name => $text,)* }
            }
        }
    };
}

impl Operation {
    /// Returns whether a request of this kind asks for a change.
    pub(crate) const fn is_change(self) -> bool {
        use Operation::*;
        !matches!(
            self,
            Lookup
                | Forget
                | Getattr
                | Readlink
                | Open
                | Read
                | Fsync
                | Readdir
                | Statfs
                | Getxattr
                | Listxattr
                | Seek
        )
    }
}

operations! {
    Lookup = "lookup", Forget = "forget", Getattr = "getattr", Setattr = "setattr", Readlink = "readlink", Mknod = "mknod",
    Mkdir = "mkdir", Unlink = "unlink", Rmdir = "rmdir", Symlink = "symlink", Rename = "rename", Link = "link",
    Create = "create", Open = "open", Read = "read", Write = "write", Fsync = "fsync", Readdir = "readdir", Statfs = "statfs",
    Setxattr = "setxattr", Getxattr = "getxattr", Listxattr = "listxattr", Removexattr = "removexattr",
    Fallocate = "fallocate", Seek = "seek", CopyRange = "copy_range",
}

/// Buckets of a histogram of durations: the first counts those below 1 µs, each further one those below twice
/// the limit before, the last all longer ones.
pub const BUCKETS: usize = 24;

#[derive(Default)]
struct Counters {
    errors: AtomicU64,
    nanoseconds: AtomicU64,
    buckets: [AtomicU64; BUCKETS],
}

/// Counters of one mount.
pub struct Statistics {
    operations: Vec<Counters>,
}

/// Values of one operation's counters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OperationCounts {
    /// Kind of request.
    pub operation: Operation,
    /// Number of requests.
    pub count: u64,
    /// Number of failed requests.
    pub errors: u64,
    /// Total duration.
    pub time: Duration,
    /// Requests by duration: below 1 µs, 2 µs, 4 µs and so on; the last bucket has all longer ones.
    pub buckets: [u64; BUCKETS],
}

impl Default for Statistics {
    fn default() -> Self {
        Statistics { operations: Operation::ALL.iter().map(|_| Counters::default()).collect() }
    }
}

impl Statistics {
    /// Calls `work` and counts it.
    pub(crate) fn count<T, E>(
        &self,
        operation: Operation,
        work: impl FnOnce() -> Result<T, E>,
    ) -> Result<T, E> {
        let begin = Instant::now();
        let outcome = work();
        debug_assert_eq!(self.operations.len(), Operation::ALL.len(), "every operation has counters");
        if let Some(counters) = self.operations.get(operation as usize) {
            let nanoseconds = begin.elapsed().as_nanos() as u64;
            counters.nanoseconds.fetch_add(nanoseconds, Relaxed);
            counters.errors.fetch_add(u64::from(outcome.is_err()), Relaxed);
            if let Some(bucket) = counters.buckets.get(bucket(nanoseconds)) {
                bucket.fetch_add(1, Relaxed);
            }
        }
        outcome
    }

    /// Returns all counters. Requests in progress may be counted in part.
    pub fn snapshot(&self) -> Vec<OperationCounts> {
        let each = Operation::ALL.iter().zip(&self.operations);
        each.map(|(operation, counters)| {
            let buckets: [u64; BUCKETS] =
                std::array::from_fn(|i| counters.buckets.get(i).map_or(0, |bucket| bucket.load(Relaxed)));
            OperationCounts {
                operation: *operation,
                count: buckets.iter().sum(),
                errors: counters.errors.load(Relaxed),
                time: Duration::from_nanos(counters.nanoseconds.load(Relaxed)),
                buckets,
            }
        })
        .collect()
    }
}

/// Returns the bucket of a duration.
fn bucket(nanoseconds: u64) -> usize {
    let microseconds = nanoseconds / 1000;
    (u64::BITS - microseconds.leading_zeros()).min(BUCKETS as u32 - 1) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_done_is_counted_where_it_belongs() {
        assert_eq!([0, 999, 1000, 1999, 2000, 4000].map(bucket), [0, 0, 1, 1, 2, 3]);
        assert_eq!(bucket(u64::MAX), BUCKETS - 1);
        let statistics = Statistics::default();
        let _ = statistics.count(Operation::Lookup, || Ok::<_, ()>(()));
        let _ = statistics.count(Operation::Lookup, || Err::<(), _>(()));
        let all = statistics.snapshot();
        let lookup = &all[Operation::Lookup as usize];
        assert_eq!((lookup.operation, lookup.count, lookup.errors), (Operation::Lookup, 2, 1));
        assert_eq!(all.iter().map(|one| one.count).sum::<u64>(), 2);
    }
}
