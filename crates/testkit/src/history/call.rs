//! Calls and replies as a history stores them.

use super::Runs;
use lanefs::{Code, FileKind, RenameMode};

/// One of [`NAMES`].
pub type Name = &'static str;

/// The names for which calls compete.
pub const NAMES: [Name; 4] = ["a", "b", "c", "d"];

/// A call. It names inodes by the numbers that the target returned.
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
    /// Creates a file with `len` bytes `fill` and these permissions in one step.
    CreateWhole {
        dir: u64,
        name: Name,
        fill: u8,
        len: u16,
        perm: u16,
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
    /// Lists the whole directory in one call.
    List {
        dir: u64,
    },
    /// Writes `len` bytes `fill` at the start of the file; at most a block.
    Write {
        ino: u64,
        fill: u8,
        len: u16,
    },
    /// Reads the whole file.
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
    /// Makes everything durable; no other call can see a difference.
    Sync,
}

impl Call {
    /// Returns the inodes that the call names by their numbers.
    pub(super) fn inodes(&self) -> [Option<u64>; 2] {
        match *self {
            Call::Lookup { dir, .. }
            | Call::Create { dir, .. }
            | Call::CreateWhole { dir, .. }
            | Call::Mkdir { dir, .. }
            | Call::Unlink { dir, .. }
            | Call::Rmdir { dir, .. }
            | Call::List { dir } => [Some(dir), None],
            Call::Getattr { ino }
            | Call::Write { ino, .. }
            | Call::Read { ino }
            | Call::Resize { ino, .. }
            | Call::Chmod { ino, .. } => [Some(ino), None],
            Call::Link { ino, dir, .. } => [Some(ino), Some(dir)],
            Call::Rename { dir, to, .. } => [Some(dir), Some(to)],
            Call::Sync => [None, None],
        }
    }
}

/// Permissions of every new file and directory.
pub(super) const NEW_PERM: u16 = 0o640;
/// Largest file in bytes: one block.
pub(super) const MOST_CONTENT_BYTES: usize = 4096;

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
    /// Size in bytes; 0 for directories, whose size each target defines for itself.
    pub size: u64,
}

/// The reply to a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// Success, without a result.
    Done,
    /// Result of a lookup.
    Found(u64, FileKind),
    /// Result of a call that returns attributes.
    Attributes(Facts),
    /// Result of a listing, in the order of the names.
    Names(Vec<(String, u64, FileKind)>),
    /// Result of a read.
    Content(Runs),
    /// An ordinary failure.
    Failed(Code),
    /// A reply that no order of calls explains: damage, a failed device, a contradiction in itself.
    Broken(String),
}

/// A call and its reply.
#[derive(Clone, Debug)]
pub struct Event {
    /// The calling thread.
    pub thread: usize,
    /// Tick of a clock that all threads share, before the call began.
    pub began: u64,
    /// Tick of the same clock, after the call returned.
    pub ended: u64,
    /// The call.
    pub call: Call,
    /// Its reply.
    pub reply: Reply,
}

impl Event {
    /// Returns true where the call changes no state: it only reads, or it failed. (A rename between two names
    /// of one inode changes nothing either, but its reply does not show it.)
    pub(super) fn is_neutral(&self) -> bool {
        let reads = matches!(
            self.call,
            Call::Lookup { .. } | Call::Getattr { .. } | Call::List { .. } | Call::Read { .. } | Call::Sync
        );
        reads || matches!(self.reply, Reply::Failed(_))
    }
}
