//! Bins: the objects of one class in a heap, in the layers of the thread and in slabs below them.

use super::header::Header;
use super::slab::Slab;
use super::slab_list::SlabList;
use crate::checking::checks::Checks;
use crate::checking::{guard, misuse};
use crate::frees::inbox::Inbox;
use crate::memory::backend::Backend;
use crate::policy::{Bump, Layers, Source};
use std::ptr::NonNull;

/// Free objects that become the bump range if so many or more are consecutive. A shorter run goes into the
/// magazine.
const LONG_RUN: usize = 8;

/// Bytes of a bump range at most, but [`LONG_RUN`] objects at least. Objects that came back meanwhile are
/// carved when a range ends, so longer ranges would use fresh memory while other objects are free.
const RANGE_BYTES: usize = 8 << 10;

/// Error: no memory is left, or no address space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutOfMemory;

/// One class of a heap. It fills a cache line.
#[repr(C, align(64))]
pub(crate) struct Bin {
    pub(crate) layers: Layers<*mut u8>,
    /// Bytes of an object.
    pub(crate) size: usize,
    /// Slabs with free objects.
    pub(crate) slabs: SlabList,
}

const _: () = assert!(size_of::<Bin>() == 64, "a bin fills a cache line");

impl Bin {
    pub(crate) const fn new(size: usize, layers: Layers<*mut u8>) -> Self {
        Bin { layers, size, slabs: SlabList::EMPTY }
    }

    /// Takes an object from the layers; none if they are empty.
    ///
    /// # Safety
    /// The bin is one of the calling thread's heap, or the empty one that all threads without a heap share.
    #[inline(always)]
    pub(crate) unsafe fn take(bin: *mut Bin) -> Option<*mut u8> {
        // SAFETY: the caller's promise.
        unsafe { Layers::take_from(&raw mut (*bin).layers, (*bin).size) }
    }
}

/// The slabs below a bin's layers, with access to more slabs.
pub(crate) struct SlabSource<'h> {
    pub(crate) size: usize,
    pub(crate) slabs: &'h mut SlabList,
    pub(crate) class: usize,
    /// The heap, and the layers of the bin, for headers of new slabs.
    pub(crate) owner: *const Inbox,
    pub(crate) layers: *mut Layers<*mut u8>,
    pub(crate) backend: &'h Backend,
    /// An empty unit of the heap.
    pub(crate) spare: &'h mut Option<NonNull<u8>>,
}

impl SlabSource<'_> {
    fn new_slab(&mut self) -> Result<Slab, OutOfMemory> {
        let unit = match self.spare.take() {
            Some(unit) => unit,
            None => self.backend.pool.lock().take(1, 1).ok_or(OutOfMemory)?.base,
        };
        // SAFETY: the unit belongs to this heap.
        let slab = unsafe { Slab::make(unit, self.owner, self.layers, self.class) };
        if self.backend.checks() == Checks::Full {
            // SAFETY: no object of it is in use.
            slab.each(|object| unsafe { guard::fill_freed(object, self.size) });
        }
        self.slabs.append(slab);
        Ok(slab)
    }

    /// Moves a slab that has more free objects than before to its position in the list, or out of it.
    fn sort_in(&mut self, slab: Slab) {
        if !slab.links().is_listed {
            self.slabs.prepend(slab);
        }
        if slab.becomes_sparse() {
            self.slabs.remove(slab);
            self.slabs.append(slab);
        }
        // The last slab of a class stays: it is likely to be needed again.
        if slab.is_empty() && self.slabs.has_several() {
            self.free_slab(slab);
        }
    }

    fn free_slab(&mut self, slab: Slab) {
        self.slabs.remove(slab);
        // SAFETY: no object of an empty slab is in use.
        unsafe { Header::erase(slab.unit().cast()) };
        if self.spare.is_none() {
            *self.spare = Some(slab.unit());
        } else {
            // SAFETY: as above.
            unsafe { self.backend.pool.lock().give_back(slab.unit(), 1) };
        }
    }

    /// Takes back the rest of a range.
    pub(crate) fn give_back_range(&mut self, bump: Bump<*mut u8>) {
        let count = bump.len(self.size);
        if count > 0 {
            // SAFETY: ranges are carved from slabs of this heap.
            let slab = unsafe { Slab::of(bump.next) };
            slab.put_run(bump.next, count);
            self.sort_in(slab);
        }
    }

    /// Frees all empty slabs, also the last one.
    pub(crate) fn free_empty_slabs(&mut self) {
        for slab in self.slabs.slabs() {
            if slab.is_empty() {
                self.free_slab(slab);
            }
        }
    }
}

impl Source<*mut u8> for SlabSource<'_> {
    type Error = OutOfMemory;

    #[inline(always)]
    fn step(&self) -> usize {
        self.size
    }

    fn carve(&mut self, layers: &mut Layers<*mut u8>) -> Result<(), OutOfMemory> {
        let is_guarded = self.backend.checks() == Checks::Full;
        let enough = layers.magazine.capacity() / 2;
        loop {
            let slab = match self.slabs.first() {
                Some(slab) => slab,
                None => self.new_slab()?,
            };
            let most = if is_guarded { 1 } else { (RANGE_BYTES / self.size).max(LONG_RUN) };
            while let Some((first, end)) = slab.take_run(most) {
                let room = layers.magazine.capacity() - layers.magazine.len();
                if end - first >= LONG_RUN || end - first > room {
                    layers.bump = Bump { next: slab.object(first), end: slab.object(end) };
                    break;
                }
                for index in first..end {
                    layers.magazine.put(slab.object(index));
                }
                if layers.magazine.len() >= enough {
                    break;
                }
            }
            if slab.free() == 0 {
                self.slabs.remove(slab);
            }
            if !layers.is_empty() {
                return Ok(());
            }
        }
    }

    fn give_back(&mut self, objects: &[*mut u8]) -> Result<(), OutOfMemory> {
        let is_checked = self.backend.checks() != Checks::Off;
        for object in objects {
            // SAFETY: a magazine has objects of this heap's slabs.
            let slab = unsafe { Slab::of(*object) };
            if is_checked {
                // A quick free reads the header only, and the unit may be another's since then.
                // SAFETY: as above.
                unsafe { Slab::assert_allocated(*object, self.owner) };
                if slab.class() != self.class {
                    misuse::not_an_object(*object);
                }
            }
            slab.put(*object);
            self.sort_in(slab);
        }
        Ok(())
    }
}
