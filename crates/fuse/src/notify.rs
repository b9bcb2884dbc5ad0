//! Tells the kernel what changed beside the mount, so that it forgets what it has cached of that.
//!
//! A command changes the volume in a thread of its own; the requests of the kernel, which knows what it asked for, come in threads
//! that [serve the kernel](serves_the_kernel). Notes are sent by one more thread: the kernel may hold locks for a request
//! while it takes one in, and that request must find its answer.
//!
//! The kernel passes over a note of an inode that it does not know. But attributes may have been read, and be on their way to it, when
//! they change; it would believe them for ever. So a note of an inode that is held, and yet unknown, is sent again until it is one or the
//! other. (Names need no such care: while the kernel asks for one it holds the lock of the directory, which a note of a name takes.)

use crate::convert::Numbers;
use crate::served::{Served, serves_the_kernel};
use fuser::Notifier;
use lanefs::{Changed, Ino, Volume};
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStringExt;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

/// Between two notes of an inode that is on its way to the kernel.
const PAUSE: Duration = Duration::from_micros(50);
/// How long an inode may be on its way; or on its way back, when the kernel has forgotten it.
const PATIENCE: Duration = Duration::from_secs(2);

enum Note {
    Name(Ino, OsString),
    Inode(Ino),
    /// All notes before this one have been sent.
    Flushed(Sender<()>),
}

/// Notes on their way.
#[derive(Clone)]
pub(crate) struct Notes(Sender<Note>);

impl Notes {
    /// Begins to tell of the changes of `volume`.
    ///
    /// # Errors
    /// The host's, when it has no more threads.
    pub(crate) fn start(
        volume: &Volume,
        served: &Arc<Served>,
        notifier: Notifier,
        connection: OwnedFd,
    ) -> std::io::Result<Notes> {
        let (sender, notes) = channel();
        let kernel = Kernel { notifier, connection, numbers: served.numbers, served: Arc::downgrade(served) };
        let numbers = served.numbers;
        let work = move || send(&notes, &kernel);
        std::thread::Builder::new().name("lanefs-notes".to_owned()).spawn(work)?;
        let to = sender.clone();
        let root = numbers.root;
        volume.on_change(move |volume, changed| {
            if serves_the_kernel() {
                return;
            }
            let knows = |ino: Ino| ino == root || volume.is_held(ino);
            let note = match changed {
                Changed::Name { dir, name } if knows(dir) => {
                    Note::Name(dir, OsString::from_vec(name.to_vec()))
                }
                Changed::Inode(ino) if knows(ino) => Note::Inode(ino),
                _ => return,
            };
            // Without a receiver the mount has ended.
            let _ = to.send(note);
        });
        Ok(Notes(sender))
    }

    /// Returns when the kernel has heard of everything that this thread has changed.
    pub(crate) fn flush(&self) {
        let (sender, flushed) = channel();
        if self.0.send(Note::Flushed(sender)).is_ok() {
            let _ = flushed.recv();
        }
    }
}

/// Who is told.
struct Kernel {
    notifier: Notifier,
    connection: OwnedFd,
    numbers: Numbers,
    /// Not for good: the volume, which is in there, has the sender of the notes.
    served: Weak<Served>,
}

impl Kernel {
    // Both may be refused: then the kernel knows no such thing, or the mount has ended.

    fn forget_name(&self, dir: Ino, name: &OsStr) {
        let _ = self.notifier.inval_entry(self.numbers.number(dir), name);
    }

    fn forget_inode(&self, ino: Ino) {
        let begin = Instant::now();
        // Not by the notifier, which does not say whether the inode is known.
        let note = inode_note(self.numbers.number(ino).0);
        while rustix::io::write(&self.connection, &note) == Err(Errno::NOENT) {
            if !self.is_held(ino) || begin.elapsed() > PATIENCE {
                return;
            }
            std::thread::sleep(PAUSE);
        }
    }

    fn is_held(&self, ino: Ino) -> bool {
        let served = self.served.upgrade();
        served.is_some_and(|served| served.volume.read().as_ref().is_some_and(|volume| volume.is_held(ino)))
    }
}

/// The kernel's `struct fuse_out_header` for a note, and `fuse_notify_inval_inode_out` for all attributes and content.
fn inode_note(number: u64) -> [u8; 40] {
    const INODE: u32 = 2;
    let mut note = [0; 40];
    let size = note.len() as u32;
    note[..4].copy_from_slice(&size.to_ne_bytes());
    note[4..8].copy_from_slice(&INODE.to_ne_bytes());
    // No request (8..16): it is a note. From offset 0 (24..32), of any length (32..40).
    note[16..24].copy_from_slice(&number.to_ne_bytes());
    note
}

fn send(notes: &Receiver<Note>, kernel: &Kernel) {
    // Many changes of one directory follow each other: it is told of once.
    let mut last = None;
    for note in notes {
        match note {
            Note::Name(dir, name) => kernel.forget_name(dir, &name),
            Note::Inode(ino) if last == Some(ino) => {}
            Note::Inode(ino) => last.replace(ino).into_iter().for_each(|before| kernel.forget_inode(before)),
            Note::Flushed(done) => {
                last.take().into_iter().for_each(|before| kernel.forget_inode(before));
                let _ = done.send(());
            }
        }
    }
}
