//! A client of a service, in the place of the kernel.

mod engine;
mod posix;

use lanefs::{CreateOptions, Volume};
use lanefs_serve::{
    Entry, EntrySink, Errno, Groups, Lookup, NameSink, NodeId, Reply, Requester, Room, ServeOptions, Served,
};
use std::collections::HashMap;
use std::sync::Arc;

pub(crate) use engine::ServedEngine;

/// Root, whose requests list no further groups.
pub(crate) const ROOT: Requester<'static> = Requester { uid: 0, gid: 0, groups: Groups::Listed(&[]) };

/// A client, which holds no inode between its calls but those of open files.
#[derive(Clone)]
pub(crate) struct Client(pub(crate) Arc<Served>);

/// A reference to an inode, which the client returns when this value is dropped.
pub(crate) struct Node {
    served: Arc<Served>,
    pub(crate) id: NodeId,
}

impl Drop for Node {
    fn drop(&mut self) {
        if self.id != NodeId::ROOT {
            // The service may have ended.
            let _ = self.served.forget(self.id, 1);
        }
    }
}

/// One entry of a listing.
pub(crate) struct Listed {
    pub(crate) name: Vec<u8>,
    pub(crate) next: u64,
    pub(crate) kind: lanefs::FileKind,
}

/// A reply with room for some entries.
struct Page {
    room: usize,
    entries: Vec<Listed>,
}

impl NameSink for Page {
    fn add(&mut self, name: &[u8], next: u64, _: NodeId, kind: lanefs::FileKind) -> Room {
        if self.entries.len() == self.room {
            return Room::Full;
        }
        self.entries.push(Listed { name: name.to_vec(), next, kind });
        Room::Taken
    }
}

/// A reply with room for some entries with attributes, and their references.
pub(crate) struct EntryPage {
    client: Client,
    room: usize,
    /// Each name, and the offset after it.
    pub(crate) names: Vec<(Vec<u8>, u64)>,
    nodes: Vec<Node>,
}

impl EntrySink for EntryPage {
    fn add(&mut self, name: &[u8], next: u64, entry: &Entry) -> Room {
        if self.names.len() == self.room {
            return Room::Full;
        }
        // Listings give no reference to these two.
        if name != b"." && name != b".." {
            self.nodes.push(self.client.node(entry.node));
        }
        self.names.push((name.to_vec(), next));
        Room::Taken
    }
}

impl Client {
    /// Serves a new volume of so many bytes.
    pub(crate) fn new(size: u64) -> Client {
        let options = CreateOptions { size, ..CreateOptions::default() };
        let volume = Volume::create_memory(&options).expect("a volume");
        Client::of(volume, &ServeOptions::default())
    }

    pub(crate) fn of(volume: impl Into<Arc<Volume>>, options: &ServeOptions) -> Client {
        Client(Arc::new(Served::new(volume.into(), options)))
    }

    /// Takes over a reference that a reply has given.
    pub(crate) fn node(&self, id: NodeId) -> Node {
        Node { served: Arc::clone(&self.0), id }
    }

    /// Looks up a name.
    pub(crate) fn lookup(&self, dir: NodeId, name: &[u8]) -> Reply<(Node, Entry)> {
        match self.0.lookup(dir, name)? {
            Lookup::Found(entry) => Ok((self.node(entry.node), entry)),
            Lookup::Missing(_) => Err(Errno::ENOENT),
        }
    }

    /// Walks a path of names, without following symbolic links.
    pub(crate) fn walk(&self, path: &str) -> Reply<Node> {
        let names = path.split('/').filter(|name| !name.is_empty());
        names.into_iter().try_fold(self.node(NodeId::ROOT), |dir, name| {
            self.lookup(dir.id, name.as_bytes()).map(|(node, _)| node)
        })
    }

    /// Walks to the directory of the last name of a path.
    pub(crate) fn parent<'p>(&self, path: &'p str) -> Reply<(Node, &'p [u8])> {
        let (dir, name) = path.rsplit_once('/').unwrap_or(("", path));
        Ok((self.walk(dir)?, name.as_bytes()))
    }

    /// Lists a directory by replies of `room` entries from an offset; an empty page is the end.
    pub(crate) fn page(&self, dir: NodeId, offset: u64, room: usize) -> Reply<Vec<Listed>> {
        let mut page = Page { room, entries: Vec::new() };
        self.0.list(dir, offset, &mut page)?;
        Ok(page.entries)
    }

    /// [`page`](Self::page) with attributes.
    pub(crate) fn entry_page(&self, dir: NodeId, offset: u64, room: usize) -> Reply<EntryPage> {
        let mut page = EntryPage { client: self.clone(), room, names: Vec::new(), nodes: Vec::new() };
        self.0.list_entries(dir, offset, &mut page)?;
        Ok(page)
    }

    /// Ends the service: nothing is held any more, and the volume is sound.
    pub(crate) fn end(self) {
        for volume in self.0.end() {
            assert!(volume.held().is_empty(), "the client has returned all references");
            let report = volume.check(false, &|_, _| {}).expect("a check");
            assert!(report.findings.is_empty(), "{:?}", report.findings);
        }
        let ended = self.0.getattr(NodeId::ROOT).err();
        assert_eq!(ended, Some(Errno::ENOTCONN));
    }
}

/// References by handle, for engines.
pub(crate) type Handles = HashMap<u64, Node>;
