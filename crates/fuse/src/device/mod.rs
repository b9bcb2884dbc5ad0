//! The way of requests through `/dev/fuse`: a read for each request, and a write for its reply. Each thread
//! has a connection of its own, so that replies do not share a queue.
//!
//! The folder knows the words of the kernel's interface, and must never know a rule of POSIX.

mod agreement;
mod message;

use crate::kernel::clone_connection;
use crate::requests::RequestService;
use crate::requests::abi::opcode;
use message::{Message, receive, send};
use rustix::fd::{AsFd, OwnedFd};
use std::io;
use std::sync::Arc;

pub(crate) use agreement::{Wishes, agree};

/// Serves the requests of a connection by so many threads, until it ends.
///
/// # Errors
/// The host's: no thread or no further connection.
pub(crate) fn serve(service: &Arc<RequestService>, connection: OwnedFd, threads: usize) -> io::Result<()> {
    let mut connections = Vec::with_capacity(threads);
    for _ in 1..threads {
        connections.push(clone_connection(connection.as_fd())?);
    }
    connections.push(connection);
    let mut running = Vec::with_capacity(threads);
    for (number, connection) in connections.into_iter().enumerate() {
        let service = Arc::clone(service);
        let thread = std::thread::Builder::new().name(format!("lanefs-device-{number}"));
        running.push(thread.spawn(move || serve_all(&service, &connection))?);
    }
    let ends = running.into_iter().map(|thread| thread.join().unwrap_or(Ok(())));
    ends.fold(Ok(()), Result::and)
}

/// Serves the requests of one connection.
fn serve_all(service: &RequestService, connection: &OwnedFd) -> io::Result<()> {
    let mut message = Message::new();
    while receive(connection.as_fd(), &mut message)? {
        let (request, payload) = message.parts();
        match request.opcode() {
            // These have no reply.
            opcode::FORGET | opcode::BATCH_FORGET => service.forget(&request, payload),
            opcode::DESTROY => {
                send(connection.as_fd(), request.unique(), Ok(0), &[]);
                break;
            }
            _ => {
                let answer = service.serve(&request, payload).map_err(|errno| errno.code());
                send(connection.as_fd(), request.unique(), answer, payload);
            }
        }
    }
    Ok(())
}
