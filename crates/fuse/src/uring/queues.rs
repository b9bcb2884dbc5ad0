//! The threads of all queues. A queue belongs to a processor; its requests are those of the processes there.

use super::OnFailure;
use super::exchange::Exchange;
use crate::kernel::MAX_WRITE_BYTES;
use crate::requests::{Request, RequestService};
use rustix::io::Errno;
use rustix::thread::{CpuSet, sched_setaffinity};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};

/// Threads of a queue. One that works has no exchange that waits, so a request that takes long, such as a
/// sync, holds up no other one while there is a second thread.
const THREADS_OF_FEW: usize = 4;
const THREADS_OF_MANY: usize = 2;
/// Queues up to which each has more threads.
const FEW_QUEUES: usize = 8;

/// Starts the threads of all queues of a connection, and returns when the kernel has all exchanges. They end
/// with the connection.
///
/// # Errors
/// The host's. The connection is of no use then.
pub(super) fn start(
    service: &Arc<RequestService>,
    device: &impl AsFd,
    on_failure: &OnFailure,
) -> io::Result<()> {
    let queues = possible_processors()?;
    let threads = threads_of_each(queues);
    let device = Arc::new(device.as_fd().try_clone_to_owned()?);
    let (started, all_started) = channel();
    for queue in 0..queues {
        for _ in 0..threads {
            let (service, started) = (Arc::clone(service), started.clone());
            let (device, on_failure) = (Arc::clone(&device), Arc::clone(on_failure));
            std::thread::Builder::new().name(format!("lanefs-queue-{queue}")).spawn(move || {
                if !run(&service, device, queue as u16, started) {
                    on_failure();
                }
            })?;
        }
    }
    drop(started);
    all_started.into_iter().collect()
}

/// Returns the number of exchanges of all queues.
///
/// # Errors
/// The host's.
pub(super) fn exchanges() -> io::Result<usize> {
    possible_processors().map(|queues| queues * threads_of_each(queues))
}

/// Returns the number of threads, and of exchanges, of each of so many queues.
fn threads_of_each(queues: usize) -> usize {
    if queues <= FEW_QUEUES { THREADS_OF_FEW } else { THREADS_OF_MANY }
}

/// Returns the number of processors that the kernel may ever have: that of its queues.
fn possible_processors() -> io::Result<usize> {
    // A range such as `0-15`; other forms are of machines whose last number counts, too.
    let text = std::fs::read_to_string("/sys/devices/system/cpu/possible")?;
    let last = text.trim().rsplit(['-', ',']).next().and_then(|last| last.parse::<usize>().ok());
    last.map(|last| last + 1).ok_or_else(|| io::ErrorKind::InvalidData.into())
}

/// Serves the requests of one exchange until the connection ends. False where it has failed before.
fn run(service: &RequestService, device: Arc<OwnedFd>, queue: u16, started: Sender<io::Result<()>>) -> bool {
    // A processor that is off, or not for this process, has its queue all the same.
    let mut own = CpuSet::new();
    if usize::from(queue) < CpuSet::MAX_CPU {
        own.set(usize::from(queue));
        let _ = sched_setaffinity(None, &own);
    }
    let registered = Exchange::new(device, queue, MAX_WRITE_BYTES as usize).and_then(|mut exchange| {
        exchange.register()?;
        Ok(exchange)
    });
    match registered {
        Err(error) => {
            // The starter ends the mount.
            let _ = started.send(Err(error));
            true
        }
        Ok(mut exchange) => {
            let _ = started.send(Ok(()));
            // The starter waits until nobody has a sender.
            drop(started);
            let error = loop {
                if let Err(error) = serve_one(service, &mut exchange) {
                    break error;
                }
            };
            let has_ended = matches!(Errno::from_io_error(&error), Some(Errno::NOTCONN | Errno::CONNABORTED));
            if !has_ended {
                log::error!("a queue of the connection to the kernel failed: {error}");
            }
            has_ended
        }
    }
}

/// Waits for a request and serves it.
fn serve_one(service: &RequestService, exchange: &mut Exchange) -> io::Result<()> {
    exchange.wait()?;
    let Some((header, payload)) = exchange.parts() else { return Ok(()) };
    let request = Request { header, payload_bytes: Exchange::payload_bytes(header) };
    let (unique, answer) = (request.unique(), service.answer(&request, payload));
    exchange.reply(unique, answer)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_bounded_by_the_number_of_processors() {
        let mebibytes = |queues| queues * threads_of_each(queues) * MAX_WRITE_BYTES as usize / (1 << 20);
        assert_eq!([1, 2, 8, 9, 256].map(mebibytes), [4, 8, 32, 18, 512]);
    }
}
