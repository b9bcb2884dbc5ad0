//! Many requests at once by system calls: a few threads, for the time of one call.

use parking_lot::Mutex;

/// Most threads of one call, the caller's among them.
const WORKERS: usize = 8;

/// So many requests pay for a thread.
const REQUESTS_A_WORKER: usize = 8;

/// Does `work` on every item and returns when all are done. Where no thread can be had the caller's does it all.
pub(super) fn for_each<T: Send>(items: impl ExactSizeIterator<Item = T> + Send, work: impl Fn(T) + Sync) {
    let workers = (items.len() / REQUESTS_A_WORKER).min(WORKERS);
    let items = Mutex::new(items);
    let worker = || {
        loop {
            // (In a statement of its own, so that the lock is open again while the work is done.)
            let item = items.lock().next();
            let Some(item) = item else { return };
            work(item);
        }
    };
    if workers <= 1 {
        return worker();
    }
    std::thread::scope(|scope| {
        for _ in 1..workers {
            if std::thread::Builder::new().spawn_scoped(scope, worker).is_err() {
                break;
            }
        }
        worker();
    });
}
