//! Calls of a ring that fail for a while: the kernel has no memory, or was interrupted.

use rustix::io::Errno;
use std::io;
use std::time::Duration;

/// Pause before a call is tried again, at first and at most: each one is twice the last.
const FIRST_PAUSE: Duration = Duration::from_millis(1);
const LONGEST_PAUSE: Duration = Duration::from_millis(250);

/// The pauses between tries of one call. They never end: a process waits for what the call carries.
#[derive(Default)]
pub(super) struct Patience {
    last: Option<Duration>,
}

impl Patience {
    /// Waits after a call that failed, until it is to be tried again.
    ///
    /// # Errors
    /// The same error, where another try is of no use.
    pub(super) fn after(&mut self, error: io::Error) -> io::Result<()> {
        match Errno::from_io_error(&error) {
            Some(Errno::INTR) => Ok(()),
            Some(Errno::AGAIN | Errno::NOMEM | Errno::BUSY | Errno::NOBUFS) => {
                if self.last.is_none() {
                    log::warn!("a queue of the connection to the kernel waits: {error}");
                }
                let pause = self.last.map_or(FIRST_PAUSE, |last| (last * 2).min(LONGEST_PAUSE));
                self.last = Some(pause);
                std::thread::sleep(pause);
                Ok(())
            }
            _ => Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_is_tried_again_as_long_as_memory_is_short() {
        let mut patience = Patience::default();
        for errno in [Errno::AGAIN, Errno::NOMEM, Errno::INTR, Errno::BUSY, Errno::NOBUFS] {
            assert!(patience.after(errno.into()).is_ok(), "{errno}");
        }
        assert_eq!(patience.last, Some(FIRST_PAUSE * 8), "four of them paused");
        for errno in [Errno::NOTCONN, Errno::CONNABORTED, Errno::INVAL] {
            let error = patience.after(errno.into()).expect_err("it is of no use");
            assert_eq!(Errno::from_io_error(&error), Some(errno));
        }
        patience.last = Some(LONGEST_PAUSE);
        assert!(patience.after(Errno::AGAIN.into()).is_ok());
        assert_eq!(patience.last, Some(LONGEST_PAUSE));
    }
}
