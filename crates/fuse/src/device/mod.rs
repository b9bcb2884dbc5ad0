//! The way of requests through `/dev/fuse`: a read for each request, and a write for its reply. Each thread
//! has a connection of its own, so that replies do not share a queue.
//!
//! The folder knows the words of the kernel's interface, and must never know a rule of POSIX.

mod agreement;
mod message;

use crate::kernel::clone_connection;
use crate::requests::RequestService;
use crate::requests::abi::opcode;
use message::{Message, Received};
use rustix::fd::{BorrowedFd, OwnedFd};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

pub(crate) use agreement::{Wishes, agree};

/// Returns the connections of all threads but the first one, of which there are so many.
///
/// # Errors
/// The host's: no descriptor.
pub(crate) fn further_connections(connection: BorrowedFd<'_>, threads: usize) -> io::Result<Vec<OwnedFd>> {
    further_by(connection, threads, clone_connection)
}

/// [`further_connections`] by a function that makes one. Where it fails, a thread shares the first
/// connection, which is as right: only the queue of replies is shared as well.
fn further_by(
    connection: BorrowedFd<'_>,
    threads: usize,
    further: impl Fn(BorrowedFd<'_>) -> io::Result<OwnedFd>,
) -> io::Result<Vec<OwnedFd>> {
    let one = |_| {
        further(connection).or_else(|error| {
            log::warn!("a thread for requests shares a connection to the kernel: {error}");
            connection.try_clone_to_owned()
        })
    };
    (1..threads).map(one).collect()
}

/// Serves the requests of a connection until it ends: by this thread, and by one more for each further
/// connection. So there is always a thread that serves, and threads that the host does not give are missing
/// only.
///
/// # Errors
/// The host's. A thread has panicked.
pub(crate) fn serve(
    service: &Arc<RequestService>,
    connection: OwnedFd,
    further: Vec<OwnedFd>,
) -> io::Result<()> {
    let mut running = Vec::with_capacity(further.len());
    for (number, connection) in further.into_iter().enumerate() {
        let service = Arc::clone(service);
        let thread = std::thread::Builder::new().name(format!("lanefs-device-{number}"));
        match thread.spawn(move || serve_all(&service, &connection)) {
            Ok(thread) => running.push(thread),
            Err(error) => log::warn!("a thread for requests cannot start, so there are fewer: {error}"),
        }
    }
    // A panic leaves nothing half done that the closure owns. The service is shared: after a panic of any
    // thread the others go on with it.
    let own = outcome(catch_unwind(AssertUnwindSafe(move || serve_all(service, &connection))));
    running.into_iter().map(|thread| outcome(thread.join())).fold(own, Result::and)
}

/// The outcome of a thread that serves. A panic is an error.
fn outcome(ended: std::thread::Result<io::Result<()>>) -> io::Result<()> {
    ended.unwrap_or_else(|_| Err(io::Error::other("a thread that serves requests has panicked")))
}

/// Serves the requests of one connection.
fn serve_all(service: &RequestService, connection: &OwnedFd) -> io::Result<()> {
    let mut message = Message::new(service.has_long_setxattr);
    while message.receive(connection)? == Received::Request {
        let (request, payload) = message.parts();
        let unique = request.unique();
        match request.opcode() {
            // These have no reply.
            opcode::FORGET | opcode::BATCH_FORGET => service.forget(&request, payload),
            opcode::DESTROY => {
                message.reply(connection, unique, Ok(0));
                break;
            }
            _ => {
                let answer = service.answer(&request, payload);
                message.reply(connection, unique, answer);
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fd::AsFd;
    use rustix::io::Errno;
    use std::io::{Read, Write};
    use std::os::unix::net::UnixStream;

    fn refused(_: BorrowedFd<'_>) -> io::Result<OwnedFd> {
        Err(Errno::MFILE.into())
    }

    #[test]
    fn threads_share_a_connection_where_the_host_gives_no_further_one() {
        let (near, mut far) = UnixStream::pair().expect("a pair");
        let further = further_by(near.as_fd(), 3, refused).expect("shared");
        assert_eq!(further.len(), 2);
        for connection in further {
            UnixStream::from(connection).write_all(b"x").expect("the other end is there");
            far.read_exact(&mut [0]).expect("it is the same connection");
        }
        assert_eq!(further_by(near.as_fd(), 1, refused).expect("none").len(), 0);
    }

    #[test]
    fn a_thread_that_panicked_has_failed() {
        assert!(outcome(Ok(Ok(()))).is_ok());
        assert!(outcome(Ok(Err(Errno::IO.into()))).is_err());
        assert!(outcome(Err(Box::new("why"))).is_err());
    }
}
