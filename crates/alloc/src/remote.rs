//! Objects that another thread freed: a list at their heap, to which anybody adds and which the heap takes whole.
//!
//! A thread collects what it frees for one heap, and adds it in one step. The list runs through the objects themselves.

use crate::guard;
use crate::heap::Heap;
use crate::planted::{self, Fault};
use crate::sync::{AtomicPtr, Ordering, size};
use std::ptr::{NonNull, null_mut};

/// Objects that are sent at once.
const BATCH: usize = size(32, 3);

/// A freed object: where the next one lies, mixed so that what somebody writes here, who has freed it, is not taken for a link.
pub(crate) struct Node {
    link: usize,
}

const MIX: usize = 0xb9e5_0000_0000_0005;

/// Bits that are 0 in every address of an object.
const NEVER: usize = 0xff00_0000_0000_0007;

impl Node {
    fn set_next(&mut self, next: *mut Node) {
        self.link = next.expose_provenance() ^ MIX;
    }

    fn next(&self) -> *mut Node {
        let next = self.link ^ MIX;
        if next & NEVER != 0 {
            guard::written_after_free(std::ptr::from_ref(self) as usize);
        }
        std::ptr::with_exposed_provenance_mut(next)
    }
}

/// What other threads freed.
pub(crate) struct Inbox {
    first: AtomicPtr<Node>,
}

impl Inbox {
    pub(crate) const fn new() -> Self {
        Inbox { first: AtomicPtr::new(null_mut()) }
    }

    /// Adds a chain.
    ///
    /// # Safety
    /// `first` leads to `last`, and nobody else has these objects.
    unsafe fn add(&self, first: *mut Node, last: *mut Node) {
        let mut head = self.first.load(Ordering::Relaxed);
        loop {
            // SAFETY: the caller's object.
            unsafe { (*last).set_next(head) };
            if planted::is(Fault::LostUpdate) {
                return self.first.store(first, Ordering::Release);
            }
            // What the objects were used for happened before their heap has them again.
            match self.first.compare_exchange_weak(head, first, Ordering::Release, Ordering::Relaxed) {
                Ok(_) => return,
                Err(now) => head = now,
            }
        }
    }

    /// Takes all there is.
    #[inline(always)]
    pub(crate) fn take(&self) -> Chain {
        if self.first.load(Ordering::Relaxed).is_null() {
            return Chain(null_mut());
        }
        if planted::is(Fault::NoSwap) {
            let first = self.first.load(Ordering::Acquire);
            self.first.store(null_mut(), Ordering::Relaxed);
            return Chain(first);
        }
        Chain(self.first.swap(null_mut(), Ordering::Acquire))
    }
}

/// A chain of objects.
pub(crate) struct Chain(*mut Node);

impl Iterator for Chain {
    type Item = usize;

    fn next(&mut self) -> Option<usize> {
        let node = NonNull::new(self.0)?;
        // SAFETY: an object in the chain, which is ours now.
        self.0 = unsafe { node.as_ref() }.next();
        Some(node.as_ptr() as usize)
    }
}

/// Sends one object.
///
/// # Safety
/// It is one of that heap, and nobody's any more.
pub(crate) unsafe fn send(object: usize, to: *mut Heap) {
    let node = std::ptr::with_exposed_provenance_mut::<Node>(object);
    // SAFETY: heaps live for ever; the caller's object.
    unsafe { (*to).inbox.add(node, node) };
}

/// What one thread freed for one other heap.
pub(crate) struct Outbox {
    to: *mut Heap,
    first: *mut Node,
    last: *mut Node,
    count: usize,
}

impl Outbox {
    pub(crate) const fn new() -> Self {
        Outbox { to: null_mut(), first: null_mut(), last: null_mut(), count: 0 }
    }

    /// Sends an object, soon.
    ///
    /// # Safety
    /// As [`send`].
    pub(crate) unsafe fn put(&mut self, object: usize, to: *mut Heap) {
        if self.to != to {
            self.send();
            self.to = to;
        }
        let node = std::ptr::with_exposed_provenance_mut::<Node>(object);
        // SAFETY: the caller's object.
        unsafe { (*node).set_next(self.first) };
        if self.count == 0 {
            self.last = node;
        }
        self.first = node;
        self.count += usize::from(!planted::is(Fault::Miscount) || self.count > 0);
        if self.count == BATCH {
            self.send();
        }
    }

    /// Sends what is there.
    pub(crate) fn send(&mut self) {
        if self.count > 0 {
            // SAFETY: the chain is ours, and heaps live for ever.
            unsafe { (*self.to).inbox.add(self.first, self.last) };
        }
        *self = Outbox::new();
    }
}
