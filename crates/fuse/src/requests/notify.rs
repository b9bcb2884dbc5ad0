//! The kernel as the client that caches replies.

use super::abi::Out;
use lanefs_serve::{NodeId, Observer};
use rustix::fd::OwnedFd;
use rustix::io::Errno;

/// The kernel's caches of one mount, by the connection to the kernel.
pub(crate) struct KernelCache(pub(crate) OwnedFd);

/// Offset of a notification that leaves the content in the kernel's cache.
const ATTRIBUTES_ONLY: u64 = u64::MAX;

/// Bytes of the header of a notification, and of all but the name of one.
const HEADER_BYTES: usize = 16;
const NODE_BYTES: usize = HEADER_BYTES + 24;
const NAME_BYTES: usize = HEADER_BYTES + 16;

// The kernel refuses all of these where it does not know the name or inode, or the mount has ended.
impl Observer for KernelCache {
    fn name_changed(&self, dir: NodeId, name: &[u8]) {
        let _ = rustix::io::write(&self.0, &name_notification(dir.0, name));
    }

    fn node_changed(&self, node: NodeId) -> bool {
        rustix::io::write(&self.0, &node_notification(node.0, 0)) != Err(Errno::NOENT)
    }

    /// Takes no lock that a request of the inode holds.
    fn times_changed(&self, node: NodeId) {
        let _ = rustix::io::write(&self.0, &node_notification(node.0, ATTRIBUTES_ONLY));
    }
}

/// Encodes a `fuse_out_header`, whose request number is 0 for a notification.
fn header(out: &mut Out<'_>, bytes: usize, kind: u32) {
    out.u32s(&[bytes as u32, kind]);
    out.u64(0);
}

/// Encodes a notification of all attributes of an inode, and of its content from an offset on.
fn node_notification(node: u64, offset: u64) -> [u8; NODE_BYTES] {
    const FUSE_NOTIFY_INVAL_INODE: u32 = 2;
    let mut message = [0; NODE_BYTES];
    let mut out = Out::new(&mut message);
    header(&mut out, NODE_BYTES, FUSE_NOTIFY_INVAL_INODE);
    // Any length.
    out.u64s(&[node, offset, 0]);
    message
}

/// Encodes a notification of a name.
fn name_notification(dir: u64, name: &[u8]) -> Vec<u8> {
    const FUSE_NOTIFY_INVAL_ENTRY: u32 = 3;
    // A NUL ends the name.
    let mut message = vec![0; NAME_BYTES + name.len() + 1];
    let bytes = message.len();
    let mut out = Out::new(&mut message);
    header(&mut out, bytes, FUSE_NOTIFY_INVAL_ENTRY);
    out.u64(dir);
    out.u32s(&[name.len() as u32, 0]);
    out.bytes(name);
    message
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::requests::abi::{u32_at, u64_at};

    #[test]
    fn notifications_have_the_words_of_the_kernels_structures() {
        let node = node_notification(7, ATTRIBUTES_ONLY);
        assert_eq!((u32_at(&node, 0), u32_at(&node, 4), u64_at(&node, 8)), (40, 2, 0));
        assert_eq!([16, 24, 32].map(|at| u64_at(&node, at)), [7, u64::MAX, 0]);
        let name = name_notification(1, b"name");
        assert_eq!((u32_at(&name, 0), u32_at(&name, 4), u64_at(&name, 16)), (37, 3, 1));
        assert_eq!((u32_at(&name, 24), u32_at(&name, 28), &name[32..]), (4, 0, &b"name\0"[..]));
    }
}
