//! The way of requests through rings (FUSE over io_uring, Linux 6.14): the kernel writes a request into
//! memory that this program waits on, and one system call gives back the reply and waits for the next.
//! Through the device a request takes two, and a change of process each. Forgets and interrupts come through
//! the device.
//!
//! The folder knows the words of the kernel's interface, and must never know a rule of POSIX.

mod exchange;
mod queues;

use crate::requests::RequestService;
use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;

/// Starts to serve the requests of a connection whose kernel has agreed to use rings. It waits for that.
///
/// # Errors
/// The host's. The connection is of no use then.
pub(crate) fn start(service: &Arc<RequestService>, device: &impl AsFd) -> io::Result<()> {
    queues::start(service, device)
}

/// Checks whether this process may make rings. The kernel says only in a connection whether it uses them.
///
/// # Errors
/// The host's: it has none, or does not permit them.
pub(crate) fn check() -> io::Result<()> {
    exchange::Exchange::check()
}
