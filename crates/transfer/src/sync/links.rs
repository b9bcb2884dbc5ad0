//! Files with several names. Two names are of one file in the one tree exactly if they are in the other one.

use super::difference::Aspects;
use crate::on_host::hostdir::FileId;
use lanefs_sync::lock::Mutex;
use std::collections::HashMap;
use std::sync::Arc;

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

/// The groups of both trees.
#[derive(Default)]
pub(super) struct Links {
    groups: Mutex<HashMap<FileId, Group>>,
    /// For each file with several names of the tree that follows, the file of the other tree that keeps it.
    kept_for: Mutex<HashMap<FileId, FileId>>,
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
}
