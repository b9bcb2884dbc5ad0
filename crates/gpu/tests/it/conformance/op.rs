//! Changes that own their paths, so that lists of them can be made, printed and made shorter.

use lanefs::RenameMode;
use lanefs::bulk::Change;
use std::fmt;

/// A change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Op {
    Create { path: Vec<u8>, perm: u16, data: Vec<u8> },
    Mkdir { path: Vec<u8>, perm: u16 },
    MkdirAll { path: Vec<u8>, perm: u16 },
    Unlink { path: Vec<u8> },
    Rmdir { path: Vec<u8> },
    Rename { from: Vec<u8>, to: Vec<u8>, mode: RenameMode },
}

/// Changes that an engine gets in one call.
#[derive(Clone, Debug)]
pub(crate) struct Round {
    /// Path of the directory in which relative paths begin; the root where it is none.
    pub(crate) base: Vec<u8>,
    pub(crate) ops: Vec<Op>,
}

impl Op {
    /// For the volume.
    pub(crate) fn change(&self) -> Change<'_> {
        match self {
            Op::Create { path, perm, data } => Change::Create { path, perm: *perm, data },
            Op::Mkdir { path, perm } => Change::Mkdir { path, perm: *perm },
            Op::MkdirAll { path, perm } => Change::MkdirAll { path, perm: *perm },
            Op::Unlink { path } => Change::Unlink { path },
            Op::Rmdir { path } => Change::Rmdir { path },
            Op::Rename { from, to, mode } => Change::Rename { from, to, mode: *mode },
        }
    }

    /// Kind of the file that it makes at its path, if it makes one.
    pub(crate) fn makes(&self) -> Option<&[u8]> {
        match self {
            Op::Create { path, .. } | Op::Mkdir { path, .. } | Op::MkdirAll { path, .. } => Some(path),
            _ => None,
        }
    }
}

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Op::Create { path, perm, data } => {
                write!(f, "create {} {perm:o}, {} bytes", path.escape_ascii(), data.len())
            }
            Op::Mkdir { path, perm } => write!(f, "mkdir {} {perm:o}", path.escape_ascii()),
            Op::MkdirAll { path, perm } => write!(f, "mkdir -p {} {perm:o}", path.escape_ascii()),
            Op::Unlink { path } => write!(f, "unlink {}", path.escape_ascii()),
            Op::Rmdir { path } => write!(f, "rmdir {}", path.escape_ascii()),
            Op::Rename { from, to, mode } => {
                write!(f, "rename {} to {} ({mode:?})", from.escape_ascii(), to.escape_ascii())
            }
        }
    }
}
