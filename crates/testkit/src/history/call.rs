//! Calls and answers as a history keeps them.

use super::Runs;
use lanefs::{Code, FileKind, RenameMode};

/// One of [`NAMES`].
pub type Name = &'static str;

/// The names that calls fight over.
pub const NAMES: [Name; 4] = ["a", "b", "c", "d"];

/// A call. Inodes are named by their number, as the target gave it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "fields bear the names of the parameters of lanefs::Volume's calls")]
pub enum Call {
    Lookup {
        dir: u64,
        name: Name,
    },
    Getattr {
        ino: u64,
    },
    Create {
        dir: u64,
        name: Name,
    },
    Mkdir {
        dir: u64,
        name: Name,
    },
    Link {
        ino: u64,
        dir: u64,
        name: Name,
    },
    Unlink {
        dir: u64,
        name: Name,
    },
    Rmdir {
        dir: u64,
        name: Name,
    },
    Rename {
        dir: u64,
        name: Name,
        to: u64,
        new: Name,
        mode: RenameMode,
    },
    /// The whole directory in one call.
    List {
        dir: u64,
    },
    /// `len` bytes `fill` at the start of the file; at most a block.
    Write {
        ino: u64,
        fill: u8,
        len: u16,
    },
    /// The whole file.
    Read {
        ino: u64,
    },
    Resize {
        ino: u64,
        size: u16,
    },
    Chmod {
        ino: u64,
        perm: u16,
    },
    /// Changes nothing that can be seen.
    Sync,
}

/// Permissions of every new file and directory.
pub(super) const NEW_PERM: u16 = 0o640;
/// A whole file is at most this long, in bytes: one block.
pub(super) const MOST_CONTENT: usize = 4096;

/// The attributes that are compared. Times are not: they say nothing about order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Facts {
    /// Inode number.
    pub ino: u64,
    /// Type.
    pub kind: FileKind,
    /// Permission bits.
    pub perm: u16,
    /// Link count.
    pub links: u32,
    /// Size in bytes; 0 for directories, whose size is the target's own affair.
    pub size: u64,
}

/// An answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// Nothing but success.
    Done,
    /// Of a lookup.
    Found(u64, FileKind),
    /// Of whatever gives attributes.
    Attributes(Facts),
    /// Of a listing, in the order of the names.
    Names(Vec<(String, u64, FileKind)>),
    /// Of a read.
    Content(Runs),
    /// An ordinary failure.
    Failed(Code),
    /// What no order of calls explains: damage, a failed device, an answer that contradicts itself.
    Broken(String),
}

/// A call that was made.
#[derive(Clone, Debug)]
pub struct Event {
    /// By which thread.
    pub thread: usize,
    /// Ticks of one clock that all threads share: before the call began...
    pub began: u64,
    /// ...and after it returned.
    pub ended: u64,
    /// The call.
    pub call: Call,
    /// Its answer.
    pub reply: Reply,
}

impl Event {
    /// True where the call changed nothing, in whatever state it was made: it only reads, or it failed. (A rename between
    /// two names of one inode changes nothing either, but its answer does not say so.)
    pub(super) fn is_neutral(&self) -> bool {
        let reads = matches!(
            self.call,
            Call::Lookup { .. } | Call::Getattr { .. } | Call::List { .. } | Call::Read { .. } | Call::Sync
        );
        reads || matches!(self.reply, Reply::Failed(_))
    }
}
