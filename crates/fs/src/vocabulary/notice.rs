//! Changes as a listener gets them. A listener keeps copies of names and attributes, as the kernel does for a
//! mounted volume.

use super::types::Ino;

/// A change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Changed<'a> {
    /// A name in a directory leads to another inode than before, to a new one, or to none.
    Name {
        /// The directory.
        dir: Ino,
        /// The name.
        name: &'a [u8],
    },
    /// Attributes or content of an inode.
    Inode(Ino),
}
