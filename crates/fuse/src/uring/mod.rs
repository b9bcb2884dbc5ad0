//! The way of requests through rings (FUSE over io_uring, Linux 6.14): the kernel writes a request into
//! memory that this program waits on, and one system call gives back the reply and waits for the next.
//! Through the device a request takes two, and a change of process each. Forgets and interrupts come through
//! the device.
//!
//! The folder knows the words of the kernel's interface, and must never know a rule of POSIX.

mod descriptors;
mod exchange;
mod patience;
mod queues;

use crate::error::{Error, Result};
use crate::requests::RequestService;
use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;

/// Called when a queue has failed, with requests in it that nobody answers: the mount is to end.
pub(crate) type OnFailure = Arc<dyn Fn() + Send + Sync>;

/// Starts to serve the requests of a connection whose kernel has agreed to use rings. It waits for that.
///
/// # Errors
/// The host's. The connection is of no use then.
pub(crate) fn start(
    service: &Arc<RequestService>,
    device: &impl AsFd,
    on_failure: &OnFailure,
) -> io::Result<()> {
    queues::start(service, device, on_failure)
}

/// Lets this process open a descriptor for each exchange.
///
/// # Errors
/// [`Error::Option`](crate::error::Error::Option): the host does not permit so many. The host's.
pub(crate) fn make_room() -> Result<()> {
    let exchanges = queues::exchanges().map_err(|error| Error::io("counting processors", &error))?;
    descriptors::make_room(exchanges as u64)
}

/// Checks whether this process may make rings. The kernel says only in a connection whether it uses them.
///
/// # Errors
/// The host's: it has none, or does not permit them.
pub(crate) fn check() -> io::Result<()> {
    exchange::Exchange::check()
}
