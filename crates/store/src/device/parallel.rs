//! Many requests at the same time by system calls: a few threads for the duration of one call.

use lanefs_sync::lock::Mutex;

/// Most threads of one call, the caller's included.
const WORKERS: usize = 8;

/// Number of requests that pay for a thread.
const REQUESTS_A_WORKER: usize = 8;

/// Calls `work` with every item and returns when all calls have ended. Where no thread can be created the
/// caller's does all.
pub(super) fn for_each<T: Send>(items: impl ExactSizeIterator<Item = T> + Send, work: impl Fn(T) + Sync) {
    let workers = (items.len() / REQUESTS_A_WORKER).min(WORKERS);
    let items = Mutex::new(items);
    let worker = || {
        loop {
            // (A statement of its own unlocks the mutex before the work begins.)
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
