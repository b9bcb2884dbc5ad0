//! The header at the start of a unit in use, and the way to it from an object.
//!
//! Pointers keep their provenance on their way through the heap, with one exception: a pointer that a program
//! frees may have less provenance than its unit (a `Box<u8>` may access one byte). So the heap takes only its
//! address, and reaches object ([`from_caller`]) and header ([`unit_of`]) with the provenance that the pool
//! exposed when it mapped the units. Nothing else makes a pointer from an address.

use super::class::CLASSES;
use crate::frees::inbox::Inbox;
use crate::memory::unit::{HEADER_BYTES, POOL_PART, UNIT};
use crate::policy::Layers;
use lanefs_sync::atomic::{AtomicPtr, Ordering};
use std::ptr::{NonNull, null_mut};

/// Value that marks a sound header, mixed with its address.
const COOKIE: usize = 0x4c61_6e65_4653_a110;

/// The header of a unit in use.
#[repr(C)]
pub(crate) struct Header {
    /// The owner of a slab: the inbox of its heap. Null for a large object.
    owner: AtomicPtr<Inbox>,
    /// The layers of the slab's class in that heap: a quick free needs nothing else.
    pub(crate) layers: *mut Layers<*mut u8>,
    cookie: usize,
    /// Bytes of an object of a slab, or bytes that the user of a large object may write.
    pub(crate) size: usize,
    /// Units of a large object; 0 for a slab.
    pub(crate) units: usize,
    pub(crate) class: usize,
}

const _: () = assert!(size_of::<Header>() <= POOL_PART && POOL_PART <= HEADER_BYTES, "the header has room");

/// Returns the object at an address that the program passed, with the provenance of the heap's own memory.
#[inline(always)]
pub(crate) fn from_caller(object: *const u8) -> *mut u8 {
    std::ptr::with_exposed_provenance_mut(object.addr())
}

/// Returns the header of the unit of an object. (An object never lies at the start of its unit; one with an
/// alignment of a unit or more lies at the start of the next, hence the 1.)
#[inline(always)]
pub(crate) fn unit_of(object: *mut u8) -> NonNull<Header> {
    let unit = (object.addr() - 1) & !(UNIT - 1);
    // SAFETY: objects lie above the first unit of the address space.
    unsafe { NonNull::new_unchecked(std::ptr::with_exposed_provenance_mut(unit)) }
}

impl Header {
    /// Header of a slab.
    pub(crate) fn of_slab(
        unit: NonNull<u8>,
        owner: *const Inbox,
        layers: *mut Layers<*mut u8>,
        class: usize,
        size: usize,
    ) -> Self {
        let (owner, cookie) = (AtomicPtr::new(owner.cast_mut()), COOKIE ^ unit.addr().get());
        Header { owner, layers, cookie, size, units: 0, class }
    }

    /// Header of a large object.
    pub(crate) fn of_large(base: NonNull<u8>, units: usize, size: usize) -> Self {
        let (owner, cookie) = (AtomicPtr::new(null_mut()), COOKIE ^ base.addr().get());
        Header { owner, layers: null_mut(), cookie, size, units, class: 0 }
    }

    /// Returns the owner of a slab, or null for a large object. It does not change while an object of the
    /// unit is in use.
    #[inline(always)]
    pub(crate) fn owner(&self) -> *const Inbox {
        self.owner.load(Ordering::Relaxed)
    }

    /// Returns false for bytes that are not a header.
    pub(crate) fn is_sound(&self) -> bool {
        self.cookie == COOKIE ^ std::ptr::from_ref(self).addr() && (self.units > 0 || self.class < CLASSES)
    }

    /// Marks a unit as no longer in use.
    ///
    /// # Safety
    /// No object of the unit is in use.
    pub(crate) unsafe fn erase(header: NonNull<Header>) {
        // SAFETY: the caller's promise. Only a program that frees an object twice may still read the owner,
        // which is atomic.
        unsafe {
            (*header.as_ptr()).cookie = 0;
            header.as_ref().owner.store(null_mut(), Ordering::Relaxed);
        }
    }
}
