//! Operations as data: generated, printed, replayed, and dropped one by one when a failing sequence is
//! shrunk.
//!
//! An operation names inodes by path, so that it means the same to every engine and still means something
//! when operations before it are dropped.

mod apply;
mod generate;
mod names;
mod profile;

pub use apply::{Outcome, apply};
pub use generate::Generator;
pub use names::bulk_name;
pub use profile::{Limits, PROFILES, Profile};

use crate::seeded::Seeded;
use lanefs::{Allocate, Caller, RenameMode, Seek, SetAttr, XattrMode};
use lanefs_format::FileKind;
use std::fmt;

/// Bytes, printed as text where they are text, and short where they repeat.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Bytes(pub Vec<u8>);

impl fmt::Debug for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.len() <= 48 {
            return write!(f, "b\"{}\"", self.0.escape_ascii());
        }
        write!(f, "b\"{}...\" ({} bytes)", self.0[..24].escape_ascii(), self.0.len())
    }
}

/// Data that a seed and a length determine: never a zero byte, so that a lost write shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Data {
    /// Length in bytes.
    pub len: usize,
    /// Seed of the bytes.
    pub seed: u64,
}

impl Data {
    /// Returns the bytes.
    pub fn bytes(self) -> Vec<u8> {
        let mut numbers = Seeded::new(self.seed);
        let mut bytes = Vec::with_capacity(self.len + 8);
        while bytes.len() < self.len {
            bytes.extend_from_slice(&(numbers.bits() | 0x0101_0101_0101_0101).to_le_bytes());
        }
        bytes.truncate(self.len);
        bytes
    }
}

/// The caller of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Identity {
    /// [`Caller::OWNER`].
    Owner,
    /// Uid 0 as a user.
    Root,
    /// Uid 1000 of group 1000.
    Ann,
    /// Uid 1001 of group 1001, and in group 1000.
    Bob,
    /// Uid 1002 of group 1002.
    Cid,
}

impl Identity {
    /// The users other than root.
    pub const USERS: [Identity; 3] = [Identity::Ann, Identity::Bob, Identity::Cid];

    /// Returns the caller's identity.
    pub fn caller(self) -> Caller {
        match self {
            Identity::Owner => Caller::OWNER,
            Identity::Root => Caller::user(0, 0, &[]),
            Identity::Ann => Caller::user(1000, 1000, &[]),
            Identity::Bob => Caller::user(1001, 1001, &[1000]),
            Identity::Cid => Caller::user(1002, 1002, &[]),
        }
    }
}

/// A name in a directory that a path names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EntryPath {
    /// Path of the directory; links are followed.
    pub dir: Bytes,
    /// The name.
    pub name: Bytes,
}

/// The effect of a bulk operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bulk {
    /// Creates empty files.
    Files,
    /// Creates directories.
    Directories,
    /// Creates hard links to one file, which is created first.
    Links,
    /// Removes the names: files or directories.
    Remove,
}

/// One operation.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "fields bear the names of the parameters of lanefs::Volume's calls")]
pub enum Op {
    Create {
        caller: Identity,
        at: EntryPath,
        perm: u16,
    },
    CreateWhole {
        caller: Identity,
        at: EntryPath,
        data: Data,
        set: SetAttr,
    },
    Mknod {
        caller: Identity,
        at: EntryPath,
        kind: FileKind,
        perm: u16,
        rdev: u64,
    },
    Mkdir {
        caller: Identity,
        at: EntryPath,
        perm: u16,
    },
    Symlink {
        caller: Identity,
        at: EntryPath,
        target: Bytes,
    },
    Link {
        caller: Identity,
        path: Bytes,
        at: EntryPath,
    },
    Unlink {
        caller: Identity,
        at: EntryPath,
    },
    Rmdir {
        caller: Identity,
        at: EntryPath,
    },
    Rename {
        caller: Identity,
        from: EntryPath,
        to: EntryPath,
        mode: RenameMode,
    },
    RemoveAll {
        at: EntryPath,
    },
    MkdirAll {
        path: Bytes,
        perm: u16,
    },
    Lookup {
        caller: Identity,
        at: EntryPath,
    },
    Resolve {
        caller: Identity,
        base: Option<Bytes>,
        paths: Vec<Bytes>,
        follow: bool,
    },
    Stat {
        path: Bytes,
        follow: bool,
    },
    Set {
        caller: Identity,
        path: Bytes,
        follow: bool,
        set: SetAttr,
    },
    Readlink {
        path: Bytes,
    },
    /// Lists the whole directory in pages of `page` entries.
    List {
        caller: Identity,
        path: Bytes,
        page: usize,
    },
    /// Lists likewise, and executes one of `between` after each page.
    ListWhile {
        path: Bytes,
        page: usize,
        between: Vec<Op>,
    },
    Read {
        caller: Identity,
        path: Bytes,
        offset: u64,
        len: usize,
    },
    Write {
        caller: Identity,
        path: Bytes,
        offset: u64,
        data: Data,
    },
    Fallocate {
        caller: Identity,
        path: Bytes,
        mode: Allocate,
        offset: u64,
        len: u64,
    },
    Seek {
        path: Bytes,
        offset: u64,
        what: Seek,
    },
    Getxattr {
        caller: Identity,
        path: Bytes,
        follow: bool,
        name: Bytes,
    },
    Setxattr {
        caller: Identity,
        path: Bytes,
        follow: bool,
        name: Bytes,
        value: Data,
        mode: XattrMode,
    },
    Listxattr {
        path: Bytes,
        follow: bool,
    },
    Removexattr {
        caller: Identity,
        path: Bytes,
        follow: bool,
        name: Bytes,
    },
    /// Works on `count` names of a series in one directory, from number `first` on, each `step` numbers
    /// further.
    Bulk {
        dir: Bytes,
        what: Bulk,
        first: u64,
        step: u64,
        count: u64,
    },
    /// Creates or removes `count` of the names with one hash, from number `first` on.
    OneHash {
        dir: Bytes,
        make: bool,
        first: usize,
        count: usize,
    },
    Sync,
    Reopen,
}

impl Op {
    /// Returns the caller, where it is not always the owner.
    pub fn identity(&self) -> Identity {
        match self {
            Op::Create { caller, .. }
            | Op::CreateWhole { caller, .. }
            | Op::Mknod { caller, .. }
            | Op::Mkdir { caller, .. }
            | Op::Symlink { caller, .. }
            | Op::Link { caller, .. }
            | Op::Unlink { caller, .. }
            | Op::Rmdir { caller, .. }
            | Op::Rename { caller, .. }
            | Op::Lookup { caller, .. }
            | Op::Resolve { caller, .. }
            | Op::Set { caller, .. }
            | Op::List { caller, .. }
            | Op::Read { caller, .. }
            | Op::Write { caller, .. }
            | Op::Fallocate { caller, .. }
            | Op::Getxattr { caller, .. }
            | Op::Setxattr { caller, .. }
            | Op::Removexattr { caller, .. } => *caller,
            _ => Identity::Owner,
        }
    }
}
