//! Files that get a new content when they are closed.
//!
//! They belong to the open volume, not to the objects of Python: those may outlive it, and in the child of a
//! fork they must not touch it.

use lanefs::{Attr, Code, Replacement, Result, Volume};
use lanefs_sync::lock::Mutex;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A content on its way; `None` once it has been finished or dropped.
type Writer = Arc<Mutex<Option<Replacement<Arc<Volume>>>>>;

/// The number of a writer.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct WriterId(u64);

/// The writers of an open volume. Those that are left when it closes come to nothing.
#[derive(Default)]
pub(crate) struct Writers {
    next: AtomicU64,
    open: Mutex<HashMap<WriterId, Writer>>,
}

impl Writers {
    pub(crate) fn add(&self, content: Replacement<Arc<Volume>>) -> WriterId {
        let id = WriterId(self.next.fetch_add(1, Ordering::Relaxed));
        self.open.lock().insert(id, Arc::new(Mutex::new(Some(content))));
        id
    }

    /// Works with a content.
    ///
    /// # Errors
    /// The content's; [`Code::StaleInode`] for a writer that has ended.
    pub(crate) fn with<T>(
        &self,
        id: WriterId,
        work: impl FnOnce(&mut Replacement<Arc<Volume>>) -> Result<T>,
    ) -> Result<T> {
        let writer = self.open.lock().get(&id).cloned().ok_or(Code::StaleInode)?;
        let mut content = writer.lock();
        work(content.as_mut().ok_or(Code::StaleInode)?)
    }

    /// Puts a content in place, and ends its writer.
    ///
    /// # Errors
    /// As [`Replacement::finish`]; [`Code::StaleInode`] for a writer that has ended.
    pub(crate) fn finish(&self, id: WriterId) -> Result<Attr> {
        self.take(id).ok_or(Code::StaleInode)?.finish()
    }

    /// Ends a writer without its content.
    pub(crate) fn discard(&self, id: WriterId) {
        drop(self.take(id));
    }

    fn take(&self, id: WriterId) -> Option<Replacement<Arc<Volume>>> {
        let writer = self.open.lock().remove(&id)?;
        let mut content = writer.lock();
        content.take()
    }
}
