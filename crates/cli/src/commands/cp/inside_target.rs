//! The volume's side of a copy into the volume: directories that the copy is inside, by inode, so that each
//! step resolves one name.

use super::sink::Sink;
use crate::session::context::Place;
use lanefs::{Ino, path};

/// The target of a copy inside the volume.
pub(super) struct InsideTarget {
    /// The directory in which the user's path begins.
    base: Ino,
    /// Directories that the copy is inside, the innermost last: the length of the path below the target, and
    /// the inode.
    open: Vec<(usize, Ino)>,
}

impl InsideTarget {
    /// A target whose path begins in the directory `base`.
    pub(super) fn new(base: Ino) -> Self {
        InsideTarget { base, open: Vec::new() }
    }

    /// The name `below` the target: empty, or `/a/b`, whose directory the copy is inside. `whole` is the path
    /// with that of the target before it.
    pub(super) fn name<'p>(&mut self, whole: &'p [u8], below: &[u8]) -> Sink<'p> {
        let name = path::file_name(below).unwrap_or_default().len();
        let above = below.len().saturating_sub(name + 1);
        // Those that the copy has left; a directory that could not be read is left without a step.
        while self.open.last().is_some_and(|&(len, _)| len > above || below.is_empty()) {
            self.open.pop();
        }
        match self.open.last() {
            Some(&(_, base)) => {
                let path = &whole[whole.len() - name..];
                Sink::Inside { at: Place { base, path, shown: whole }, given: false }
            }
            None => Sink::Inside {
                at: Place { base: self.base, path: whole, shown: whole },
                given: below.is_empty(),
            },
        }
    }

    /// Enters the directory `ino`, which is `below` the target.
    pub(super) fn enter(&mut self, below: &[u8], ino: Ino) {
        self.open.push((below.len(), ino));
    }
}
