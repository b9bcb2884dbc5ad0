//! Tells the kernel what changed beside the mount, so that it forgets what it has cached of that.
//!
//! A command changes the volume in a thread of its own; the requests of the kernel, which knows what it asked for, come in threads
//! that [`serve the kernel`](serve_the_kernel). Notes are sent by one more thread: the kernel may hold locks for a request
//! while it takes one in, and that request must find its answer.

use crate::convert::Numbers;
use fuser::Notifier;
use lanefs::{Changed, Ino, Volume};
use std::cell::Cell;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::sync::mpsc::{Receiver, Sender, channel};

enum Note {
    Name(Ino, OsString),
    Inode(Ino),
    /// All notes before this one have been sent.
    Flushed(Sender<()>),
}

/// Notes on their way.
#[derive(Clone)]
pub(crate) struct Notes(Sender<Note>);

std::thread_local! {
    static SERVES_THE_KERNEL: Cell<bool> = const { Cell::new(false) };
}

/// What this thread changes, the kernel has asked for.
pub(crate) fn serve_the_kernel() {
    SERVES_THE_KERNEL.set(true);
}

impl Notes {
    /// Begins to tell of the changes of `volume`.
    ///
    /// # Errors
    /// The host's, when it has no more threads.
    pub(crate) fn start(volume: &Volume, numbers: Numbers, notifier: Notifier) -> std::io::Result<Notes> {
        let (sender, notes) = channel();
        let work = move || send(&notes, numbers, &notifier);
        std::thread::Builder::new().name("lanefs-notes".to_owned()).spawn(work)?;
        let to = sender.clone();
        let root = numbers.root;
        volume.on_change(move |volume, changed| {
            if SERVES_THE_KERNEL.get() {
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

fn send(notes: &Receiver<Note>, numbers: Numbers, notifier: &Notifier) {
    // Many changes of one directory follow each other: it is told of once.
    let mut last = None;
    for note in notes {
        // The kernel refuses what it does not know, which is as well.
        match note {
            Note::Name(dir, name) => {
                let _ = notifier.inval_entry(numbers.number(dir), &name);
            }
            Note::Inode(ino) if last == Some(ino) => {}
            Note::Inode(ino) => {
                if let Some(before) = last.replace(ino) {
                    let _ = notifier.inval_inode(numbers.number(before), 0, 0);
                }
            }
            Note::Flushed(done) => {
                if let Some(before) = last.take() {
                    let _ = notifier.inval_inode(numbers.number(before), 0, 0);
                }
                let _ = done.send(());
            }
        }
    }
}
