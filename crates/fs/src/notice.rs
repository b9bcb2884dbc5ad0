//! Changes as they are told to a listener: whoever keeps copies of names and attributes, such as a kernel under which the
//! volume is mounted.

use crate::types::Ino;

/// What was changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Changed<'a> {
    /// A name in a directory leads elsewhere than before, to something new, or nowhere.
    Name {
        /// The directory.
        dir: Ino,
        /// The name.
        name: &'a [u8],
    },
    /// Attributes or content of an inode.
    Inode(Ino),
}
