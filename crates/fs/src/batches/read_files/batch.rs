//! One call: its arguments, and the threads that it may use.

use super::options::ReadFiles;
use crate::running::volume::Volume;
use std::sync::atomic::{AtomicBool, Ordering};

/// Files that one thread takes at a time.
pub(super) const TOGETHER: usize = 256;

/// Threads of a call: at most, where the caller does not say, and those that wait for a device.
const MOST_THREADS: usize = 64;
const THREADS: usize = 8;
const WAITING_THREADS: usize = 4;

/// One call.
pub(crate) struct FileBatch<'b> {
    pub(crate) volume: &'b Volume,
    pub(crate) options: &'b ReadFiles<'b>,
    /// Set where nobody wants the result any more: the work ends soon, and the files are not all read.
    pub(crate) stop: Option<&'b AtomicBool>,
}

impl FileBatch<'_> {
    pub(super) fn is_stopped(&self) -> bool {
        self.stop.is_some_and(|stop| stop.load(Ordering::Relaxed))
    }

    /// Threads for so many files, of which the fewest that pay for a thread are `least`.
    pub(super) fn threads(&self, files: usize, least: usize, waits: bool) -> usize {
        let threads = match self.options.threads {
            0 => {
                let processors = std::thread::available_parallelism().map_or(1, usize::from).min(THREADS);
                if waits { processors.max(WAITING_THREADS) } else { processors }
            }
            threads => threads.min(MOST_THREADS),
        };
        threads.min(files / least).max(1)
    }
}
