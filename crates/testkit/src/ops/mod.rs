//! Operations as data: generated, printed, replayed and thrown away one by one when a failure is made small.
//!
//! An operation names inodes by path, so that it means the same to every engine and still means something when
//! operations before it are left out.

mod apply;
mod generate;
mod names;
mod profile;

pub use apply::{Outcome, apply};
pub use generate::Generator;
pub use names::{bulk_name, colliding_pairs};
pub use profile::{Limits, PROFILES, Profile};

use crate::seeded::Seeded;
use lanefs::{Allocate, Caller, RenameMode, Seek, SetAttr, XattrMode};
use lanefs_format::FileKind;
use std::fmt;

/// Bytes printed as text where they are, and short where they repeat.
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

/// Data that a seed and a length give: never a zero byte, so that a lost write shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Data {
    /// Length in bytes.
    pub len: usize,
    /// Of the bytes.
    pub seed: u64,
}

impl Data {
    /// The bytes.
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

/// Who calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Who {
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

impl Who {
    /// The users other than root.
    pub const USERS: [Who; 3] = [Who::Ann, Who::Bob, Who::Cid];

    /// The identity.
    pub fn caller(self) -> Caller {
        match self {
            Who::Owner => Caller::OWNER,
            Who::Root => Caller::user(0, 0, &[]),
            Who::Ann => Caller::user(1000, 1000, &[]),
            Who::Bob => Caller::user(1001, 1001, &[1000]),
            Who::Cid => Caller::user(1002, 1002, &[]),
        }
    }
}

/// A directory by its path, and a name in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// Path of the directory; links are followed.
    pub dir: Bytes,
    /// The name.
    pub name: Bytes,
}

/// What a bulk operation makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bulk {
    /// Empty files.
    Files,
    /// Directories.
    Directories,
    /// Hard links to one file, which is made first.
    Links,
    /// Takes away what is there: files or directories.
    Remove,
}

/// One operation.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "fields bear the names of the parameters of lanefs::Volume's calls")]
pub enum Op {
    Create {
        who: Who,
        at: Place,
        perm: u16,
    },
    Mknod {
        who: Who,
        at: Place,
        kind: FileKind,
        perm: u16,
        rdev: u64,
    },
    Mkdir {
        who: Who,
        at: Place,
        perm: u16,
    },
    Symlink {
        who: Who,
        at: Place,
        target: Bytes,
    },
    Link {
        who: Who,
        path: Bytes,
        at: Place,
    },
    Unlink {
        who: Who,
        at: Place,
    },
    Rmdir {
        who: Who,
        at: Place,
    },
    Rename {
        who: Who,
        from: Place,
        to: Place,
        mode: RenameMode,
    },
    RemoveAll {
        at: Place,
    },
    MkdirAll {
        path: Bytes,
        perm: u16,
    },
    Lookup {
        who: Who,
        at: Place,
    },
    Resolve {
        who: Who,
        base: Option<Bytes>,
        paths: Vec<Bytes>,
        follow: bool,
    },
    Stat {
        path: Bytes,
        follow: bool,
    },
    Set {
        who: Who,
        path: Bytes,
        follow: bool,
        set: SetAttr,
    },
    Readlink {
        path: Bytes,
    },
    /// The whole directory in pages of `page` entries.
    List {
        who: Who,
        path: Bytes,
        page: usize,
    },
    /// The same, with one of `between` done after each page.
    ListWhile {
        path: Bytes,
        page: usize,
        between: Vec<Op>,
    },
    Read {
        who: Who,
        path: Bytes,
        offset: u64,
        len: usize,
    },
    Write {
        who: Who,
        path: Bytes,
        offset: u64,
        data: Data,
    },
    Fallocate {
        who: Who,
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
        who: Who,
        path: Bytes,
        follow: bool,
        name: Bytes,
    },
    Setxattr {
        who: Who,
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
        who: Who,
        path: Bytes,
        follow: bool,
        name: Bytes,
    },
    /// `count` names of a series, from number `first` on, each `step` numbers further, all in one directory.
    Bulk {
        dir: Bytes,
        what: Bulk,
        first: u64,
        step: u64,
        count: u64,
    },
    /// Both names of each of `count` pairs with one and the same hash, made or removed.
    Colliding {
        dir: Bytes,
        make: bool,
        count: usize,
    },
    Sync,
    Reopen,
}

impl Op {
    /// The caller, where it is not always the owner.
    pub fn who(&self) -> Who {
        match self {
            Op::Create { who, .. }
            | Op::Mknod { who, .. }
            | Op::Mkdir { who, .. }
            | Op::Symlink { who, .. }
            | Op::Link { who, .. }
            | Op::Unlink { who, .. }
            | Op::Rmdir { who, .. }
            | Op::Rename { who, .. }
            | Op::Lookup { who, .. }
            | Op::Resolve { who, .. }
            | Op::Set { who, .. }
            | Op::List { who, .. }
            | Op::Read { who, .. }
            | Op::Write { who, .. }
            | Op::Fallocate { who, .. }
            | Op::Getxattr { who, .. }
            | Op::Setxattr { who, .. }
            | Op::Removexattr { who, .. } => *who,
            _ => Who::Owner,
        }
    }
}
