//! The same directory in both trees, of which a part is still to be compared.

use super::difference::{Aspects, Change};
use super::fingerprint::Fingerprint;
use super::node::Node;
use super::old_names::{SharedDir, TakenName};
use super::scope::ComparedPart;
use super::tree::Tree;
use crate::running::pending_tasks::PendingTasks;
use lanefs_sync::lock::Mutex;
use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

/// A directory of the tree that is followed, and the one of the tree that follows.
pub(super) struct Pair<A: Tree, B: Tree> {
    pub(super) parent: Option<Arc<Pair<A, B>>>,
    pub(super) name: Vec<u8>,
    pub(super) a: (A::Dir, Node),
    /// `None` where the tree that follows lacks the directory, and is not changed.
    pub(super) b: Option<B::Dir>,
    /// The directory there before; `None` for a new one, which has no names yet.
    pub(super) old: Option<Node>,
    /// The difference by which a new directory came to be.
    pub(super) made: Option<Change>,
    /// The name of the directory of `b`, where it is another one until the directory is complete.
    pub(super) moved: Option<TakenName<B::Dir>>,
    /// The directory, or one above it, had another name: then size and time of a file do not tell that the
    /// content is the same.
    pub(super) reads_content: bool,
    /// The part that is compared. The content of another file system's root may be left alone.
    pub(super) part: ComparedPart,
    /// The attributes that differ, once they are compared.
    pub(super) aspects: OnceLock<Aspects>,
    /// The fingerprint, where the directory is to be recorded.
    fingerprint: OnceLock<Mutex<Fingerprint>>,
    touched: AtomicBool,
    /// Something below has content that could not be compared.
    is_doubtful: AtomicBool,
    /// Tasks that will still compare names of the directory.
    pub(super) tasks: PendingTasks,
}

/// The place of a pair: the pair above it, and its name there.
pub(super) type Above<A, B> = (Arc<Pair<A, B>>, Vec<u8>);

/// Both sides of a new [`Pair`].
pub(super) struct Sides<A: Tree, B: Tree> {
    pub(super) a: (A::Dir, Node),
    pub(super) b: Option<B::Dir>,
    pub(super) old: Option<Node>,
    pub(super) made: Option<Change>,
    pub(super) moved: Option<TakenName<B::Dir>>,
}

impl<A: Tree, B: Tree> Pair<A, B> {
    /// Creates a pair for which one task is pending. There is nothing above the top.
    pub(super) fn new(above: Option<Above<A, B>>, sides: Sides<A, B>, part: ComparedPart) -> Arc<Self> {
        let (parent, name) = above.map_or((None, Vec::new()), |(parent, name)| (Some(parent), name));
        let Sides { a, b, old, made, moved } = sides;
        let reads_content = moved.is_some() || parent.as_ref().is_some_and(|parent| parent.reads_content);
        Arc::new(Pair {
            parent,
            name,
            a,
            b,
            old,
            made,
            moved,
            reads_content,
            part,
            aspects: OnceLock::new(),
            fingerprint: OnceLock::new(),
            touched: AtomicBool::new(false),
            is_doubtful: AtomicBool::new(false),
            tasks: PendingTasks::one(),
        })
    }

    /// The path, below the top, of `name` in this directory, or of the directory where `name` is empty.
    pub(super) fn path(&self, name: &[u8]) -> Vec<u8> {
        let mut parts = vec![name];
        let mut at = Some(self);
        while let Some(pair) = at {
            parts.push(&pair.name);
            at = pair.parent.as_deref();
        }
        // In one pass: a chain of directories may be thousands of names deep.
        parts.retain(|part| !part.is_empty());
        parts.reverse();
        parts.join(&b'/')
    }

    /// Begins the fingerprint of the directory.
    pub(super) fn begin_fingerprint(&self, fingerprint: Fingerprint) {
        let _ = self.fingerprint.set(Mutex::new(fingerprint));
    }

    /// Uses the fingerprint, if the directory is to be recorded.
    pub(super) fn with_fingerprint(&self, f: impl FnOnce(&mut Fingerprint)) {
        if let Some(fingerprint) = self.fingerprint.get() {
            f(&mut fingerprint.lock());
        }
    }

    /// Names in the directory were changed.
    pub(super) fn touch(&self) {
        self.touched.store(true, Ordering::Relaxed);
    }

    pub(super) fn is_touched(&self) -> bool {
        self.touched.load(Ordering::Relaxed)
    }

    /// Lets the directory above that had another name keep that: something in it could not be compared.
    pub(super) fn doubt(&self) {
        let mut at = Some(self);
        while let Some(pair) = at.filter(|pair| pair.reads_content) {
            pair.is_doubtful.store(true, Ordering::Relaxed);
            at = pair.parent.as_deref();
        }
    }

    pub(super) fn is_doubtful(&self) -> bool {
        self.is_doubtful.load(Ordering::Relaxed)
    }
}

impl<A: Tree, B: Tree> SharedDir for Arc<Pair<A, B>> {
    fn path_below_top(&self) -> Vec<u8> {
        self.path(b"")
    }
}

impl<A: Tree, B: Tree> Drop for Pair<A, B> {
    fn drop(&mut self) {
        // A deep chain is dropped without recursion.
        let mut parent = self.parent.take();
        while let Some(mut pair) = parent.and_then(Arc::into_inner) {
            parent = pair.parent.take();
        }
    }
}
