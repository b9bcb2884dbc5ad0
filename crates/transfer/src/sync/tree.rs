//! The interface of one side of a comparison: a tree whose directories are listed, and whose files are read.

use super::failure::Failure;
use super::node::{Name, Node, Xattrs};
use super::walked::WalkedNames;
use crate::import::content::Copied;
use crate::running::job::TransferJob;
use crate::vocabulary::xattrs::XattrBuffers;
use lanefs::{FileKind, FileSystem, Ino};
use std::ffi::CStr;
use std::mem::MaybeUninit;

/// Bytes of each side that one step of a comparison of contents reads.
pub(crate) const COMPARED_BYTES: usize = 1 << 20;

/// Buffers of one thread, reused from file to file.
pub(crate) struct Buffers {
    /// Empty until a content is copied or compared: 4 MiB that a thread without one does without.
    pub(crate) content: Vec<u8>,
    /// Of the other side, in a comparison of contents; empty until there is one.
    pub(crate) other: Vec<u8>,
    pub(crate) entries: Vec<MaybeUninit<u8>>,
    pub(crate) xattrs: XattrBuffers,
    /// The names of the directory that was walked last, if it is compared now.
    pub(crate) walked: WalkedNames,
}

impl Buffers {
    pub(crate) fn new() -> Self {
        Buffers {
            content: Vec::new(),
            other: Vec::new(),
            entries: vec![MaybeUninit::uninit(); 64 << 10],
            xattrs: XattrBuffers::new(),
            walked: WalkedNames::default(),
        }
    }
}

/// One side of a comparison. Several threads use it at the same time. No call follows a symbolic link.
pub(crate) trait Tree: Sync {
    /// A directory.
    type Dir: Clone + Send + Sync;
    /// A file that is open for reading.
    type File: Send;

    /// The path of a name, from its path below the top, for messages.
    fn path(&self, below: &[u8]) -> Vec<u8>;

    /// Returns the number of names in the whole tree, about; `None` where the side does not know it.
    fn expected(&self) -> Option<u64> {
        None
    }

    /// True where times without a fraction are any of their second.
    fn is_in_seconds(&self) -> bool {
        false
    }

    /// Lists a directory, in no order: calls `each` with a name, the type of its file and the inode number.
    fn names(
        &self,
        job: &TransferJob<'_>,
        buffers: &mut Buffers,
        dir: &Self::Dir,
        each: &mut dyn FnMut(&CStr, FileKind, u64),
    ) -> Result<(), Failure>;

    /// Returns the inode number of a directory.
    fn number(&self, dir: &Self::Dir) -> Ino;

    /// Lists a directory with its files, in no order: calls `each` with a name and its file. A name that is
    /// gone meanwhile is left out.
    fn each_node(
        &self,
        job: &TransferJob<'_>,
        buffers: &mut Buffers,
        dir: &Self::Dir,
        each: &mut dyn FnMut(&CStr, &Node),
    ) -> Result<(), Failure>;

    /// Returns the file of a name.
    fn node(&self, dir: &Self::Dir, name: &Name) -> Result<Node, Failure>;

    /// Finds one name of a directory; `None` where it is not there.
    fn lookup(&self, dir: &Self::Dir, name: &CStr) -> Result<Option<Name>, Failure>;

    /// Returns the files of several names, in one call where the side has one; `None` for a name that is
    /// gone.
    fn nodes(&self, dir: &Self::Dir, names: &[&Name]) -> Result<Vec<Option<Node>>, Failure>;

    /// Prepares to find these names, each in its directory, where that is a gain.
    fn bring(&self, _names: &[(&Self::Dir, &CStr)]) {}

    /// Opens the directory of a name.
    fn enter(&self, dir: &Self::Dir, name: &Name, node: &Node) -> Result<Self::Dir, Failure>;

    /// As [`enter`](Self::enter), of a directory that is entered later on, too.
    fn look_into(&self, dir: &Self::Dir, name: &Name, node: &Node) -> Result<Self::Dir, Failure>;

    /// Reads the extended attributes of a name in a directory, or of the directory itself. Those that were
    /// refused, or are not kept by transfers, are left out.
    fn xattrs(
        &self,
        buffers: &mut Buffers,
        dir: &Self::Dir,
        name: Option<&CStr>,
        node: &Node,
    ) -> Result<Xattrs, Failure>;

    /// Reads the target of a symbolic link.
    fn link_target(&self, dir: &Self::Dir, name: &CStr, node: &Node) -> Result<Vec<u8>, Failure>;

    /// Opens a regular file, and returns what it is by now.
    fn open(&self, dir: &Self::Dir, name: &CStr, node: &Node) -> Result<(Self::File, Node), Failure>;

    /// Opens a regular file of which nothing is known yet, and returns what it is; `None` where that is no
    /// gain, or fails.
    fn open_unseen(&self, _dir: &Self::Dir, _name: &CStr) -> Option<(Self::File, Node)> {
        None
    }

    /// Reads until `buffer` is full or the file ends; returns the number of bytes.
    fn read(&self, file: &Self::File, offset: u64, buffer: &mut [u8]) -> Result<usize, Failure>;

    /// Returns the offset of the next data at or after `offset`; `None` where only a hole or nothing follows.
    fn next_data(&self, file: &Self::File, offset: u64) -> Result<Option<u64>, Failure>;
}

/// A tree from which files are copied into a volume.
pub(crate) trait Source: Tree {
    /// Reads the whole content of a small file; `None` where it is not of the size that `node` says, or has
    /// changed since.
    fn read_whole(&self, file: &Self::File, node: &Node) -> Result<Option<Vec<u8>>, Failure>;

    /// Reads the extended attributes of a file that is open: those of the content, whatever has its name by
    /// now.
    fn xattrs_of(&self, buffers: &mut Buffers, file: &Self::File) -> Result<Xattrs, Failure>;

    /// The terms by which this side answers; `None` where a sync from it is not recorded.
    fn terms(&self) -> Option<Vec<Vec<u8>>> {
        None
    }

    /// Returns the number of extended attributes that the side refused to give, or that transfers do not
    /// keep.
    fn refused(&self) -> u64;

    /// Copies the content of a file to the new, empty file `ino` of a volume.
    fn copy(
        &self,
        job: &TransferJob<'_>,
        buffer: &mut [u8],
        file: &Self::File,
        node: &Node,
        to: (&dyn FileSystem, Ino),
    ) -> Result<Copied, Failure>;
}
