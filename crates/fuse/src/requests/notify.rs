//! The kernel as the client that caches replies.

use super::convert::number;
use fuser::Notifier;
use lanefs_serve::{NodeId, Observer};
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

/// Offset of a notification that leaves the content in the kernel's cache.
const ATTRIBUTES_ONLY: i64 = -1;

/// The kernel's caches of one mount.
pub(crate) struct KernelCache {
    pub(crate) notifier: Notifier,
    /// The connection to the kernel. The library's notifier does not return whether the kernel knows an
    /// inode.
    pub(crate) connection: OwnedFd,
}

// The kernel refuses all of these where it does not know the name or inode, or the mount has ended.
impl Observer for KernelCache {
    fn name_changed(&self, dir: NodeId, name: &[u8]) {
        let _ = self.notifier.inval_entry(number(dir), OsStr::from_bytes(name));
    }

    fn node_changed(&self, node: NodeId) -> bool {
        rustix::io::write(&self.connection, &inode_notification(node.0)) != Err(Errno::NOENT)
    }

    /// Takes no lock that a request of the inode holds.
    fn times_changed(&self, node: NodeId) {
        let _ = self.notifier.inval_inode(number(node), ATTRIBUTES_ONLY, 0);
    }
}

/// Encodes a `struct fuse_out_header` and a `fuse_notify_inval_inode_out` for all attributes and content of
/// an inode.
fn inode_notification(number: u64) -> [u8; 40] {
    const FUSE_NOTIFY_INVAL_INODE: u32 = 2;
    let mut message = [0; 40];
    let size = message.len() as u32;
    message[..4].copy_from_slice(&size.to_ne_bytes());
    message[4..8].copy_from_slice(&FUSE_NOTIFY_INVAL_INODE.to_ne_bytes());
    // The request number (8..16) is 0 for a notification. Range: offset 0 (24..32), any length (32..40).
    message[16..24].copy_from_slice(&number.to_ne_bytes());
    message
}
