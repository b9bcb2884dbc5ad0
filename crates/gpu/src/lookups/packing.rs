//! Packing paths into the input of a batch: their text as it is, and where each begins. A processor copies
//! from its memory at a fraction of the bus's rate, so several threads pack a large batch, and write the
//! answers to it.

use crate::shared::limits::MAX_PATH_BYTES;
use crate::shared::structures::PathRange;
use lanefs::Paths;
use rayon::{ThreadPool, ThreadPoolBuilder};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Paths that a thread packs at least: waking a thread takes some microseconds, and packing a path some
/// nanoseconds.
pub(super) const EACH: usize = 16_384;

/// Most threads: four already copy as fast as memory and bus allow (measured on an H100 with 16 cores:
/// 6.1 ns a path with one thread, 1.65 with four, 1.25 with eight).
const MOST_THREADS: usize = 8;

/// Threads that pack, made for the first large batch.
pub(crate) struct Packers {
    pool: OnceLock<Option<ThreadPool>>,
    /// Callers with such work now.
    callers: AtomicUsize,
}

/// One of these callers.
struct Present<'p>(&'p AtomicUsize);

impl Drop for Present<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Packers {
    pub(crate) const fn new() -> Packers {
        Packers { pool: OnceLock::new(), callers: AtomicUsize::new(0) }
    }

    /// Does work on so many paths: with true on one of the threads, which share it, or with false on the
    /// caller's own. The latter where the paths are few, and where there are as many callers as threads: then
    /// all processors are at work already, and one caller would wait for the threads of another.
    pub(super) fn share<T: Send>(&self, paths: usize, work: impl FnOnce(bool) -> T + Send) -> T {
        if paths < 2 * EACH {
            return work(false);
        }
        let before = self.callers.fetch_add(1, Ordering::Relaxed);
        let _present = Present(&self.callers);
        let pool = self.pool.get_or_init(threads).as_ref();
        // A worker of another pool would begin other work of that pool while it waits: another call, say,
        // which waits for the buffers that this one has.
        let pool = pool
            .filter(|pool| rayon::current_thread_index().is_none() || pool.current_thread_index().is_some());
        match pool.filter(|pool| before == 0 || before + 1 < pool.current_num_threads()) {
            Some(pool) => pool.install(|| work(true)),
            None => work(false),
        }
    }

    /// Writes the range of each path and the text of all. `ranges` and `text` are large enough. An empty path
    /// gets a range of `empty` bytes.
    pub(crate) fn pack(&self, paths: Paths<'_>, empty: u32, ranges: &mut [u8], text: &mut [u8]) {
        self.share(paths.len(), |is_shared| {
            let pack = if is_shared { pack_halves } else { pack_part };
            pack(paths, empty, 0, ranges, text);
        });
    }
}

/// Starts the threads; `None` on a machine with one processor, or where the host gives no threads.
fn threads() -> Option<ThreadPool> {
    let count = std::thread::available_parallelism().map_or(1, usize::from).min(MOST_THREADS);
    let pool = ThreadPoolBuilder::new().num_threads(count).thread_name(|_| "lanefs-pack".into());
    (count > 1).then(|| pool.build().ok()).flatten()
}

/// Packs paths whose text begins at `start` in that of the batch, by halves that threads share.
fn pack_halves(paths: Paths<'_>, empty: u32, start: usize, ranges: &mut [u8], text: &mut [u8]) {
    if paths.len() < 2 * EACH {
        return pack_part(paths, empty, start, ranges, text);
    }
    let half = paths.len() / 2;
    // The text between two paths goes with the first one.
    let before = paths.text().len() - paths.slice(half..paths.len()).text().len();
    let (first_ranges, second_ranges) = ranges.split_at_mut(half * PathRange::SIZE);
    let (first_text, second_text) = text.split_at_mut(before);
    rayon::join(
        || pack_halves(paths.slice(0..half), empty, start, first_ranges, first_text),
        || pack_halves(paths.slice(half..paths.len()), empty, start + before, second_ranges, second_text),
    );
}

