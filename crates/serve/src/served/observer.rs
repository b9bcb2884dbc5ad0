//! The client that caches replies, and the notifications after changes that no request has made.
//!
//! A command changes the volume in a thread of its own. Threads that [answer requests](answers_requests) need
//! no notification: the client knows what it has requested. One more thread sends the notifications, because
//! a client may take locks for a request while it handles a notification, and another thread must answer that
//! request.
//!
//! A client ignores a notification of an inode that it does not know. But a reply with the inode's old
//! attributes may still be on its way when they change, and the client would cache them without limit. So the
//! thread repeats a notification of an inode that is held and yet unknown, until the client knows the inode
//! or it is no longer held. Names need no such care: Linux locks the directory for a lookup, and the
//! notification of a name takes the same lock.

use crate::versions::OpenVersion;
use crate::versions::{InodeNumbers, NodeId};
use lanefs::{Changed, Ino, Volume};
use std::cell::Cell;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

/// A client that caches replies, and learns of all changes that it has not requested itself: the kernel of a
/// mount. Without one no reply may be cached.
pub trait Observer: Send + Sync + 'static {
    /// A name of a directory was made, replaced or removed.
    fn name_changed(&self, dir: NodeId, name: &[u8]);

    /// Attributes and content of an inode have changed. False where the client does not know the inode. Then
    /// a reply with the old attributes may still be on its way, and the caller tries again.
    fn node_changed(&self, node: NodeId) -> bool;

    /// The request that this thread answers has changed the times of an inode, which the client does not
    /// expect of such a request. The call must not wait for a request of the client.
    fn times_changed(&self, node: NodeId);
}

/// Pause between two notifications of an inode that the client does not know yet.
const RETRY_PAUSE: Duration = Duration::from_micros(50);
/// Longest time in which a reply reaches the client, or the service receives that the client has forgotten an
/// inode.
const RETRY_TIMEOUT: Duration = Duration::from_secs(2);

/// Name of a service's listener: a volume has one observer.
const LISTENER: &str = "mount";

std::thread_local! {
    static ANSWERS_REQUESTS: Cell<bool> = const { Cell::new(false) };
}

/// True in a thread that answers requests: the client already knows what such a thread changes.
pub(crate) fn answers_requests() -> bool {
    ANSWERS_REQUESTS.get()
}

/// Notes that this thread answers requests.
pub(crate) fn begin_to_answer() {
    ANSWERS_REQUESTS.set(true);
}

enum Notification {
    /// A name in a directory.
    Name(Ino, Vec<u8>),
    /// Attributes and content of an inode.
    Inode(Ino),
    /// The sender is answered once all notifications before this one have been sent.
    Flush(Sender<()>),
}

/// Queue of notifications to be sent.
#[derive(Clone)]
pub(crate) struct Notifications(Sender<Notification>);

impl Notifications {
    /// Starts the thread that tells `observer` of changes of `volume`; `None` where the volume has an
    /// observer already. `is_held` tells whether the client has an inode still.
    ///
    /// # Errors
    /// The host's: no thread.
    pub(crate) fn start(
        volume: &OpenVersion<'_>,
        observer: Arc<dyn Observer>,
        is_held: impl Fn(Ino) -> bool + Send + 'static,
    ) -> std::io::Result<Option<Notifications>> {
        let (sender, queue) = channel();
        let client = Client { observer, numbers: volume.numbers, is_held: Box::new(is_held) };
        let work = move || send_all(&queue, &client);
        std::thread::Builder::new().name("lanefs-invalidate".to_owned()).spawn(work)?;
        let to = sender.clone();
        let root = volume.numbers.root;
        let is_set = volume.on_change_as(LISTENER, move |volume, changed| {
            if answers_requests() {
                return;
            }
            let knows = |ino: Ino| ino == root || volume.is_held(ino);
            let notification = match changed {
                Changed::Name { dir, name } if knows(dir) => Notification::Name(dir, name.to_vec()),
                Changed::Inode(ino) if knows(ino) => Notification::Inode(ino),
                _ => return,
            };
            // Fails only after the service has ended.
            let _ = to.send(notification);
        });
        Ok(is_set.then_some(Notifications(sender)))
    }

    /// Ends the notifications of changes of `volume`.
    pub(crate) fn end(volume: &Volume) {
        volume.forget_listener(LISTENER);
    }

    /// Returns when the client has been notified of all changes of this thread.
    pub(crate) fn flush(&self) {
        let (sender, flushed) = channel();
        if self.0.send(Notification::Flush(sender)).is_ok() {
            let _ = flushed.recv();
        }
    }
}

/// The client of one volume, as the thread sees it.
struct Client {
    observer: Arc<dyn Observer>,
    numbers: InodeNumbers,
    is_held: Box<dyn Fn(Ino) -> bool + Send>,
}

impl Client {
    fn notify_inode(&self, ino: Ino) {
        let begin = Instant::now();
        while !self.observer.node_changed(self.numbers.node(ino)) {
            if !(self.is_held)(ino) || begin.elapsed() > RETRY_TIMEOUT {
                return;
            }
            std::thread::sleep(RETRY_PAUSE);
        }
    }
}

/// Sends notifications until the queue closes.
fn send_all(queue: &Receiver<Notification>, client: &Client) {
    // Changes of one directory often follow each other; one notification of its inode is enough for them.
    let mut last = None;
    for notification in queue {
        match notification {
            Notification::Name(dir, name) => client.observer.name_changed(client.numbers.node(dir), &name),
            Notification::Inode(ino) if last == Some(ino) => {}
            Notification::Inode(ino) => {
                last.replace(ino).into_iter().for_each(|before| client.notify_inode(before));
            }
            Notification::Flush(done) => {
                last.take().into_iter().for_each(|before| client.notify_inode(before));
                let _ = done.send(());
            }
        }
    }
}
