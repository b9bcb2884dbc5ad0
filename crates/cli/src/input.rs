//! Standard input that Ctrl-C can end.

use crate::{console, interrupt};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io::{self, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Longest wait for input before the thread checks again whether to stop. A signal alone does not end the
/// wait: the system restarts the call, or delivers the signal to another thread.
const POLL_INTERVAL: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };

/// Standard input, without a buffer. Reads end soon after the user asked to stop.
#[derive(Debug, Default)]
pub struct Input {
    stop: Arc<AtomicBool>,
}

impl Input {
    /// A flag that ends reads as if the user had asked to stop, for a reader whose results are no longer
    /// needed.
    pub fn stopper(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.stop)
    }
}

impl Read for Input {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        console::with_input(|stdin| {
            loop {
                if interrupt::raised() || self.stop.load(Ordering::Relaxed) {
                    // Not `ErrorKind::Interrupted`: callers in std retry on that.
                    return Err(io::Error::new(io::ErrorKind::ConnectionAborted, "interrupted"));
                }
                let mut fds = [PollFd::from_borrowed_fd(stdin, PollFlags::IN)];
                match poll(&mut fds, Some(&POLL_INTERVAL)) {
                    Ok(0) | Err(rustix::io::Errno::INTR) => {}
                    Ok(_) => return Ok(rustix::io::read(stdin, &mut *buffer)?),
                    Err(error) => return Err(error.into()),
                }
            }
        })
    }
}
