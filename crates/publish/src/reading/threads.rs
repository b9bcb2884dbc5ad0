//! Work on many items at the same time.

use lanefs_sync::lock::Mutex;
use std::sync::OnceLock;

/// Calls `work` with every item, in up to `threads` threads, the caller's included. Where the host has no
/// thread left, fewer do the work.
pub(crate) fn for_each<T: Send>(
    threads: usize,
    items: impl ExactSizeIterator<Item = T> + Send,
    work: impl Fn(T) + Sync,
) {
    let more = threads.min(items.len()).saturating_sub(1);
    if more == 0 {
        return items.for_each(work);
    }
    let items = Mutex::new(items);
    let work = || {
        loop {
            // (A statement of its own unlocks the mutex before the work begins.)
            let item = items.lock().next();
            let Some(item) = item else { break };
            work(item);
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..more {
            if std::thread::Builder::new().spawn_scoped(scope, work).is_err() {
                break;
            }
        }
        work();
    });
}

/// Calls `work` with every item and returns the results in the order of the items.
pub(crate) fn map<T: Send, R: Send>(threads: usize, items: Vec<T>, work: impl Fn(T) -> R + Sync) -> Vec<R> {
    let results: Vec<Mutex<Option<R>>> = items.iter().map(|_| Mutex::new(None)).collect();
    for_each(threads, items.into_iter().enumerate(), |(index, item)| {
        *results[index].lock() = Some(work(item));
    });
    results.into_iter().filter_map(Mutex::into_inner).collect()
}

/// Number of processors. The host is asked once: each answer takes it the reads of several files.
pub(crate) fn processors() -> usize {
    static PROCESSORS: OnceLock<usize> = OnceLock::new();
    *PROCESSORS.get_or_init(|| std::thread::available_parallelism().map_or(1, usize::from))
}
