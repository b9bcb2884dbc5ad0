//! The division of a batch among threads.

use lanefs_sync::lock::Mutex;

/// Gives all parts to some threads, the caller's included, each taking the next part that is left.
pub(crate) fn in_threads<T: Send>(
    threads: usize,
    parts: impl ExactSizeIterator<Item = T> + Send,
    work: impl Fn(T) + Sync,
) {
    let more = threads.min(parts.len()).saturating_sub(1);
    if more == 0 {
        return parts.for_each(work);
    }
    let parts = Mutex::new(parts);
    let work = || {
        loop {
            let part = parts.lock().next();
            let Some(part) = part else { break };
            work(part);
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..more {
            // Where the host has no thread left, fewer threads do the work.
            if std::thread::Builder::new().spawn_scoped(scope, work).is_err() {
                break;
            }
        }
        work();
    });
}
