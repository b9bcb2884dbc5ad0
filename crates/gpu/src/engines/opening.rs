//! Opening a device on a thread of its own, while the CPU engine goes on.

use crate::error::{Error, Result};
use crate::gpu::Gpu;
use crate::vulkan::Choice;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// A device that is being opened. Dropping it waits for the end: a process must not end while a driver is
/// beginning in it.
pub(super) struct Opening {
    /// `None` where no thread could be started, and once its device was taken.
    thread: Option<JoinHandle<(Option<Gpu>, Duration)>>,
    /// The process that has the thread.
    process: u32,
}

impl Opening {
    /// Begins to open the device that was given, or one that may be faster than the CPU engine, after the
    /// work of `before`.
    pub(super) fn begin(
        given: Option<Gpu>,
        choice: &Choice,
        before: impl FnOnce() + Send + 'static,
    ) -> Opening {
        let choice = choice.clone();
        let open = move || {
            let begun = Instant::now();
            before();
            let gpu = given.or_else(|| Gpu::open_hardware(&choice));
            (gpu, begun.elapsed())
        };
        let thread = std::thread::Builder::new().name("lanefs-device".into()).spawn(open).ok();
        Opening { thread, process: std::process::id() }
    }

    /// Tells whether [`take`](Self::take) would not wait. In a forked child it never is: the thread does not
    /// exist there.
    pub(super) fn is_over(&self) -> bool {
        self.is_here() && self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// Waits for the device, and returns it with the time that opening it took; `None` where this machine has
    /// none that could be faster.
    ///
    /// # Errors
    /// The thread could not be started, or has panicked.
    pub(super) fn take(&mut self) -> Result<(Option<Gpu>, Duration)> {
        let gpu = self.thread.take().and_then(|thread| thread.join().ok());
        gpu.ok_or(Error::NoThread)
    }

    fn is_here(&self) -> bool {
        self.process == std::process::id()
    }
}

impl Drop for Opening {
    fn drop(&mut self) {
        match self.thread.take() {
            Some(thread) if self.is_here() => drop(thread.join()),
            // Dropping the handle detaches a thread; one that does not exist is nobody's.
            thread => std::mem::forget(thread),
        }
    }
}
