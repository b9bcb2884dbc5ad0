//! Files with several names. Two names are of one file in the one tree exactly if they are in the other one.

use super::difference::Aspects;
use super::node::{Node, Xattrs};
use crate::on_host::hostdir::FileId;
use lanefs_sync::lock::Mutex;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The file of the tree that follows, which has the first name of a group.
pub(super) struct First {
    /// Its identity; `None` for a file that a comparison alone does not make.
    pub(super) id: Option<FileId>,
    /// The attributes that were set in place, for all of its names at once.
    pub(super) set: Aspects,
}

/// All names of one file of the tree that is followed. It is locked while one of them is compared and
/// copied, so that the others find a complete copy.
pub(super) type Group = Arc<Mutex<Option<First>>>;

/// A file with several names of the tree that follows, before the sync changed it.
struct Before {
    /// Number of its names.
    links: u64,
    /// Its attributes, if the sync set some in place.
    set: Option<Box<(Node, Option<Xattrs>)>>,
}

/// The groups of both trees.
#[derive(Default)]
pub(super) struct Links {
    groups: Mutex<HashMap<FileId, Group>>,
    /// For each file with several names of the tree that follows, the file of the other tree that keeps it.
    kept_for: Mutex<HashMap<FileId, FileId>>,
    /// Files with several names of the tree that follows.
    before: Mutex<HashMap<FileId, Before>>,
    /// False while there are none of them: most trees have no file with several names.
    has_before: AtomicBool,
}

impl Links {
    /// Returns the group of a file of the tree that is followed.
    pub(super) fn group(&self, id: FileId) -> Group {
        self.groups.lock().entry(id).or_default().clone()
    }

    /// Keeps the file `there` of the tree that follows for `id`; false where another file has it, so that
    /// this name has to get a file of its own.
    pub(super) fn claim(&self, there: FileId, id: FileId) -> bool {
        *self.kept_for.lock().entry(there).or_insert(id) == id
    }

    /// Gives up a file that was claimed for `id`, which gets another one: a further name may keep it.
    pub(super) fn give_up(&self, there: FileId, id: FileId) {
        let mut kept_for = self.kept_for.lock();
        if kept_for.get(&there) == Some(&id) {
            kept_for.remove(&there);
        }
    }

    /// Returns a file of the tree that follows as it was before the sync. A name that is compared late must
    /// not find what the sync did to the file through another name: a dry run does not, and threads would
    /// come to different ends. Call it before a name of the file is removed or replaced.
    pub(super) fn before(&self, mut there: Node) -> Node {
        if there.meta.links < 2 && !self.has_before.load(Ordering::Acquire) {
            return there;
        }
        let mut all = self.before.lock();
        if let Some(before) = all.get(&there.meta.id) {
            there = before.set.as_deref().map_or(there, |(node, _)| *node);
            there.meta.links = before.links;
        } else if there.meta.links > 1 {
            all.insert(there.meta.id, Before { links: there.meta.links, set: None });
            self.has_before.store(true, Ordering::Release);
        }
        there
    }

    /// Keeps the attributes of a file with several names before some are set in place.
    pub(super) fn keep_attributes(&self, there: &Node, xattrs: Option<Xattrs>) {
        if let Some(before) = self.before.lock().get_mut(&there.meta.id) {
            before.set.get_or_insert_with(|| Box::new((*there, xattrs)));
        }
    }

    /// The extended attributes of a file before the sync, if it set them in place.
    pub(super) fn xattrs_before(&self, there: FileId) -> Option<Xattrs> {
        if !self.has_before.load(Ordering::Acquire) {
            return None;
        }
        self.before.lock().get(&there)?.set.as_deref()?.1.clone()
    }
}
