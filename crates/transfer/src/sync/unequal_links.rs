//! Files of which two trees have different numbers of names, although all names of both were compared.
//!
//! A name outside of one of the trees is such a reason: of a backup by hard links, for example. It is
//! remembered, so that a sync of a part of the tree finds what is new.

use super::node::Node;
use crate::on_host::hostdir::FileId;
use lanefs_sync::lock::Mutex;
use std::collections::HashSet;
use std::fmt;

/// Most files that are kept, some 50 bytes each. Further ones count as new each time.
const MOST_FILES: usize = 1 << 17;

/// A file of each tree, with the number of its names.
type UnequalPair = [(FileId, u64); 2];

/// Files of which the trees had different numbers of names when they were last compared as a whole. Syncs of
/// the same two trees share it: one of a [scope](super::Scope) needs no sync of the whole because of these.
#[derive(Default)]
pub struct UnequalLinks(Mutex<HashSet<UnequalPair>>);

impl fmt::Debug for UnequalLinks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "UnequalLinks({} files)", self.0.lock().len())
    }
}

fn pair(a: &Node, b: &Node) -> UnequalPair {
    [a, b].map(|node| (node.meta.id, node.meta.links))
}

impl UnequalLinks {
    /// Forgets all, before trees are compared as a whole.
    pub(super) fn clear(&self) {
        self.0.lock().clear();
    }

    pub(super) fn add(&self, a: &Node, b: &Node) {
        let mut all = self.0.lock();
        if all.len() < MOST_FILES {
            all.insert(pair(a, b));
        }
    }

    pub(super) fn has(&self, a: &Node, b: &Node) -> bool {
        self.0.lock().contains(&pair(a, b))
    }
}
