//! Numbers of inodes, as clients of a service have them.

use lanefs::{Attr, Ino};
use std::fmt;
use std::time::Duration;

/// Number by which clients of a service name an inode. It tells the version of the volume, too.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NodeId(pub u64);

impl NodeId {
    /// The root directory, of all versions.
    pub const ROOT: NodeId = NodeId(1);
}

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// An inode in a reply.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// Its number for the client.
    pub node: NodeId,
    /// Its attributes. The generation tells it from earlier inodes of the same number.
    pub attr: Attr,
    /// Time for which the client may cache the attributes and the name that led to them.
    pub validity: Duration,
}

/// Answer to a lookup.
#[derive(Clone, Copy, Debug)]
pub enum Lookup {
    /// The inode, to which the client has a reference now.
    Found(Entry),
    /// There is no such name, and for this time the client may rely on it.
    Missing(Duration),
}

/// Bits of an inode number of a volume: positions have 51, and an inode has 128 bytes at least.
const INODE_BITS: u32 = 44;
/// Versions that a service can have at a time. With them the numbers of nodes have 52 bits, which programs
/// that take numbers for floating-point ones still represent.
pub(crate) const VERSIONS: usize = 1 << u8::BITS;

/// Conversion of inode numbers of one version. The root directory is node 1 in all versions; no inode of a
/// volume has that number, because the superblock is at that position. Every other node has the version
/// above the volume's number.
#[derive(Clone, Copy)]
pub(crate) struct InodeNumbers {
    pub(crate) root: Ino,
    pub(crate) version: u8,
}

impl InodeNumbers {
    /// Converts a node.
    pub(crate) fn ino(self, node: NodeId) -> Ino {
        if node == NodeId::ROOT { self.root } else { Ino(node.0 & ((1 << INODE_BITS) - 1)) }
    }

    /// Returns the version of a node other than the root.
    pub(crate) fn version(node: NodeId) -> u8 {
        (node.0 >> INODE_BITS) as u8
    }

    /// Returns the node of an inode.
    pub(crate) fn node(self, ino: Ino) -> NodeId {
        if ino == self.root {
            return NodeId::ROOT;
        }
        NodeId(ino.0 & ((1 << INODE_BITS) - 1) | u64::from(self.version) << INODE_BITS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_root_is_one_in_all_versions_and_nothing_else_is() {
        let numbers = InodeNumbers { root: Ino(4711), version: 0 };
        assert_eq!(numbers.node(Ino(4711)), NodeId::ROOT);
        assert_eq!(numbers.ino(NodeId::ROOT), Ino(4711));
        assert_eq!(numbers.ino(NodeId(4712)), Ino(4712));
        let later = InodeNumbers { version: 255, ..numbers };
        assert_eq!(later.node(Ino(4711)), NodeId::ROOT);
        let node = later.node(Ino(4712));
        assert_eq!((later.ino(node), InodeNumbers::version(node)), (Ino(4712), 255));
        assert!(node.0 < 1 << 52, "{node}");
        assert_eq!(InodeNumbers::version(numbers.node(Ino(u64::MAX))), 0, "a number of a damaged entry");
    }
}