fn pack_part(paths: Paths<'_>, empty: u32, start: usize, ranges: &mut [u8], text: &mut [u8]) {
    text[..paths.text().len()].copy_from_slice(paths.text());
    let mut ranges = ranges.chunks_exact_mut(PathRange::SIZE);
    paths.each_range(|path| {
        // The kernel refuses a path that is too long.
        let bytes = if path.is_empty() { empty } else { path.len().min(MAX_PATH_BYTES + 1) as u32 };
        if let Some(range) = ranges.next() {
            PathRange { start: (start + path.start) as u32, bytes }.write(range);
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use lanefs::PathSet;
    use std::sync::atomic::AtomicBool;

    /// Paths of many lengths, one after the other or with a byte between them.
    fn paths(count: usize, delimiter: Option<u8>) -> PathSet {
        let mut set = PathSet::new();
        let each = (0..count).map(|i| format!("/{i}/{}", "x".repeat(i * 31 % 77)));
        match delimiter {
            None => each.for_each(|path| set.push(path)),
            Some(byte) => {
                let text = each.flat_map(|path| [path.into_bytes(), vec![byte]].concat()).collect();
                drop(set.replace(text, byte));
            }
        }
        set
    }

    /// Has callers come one after the other, each while all before it are there; tells whose work is shared.
    fn in_one_another(packers: &Packers, callers: usize) -> Vec<bool> {
        packers.share(2 * EACH, |is_shared| {
            let others = if callers > 1 { in_one_another(packers, callers - 1) } else { Vec::new() };
            [vec![is_shared], others].concat()
        })
    }

    #[test]
    fn callers_pack_by_themselves_where_there_are_as_many_as_threads() {
        let packers = Packers::new();
        for _ in 0..2 {
            let shared = in_one_another(&packers, 2 * MOST_THREADS);
            let threads =
                packers.pool.get().and_then(Option::as_ref).map_or(0, ThreadPool::current_num_threads);
            let expected =
                (0..2 * MOST_THREADS).map(|before| threads > 0 && (before == 0 || before + 1 < threads));
            assert!(shared.iter().copied().eq(expected), "{shared:?} with {threads} threads");
            assert!(!packers.share(2 * EACH - 1, |is_shared| is_shared), "few paths");
        }
    }

    #[test]
    fn a_worker_of_another_pool_begins_no_other_work_while_it_packs() {
        let (packers, has_begun) = (Packers::new(), AtomicBool::new(false));
        let pack = |is_shared: bool| {
            // A worker that waits for the threads of this pool takes up the other work of its own.
            while is_shared && !has_begun.load(Ordering::Acquire) {
                std::thread::yield_now();
            }
            (is_shared, has_begun.load(Ordering::Acquire))
        };
        let other = ThreadPoolBuilder::new().num_threads(1).build().expect("a thread");
        let (packed, ()) = other.install(|| {
            rayon::join(|| packers.share(2 * EACH, pack), || has_begun.store(true, Ordering::Release))
        });
        assert_eq!(packed, (false, false), "(is shared, the other work has begun)");
    }

    #[test]
    fn several_threads_pack_what_one_packs() {
        let packers = Packers::new();
        for count in [0, 1, EACH, 2 * EACH - 1, 2 * EACH, 5 * EACH + 17] {
            for delimiter in [None, Some(b'\n')] {
                let set = paths(count, delimiter);
                let all = set.view().slice(count.min(1)..count);
                let room = || (vec![7; all.len() * PathRange::SIZE], vec![7; all.text().len() + 3]);
                let ((mut ranges, mut text), (mut by_one, mut text_by_one)) = (room(), room());
                packers.pack(all, 0, &mut ranges, &mut text);
                pack_part(all, 0, 0, &mut by_one, &mut text_by_one);
                assert!(ranges == by_one && text == text_by_one, "{count} paths, {delimiter:?}");
                let read = PathRange::read_all(&ranges).zip(all.iter());
                for (range, path) in read {
                    let found = &text[range.start as usize..][..range.bytes as usize];
                    assert_eq!(found, path);
                }
            }
        }
    }
}
