//! The kernel's queue of changes.

use rustix::fd::OwnedFd;
use rustix::fs::inotify::{self, CreateFlags, ReadFlags, Reader};
use rustix::io::Errno;
use std::mem::MaybeUninit;

/// Bytes of events that are read at once.
const EVENTS_BYTES: usize = 64 << 10;

/// A queue of events. The kernel ends it, with its watches, when it is closed.
pub(super) fn new() -> Result<OwnedFd, Errno> {
    inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC)
}

/// A change of a directory, or of a name in it.
pub(super) struct Event {
    pub(super) watch: i32,
    pub(super) what: ReadFlags,
    pub(super) name: Option<Vec<u8>>,
}

/// Reads some events; the list is empty once all are read.
pub(super) fn events(queue: &OwnedFd) -> Result<Vec<Event>, Errno> {
    let mut buffer = vec![MaybeUninit::uninit(); EVENTS_BYTES];
    let mut reader = Reader::new(queue, &mut buffer);
    let mut events = Vec::new();
    loop {
        match reader.next() {
            Ok(event) => {
                let name = event.file_name().map(|name| name.to_bytes().to_vec());
                let name = name.filter(|name| !name.is_empty());
                events.push(Event { watch: event.wd(), what: event.events(), name });
            }
            Err(Errno::AGAIN | Errno::INTR) => return Ok(events),
            Err(errno) => return Err(errno),
        }
        if reader.is_buffer_empty() {
            return Ok(events);
        }
    }
}
