//! The reference model: a POSIX file system in sorted maps, as plain as can be.
//!
//! It is the first oracle; the host (see [`crate::host`]) is the second, and the tests compare the model with
//! the host too, permissions included, so that a mistake made here does not pass for the truth.
//!
//! # Which error comes first
//!
//! Linux's order, which POSIX leaves open. For each call, left before right:
//!
//! | call | order |
//! |---|---|
//! | one component of a path | not a directory, no search permission, name too long, not found, then the link it may be |
//! | create, mknod, mkdir, symlink | the walk's, exists (`.` and `..` too), no write permission, device (but a whiteout) without privilege |
//! | link | as create, then `NotPermitted` for a directory |
//! | unlink, rmdir | `.` and `..` (unlink: is a directory; rmdir: invalid, not empty), the walk's, not found, no write permission, sticky bit, wrong kind, not empty |
//! | rename | `.` or `..` (busy; exists for no-replace), walk of the old name, its absence, walk of the new one, no-replace and it exists, exchange and it does not, loops, same inode (done), removal rights on the old, creation or removal rights and kinds on the new, write permission on a directory that gets a new parent, not empty |
//! | setattr | kinds that cannot be cut, owner-only changes, write permission, size |
//!
//! `Caller::OWNER` is root: it passes every permission check, and like root it loses set-id bits of files at
//! a chown and keeps them at a write.

mod attributes;
mod calls;
mod content;
mod data;
mod names;
mod permission;
mod rename;
mod resolve;
mod xattrs;

pub use content::Content;

use crate::engine::{EngineResult, Handle, Stamp, Stat};
use lanefs::Time;
use lanefs_format::{Code, FileKind};
use std::collections::{BTreeMap, HashMap};

/// The content of an inode.
#[derive(Clone, Debug)]
enum Body {
    Directory { entries: BTreeMap<Vec<u8>, Handle>, parent: Handle },
    File(Content),
    Link(Vec<u8>),
    Special,
}

/// An inode.
#[derive(Clone, Debug)]
struct Node {
    kind: FileKind,
    perm: u16,
    links: u32,
    uid: u32,
    gid: u32,
    rdev: u64,
    atime: Stamp,
    mtime: Stamp,
    ctime: Stamp,
    btime: Stamp,
    xattrs: BTreeMap<Vec<u8>, Vec<u8>>,
    body: Body,
}

/// The model.
#[derive(Clone, Debug)]
pub struct Model {
    nodes: HashMap<Handle, Node>,
    next: Handle,
    /// Lower bound of the times that the current operation sets.
    clock: Time,
    links_followed: u32,
    last_page: Option<LastPage>,
}

/// End of the last page of a listing.
#[derive(Clone, Debug)]
struct LastPage {
    dir: Handle,
    cookie: u64,
    name: Vec<u8>,
}

/// Handle of the model's root directory.
pub const ROOT: Handle = 1;

impl Default for Model {
    fn default() -> Self {
        Model::new(0o755, 0, 0)
    }
}

impl Model {
    /// Creates an empty file system whose root directory has these permissions, owner and group.
    pub fn new(perm: u16, uid: u32, gid: u32) -> Self {
        let mut model = Model {
            nodes: HashMap::new(),
            next: ROOT,
            clock: Time(i64::MIN),
            links_followed: 0,
            last_page: None,
        };
        let body = Body::Directory { entries: BTreeMap::new(), parent: ROOT };
        let mut root = model.fresh(FileKind::Directory, perm, uid, gid, body);
        root.links = 2;
        model.add(root);
        model
    }

    /// Sets a lower bound for all times set from now on.
    pub fn set_clock(&mut self, now: Time) {
        self.clock = now;
    }

    /// Returns the number of symbolic links followed since the last call.
    pub fn take_links_followed(&mut self) -> u32 {
        std::mem::take(&mut self.links_followed)
    }

    /// Makes all access times unknown: every inode was read.
    pub fn forget_access_times(&mut self) {
        for node in self.nodes.values_mut() {
            node.atime = Stamp::UNKNOWN;
        }
    }

    /// Returns the number of inodes.
    pub fn inodes(&self) -> usize {
        self.nodes.len()
    }

    /// Returns the bytes of file data, so that a test can end before it fills the memory.
    pub fn data_bytes(&self) -> u64 {
        self.nodes
            .values()
            .map(|node| match &node.body {
                Body::File(content) => content.allocated_bytes(),
                _ => 0,
            })
            .sum()
    }

    /// Returns the content of a regular file.
    pub fn content(&self, handle: Handle) -> Option<&Content> {
        match &self.nodes.get(&handle)?.body {
            Body::File(content) => Some(content),
            _ => None,
        }
    }

    /// Returns the entries of a directory; `None` for any other inode.
    pub fn entries(&self, handle: Handle) -> Option<&BTreeMap<Vec<u8>, Handle>> {
        match &self.nodes.get(&handle)?.body {
            Body::Directory { entries, .. } => Some(entries),
            _ => None,
        }
    }

    /// Returns the type of an inode.
    pub fn kind(&self, handle: Handle) -> Option<FileKind> {
        Some(self.nodes.get(&handle)?.kind)
    }

    fn fresh(&self, kind: FileKind, perm: u16, uid: u32, gid: u32, body: Body) -> Node {
        let now = Stamp::AtLeast(self.clock);
        Node {
            kind,
            perm,
            links: if kind == FileKind::Directory { 2 } else { 1 },
            uid,
            gid,
            rdev: 0,
            atime: now,
            mtime: now,
            ctime: now,
            btime: now,
            xattrs: BTreeMap::new(),
            body,
        }
    }

    fn add(&mut self, node: Node) -> Handle {
        let handle = self.next;
        self.next += 1;
        self.nodes.insert(handle, node);
        handle
    }

    fn node(&self, handle: Handle) -> EngineResult<&Node> {
        self.nodes.get(&handle).ok_or_else(|| Code::StaleInode.into())
    }

    fn node_mut(&mut self, handle: Handle) -> EngineResult<&mut Node> {
        self.nodes.get_mut(&handle).ok_or_else(|| Code::StaleInode.into())
    }

    fn stat_of(&self, handle: Handle) -> EngineResult<Stat> {
        let node = self.node(handle)?;
        let size = match &node.body {
            Body::File(content) => content.size(),
            Body::Link(target) => target.len() as u64,
            Body::Directory { .. } | Body::Special => 0,
        };
        Ok(Stat {
            kind: node.kind,
            perm: node.perm,
            links: node.links,
            uid: node.uid,
            gid: node.gid,
            size,
            rdev: node.rdev,
            times: [node.atime, node.mtime, node.ctime, node.btime],
            id: handle,
        })
    }

    /// Stamps a change of the inode's content.
    fn modified(&mut self, handle: Handle) {
        let now = Stamp::AtLeast(self.clock);
        if let Some(node) = self.nodes.get_mut(&handle) {
            (node.mtime, node.ctime) = (now, now);
        }
    }

    /// Stamps a change of the inode, but not of its content.
    fn changed(&mut self, handle: Handle) {
        let now = Stamp::AtLeast(self.clock);
        if let Some(node) = self.nodes.get_mut(&handle) {
            node.ctime = now;
        }
    }
}
