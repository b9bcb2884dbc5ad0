//! The slabs of one class that have free objects. (A slab without free objects is found through its objects.)

use super::slab::{Links, Slab};
use crate::host::message::debug_assert_state;

/// A list of slabs. Those that are mostly in use come first and are filled first; those that are mostly free
/// come last, and may become empty.
#[repr(C)]
pub(crate) struct SlabList {
    first: Option<Slab>,
    last: Option<Slab>,
}

impl SlabList {
    pub(crate) const EMPTY: SlabList = SlabList { first: None, last: None };

    pub(crate) fn first(&self) -> Option<Slab> {
        self.first
    }

    /// Returns true if there is more than one slab.
    pub(crate) fn has_several(&self) -> bool {
        self.first != self.last
    }

    pub(crate) fn append(&mut self, slab: Slab) {
        debug_assert_state!(!slab.links().is_listed && slab.free() > 0, "a slab that comes has free objects");
        slab.set_links(Links { next: None, previous: self.last, is_listed: true });
        match self.last {
            Some(last) => last.set_links(Links { next: Some(slab), ..last.links() }),
            None => self.first = Some(slab),
        }
        self.last = Some(slab);
    }

    pub(crate) fn prepend(&mut self, slab: Slab) {
        debug_assert_state!(!slab.links().is_listed && slab.free() > 0, "a slab that comes has free objects");
        slab.set_links(Links { next: self.first, previous: None, is_listed: true });
        match self.first {
            Some(first) => first.set_links(Links { previous: Some(slab), ..first.links() }),
            None => self.last = Some(slab),
        }
        self.first = Some(slab);
    }

    pub(crate) fn remove(&mut self, slab: Slab) {
        let Links { next, previous, is_listed } = slab.links();
        debug_assert_state!(is_listed, "a slab that goes is in the list");
        debug_assert_state!(
            previous.map_or(self.first, |previous| previous.links().next) == Some(slab)
                && next.map_or(self.last, |next| next.links().previous) == Some(slab),
            "neighbours in the list name each other"
        );
        slab.set_links(Links { next: None, previous: None, is_listed: false });
        match previous {
            Some(previous) => previous.set_links(Links { next, ..previous.links() }),
            None => self.first = next,
        }
        match next {
            Some(next) => next.set_links(Links { previous, ..next.links() }),
            None => self.last = previous,
        }
    }

    /// Returns all slabs. The slab that was returned last may be removed.
    pub(crate) fn slabs(&self) -> impl Iterator<Item = Slab> + use<> {
        let mut next = self.first;
        std::iter::from_fn(move || {
            let slab = next?;
            next = slab.links().next;
            Some(slab)
        })
    }
}
