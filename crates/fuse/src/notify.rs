//! Invalidation of the kernel's caches after changes beside the mount.
//!
//! A command changes the volume in a thread of its own. Threads that [serve the kernel](serves_the_kernel)
//! need no invalidation: the kernel knows what it requested. One more thread sends the notifications, because
//! the kernel may take locks for a request while it handles a notification, and another thread must serve
//! that request.
//!
//! The kernel ignores a notification of an inode that it does not know. But a reply with the inode's old
//! attributes may still be on its way when they change, and the kernel would cache them without limit. So the
//! thread repeats a notification of an inode that is held and yet unknown, until the kernel knows the inode
//! or it is no longer held. Names need no such care: the kernel locks the directory for a lookup, and the
//! notification of a name takes the same lock.

use crate::convert::InodeNumbers;
use crate::error::{Error, Result};
use crate::served::{Served, serves_the_kernel};
use crate::versions::OpenVersion;
use fuser::Notifier;
use lanefs::{Changed, Ino};
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStringExt;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

/// Pause between two notifications of an inode that the kernel does not know yet.
const RETRY_PAUSE: Duration = Duration::from_micros(50);
/// Longest time in which a reply reaches the kernel, or the server receives that the kernel has forgotten an
/// inode.
const RETRY_TIMEOUT: Duration = Duration::from_secs(2);

/// Name of a mount's listener: a volume has one mount.
pub(crate) const LISTENER: &str = "mount";

enum Invalidation {
    /// A name in a directory.
    Name(Ino, OsString),
    /// Attributes and content of an inode.
    Inode(Ino),
    /// The sender is answered once all notifications before this one have been sent.
    Flush(Sender<()>),
}

/// Queue of invalidations to be sent.
#[derive(Clone)]
pub(crate) struct Invalidations(Sender<Invalidation>);

impl Invalidations {
    /// Starts the thread that sends invalidations of changes of `volume`. A mount that can be changed has one
    /// version for ever.
    ///
    /// # Errors
    /// [`Error::Option`]: the volume is mounted already. The host's, when it cannot start a thread.
    pub(crate) fn start(
        volume: &OpenVersion<'_>,
        served: &Arc<Served>,
        notifier: Notifier,
        connection: OwnedFd,
    ) -> Result<Invalidations> {
        let (sender, queue) = channel();
        let kernel =
            KernelCache { notifier, connection, numbers: volume.numbers, served: Arc::downgrade(served) };
        let work = move || send_all(&queue, &kernel);
        std::thread::Builder::new()
            .name("lanefs-invalidate".to_owned())
            .spawn(work)
            .map_err(|error| Error::io("starting a thread", &error))?;
        let to = sender.clone();
        let root = volume.numbers.root;
        let is_set = volume.on_change_as(LISTENER, move |volume, changed| {
            if serves_the_kernel() {
                return;
            }
            let knows = |ino: Ino| ino == root || volume.is_held(ino);
            let invalidation = match changed {
                Changed::Name { dir, name } if knows(dir) => {
                    Invalidation::Name(dir, OsString::from_vec(name.to_vec()))
                }
                Changed::Inode(ino) if knows(ino) => Invalidation::Inode(ino),
                _ => return,
            };
            // Fails only after the mount has ended.
            let _ = to.send(invalidation);
        });
        if !is_set {
            return Err(Error::Option(
                "the volume is mounted already; bind that directory to another one".into(),
            ));
        }
        Ok(Invalidations(sender))
    }

    /// Returns when the kernel has been notified of all changes of this thread.
    pub(crate) fn flush(&self) {
        let (sender, flushed) = channel();
        if self.0.send(Invalidation::Flush(sender)).is_ok() {
            let _ = flushed.recv();
        }
    }
}

/// The kernel's caches of one mount.
struct KernelCache {
    notifier: Notifier,
    connection: OwnedFd,
    numbers: InodeNumbers,
    /// Weak, because the volume in it has the sender of the queue.
    served: Weak<Served>,
}

impl KernelCache {
    // The kernel refuses both where it does not know the name or inode, or the mount has ended.

    fn invalidate_name(&self, dir: Ino, name: &OsStr) {
        let _ = self.notifier.inval_entry(self.numbers.number(dir), name);
    }

    fn invalidate_inode(&self, ino: Ino) {
        let begin = Instant::now();
        // The library's notifier does not return whether the kernel knows the inode.
        let message = inode_notification(self.numbers.number(ino).0);
        while rustix::io::write(&self.connection, &message) == Err(Errno::NOENT) {
            if !self.is_held(ino) || begin.elapsed() > RETRY_TIMEOUT {
                return;
            }
            std::thread::sleep(RETRY_PAUSE);
        }
    }

    fn is_held(&self, ino: Ino) -> bool {
        let served = self.served.upgrade();
        served.is_some_and(|served| served.versions.current().open().is_ok_and(|volume| volume.is_held(ino)))
    }
}

/// Encodes a `struct fuse_out_header` and a `fuse_notify_inval_inode_out` for all attributes and content of
/// an inode.
fn inode_notification(number: u64) -> [u8; 40] {
    const FUSE_NOTIFY_INVAL_INODE: u32 = 2;
    let mut message = [0; 40];
    let size = message.len() as u32;
    message[..4].copy_from_slice(&size.to_ne_bytes());
    message[4..8].copy_from_slice(&FUSE_NOTIFY_INVAL_INODE.to_ne_bytes());
    // The request number (8..16) is 0 for a notification. Range: offset 0 (24..32), any length (32..40).
    message[16..24].copy_from_slice(&number.to_ne_bytes());
    message
}

/// Sends invalidations until the queue closes.
fn send_all(queue: &Receiver<Invalidation>, kernel: &KernelCache) {
    // Changes of one directory often follow each other; one notification of its inode is enough for them.
    let mut last = None;
    for invalidation in queue {
        match invalidation {
            Invalidation::Name(dir, name) => kernel.invalidate_name(dir, &name),
            Invalidation::Inode(ino) if last == Some(ino) => {}
            Invalidation::Inode(ino) => {
                last.replace(ino).into_iter().for_each(|before| kernel.invalidate_inode(before));
            }
            Invalidation::Flush(done) => {
                last.take().into_iter().for_each(|before| kernel.invalidate_inode(before));
                let _ = done.send(());
            }
        }
    }
}
