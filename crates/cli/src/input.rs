//! Standard input that Ctrl-C can end.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io::{self, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Standard input, without a buffer. A read that waits looks every tenth of a second whether the user asked to stop,
/// because the signal alone does not end a read that the system restarts.
#[derive(Debug, Default)]
pub struct Input {
    stop: Arc<AtomicBool>,
}

impl Input {
    /// Once this is set, reads end as if the user had asked to stop: for a reader whose results nobody takes any more.
    pub fn stopper(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.stop)
    }
}

impl Read for Input {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        crate::console::with_input(|stdin| {
            loop {
                if crate::interrupt::raised() || self.stop.load(Ordering::Relaxed) {
                    // Not `ErrorKind::Interrupted`, at which the callers in std try again.
                    return Err(io::Error::new(io::ErrorKind::ConnectionAborted, "interrupted"));
                }
                let mut fds = [PollFd::from_borrowed_fd(stdin, PollFlags::IN)];
                let tenth = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
                match poll(&mut fds, Some(&tenth)) {
                    Ok(0) | Err(rustix::io::Errno::INTR) => {}
                    Ok(_) => return Ok(rustix::io::read(stdin, &mut *buffer)?),
                    Err(error) => return Err(error.into()),
                }
            }
        })
    }
}
