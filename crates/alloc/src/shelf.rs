//! The slabs of one class that a heap has, behind its layers.

use crate::guard;
use crate::heap::Heap;
use crate::policy::{Bump, Layers, Source};
use crate::slab::{Slab, unit_of};
use crate::world::{Checks, World};
use std::ptr::{NonNull, null_mut};

/// A run of so many free objects becomes the bump range; shorter ones go into the magazine.
const LONG: usize = 8;

/// Bytes of a bump range at most (objects that are larger than an eighth of it: [`LONG`] of them). Objects that came back meanwhile are
/// carved when a range ends, so with longer ranges fresh memory would be used while others lie free.
const RANGE: usize = 8 << 10;

/// There is no memory left, nor address space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutOfMemory;

/// A class of a heap: the layers, and the slabs behind them. It fills a line.
#[repr(C, align(64))]
pub(crate) struct Bin {
    pub(crate) layers: Layers,
    pub(crate) stock: Stock,
}

impl Bin {
    /// An object from the magazine, else from the range; null when both are empty.
    #[inline(always)]
    pub(crate) fn take(&mut self) -> Option<NonNull<u8>> {
        let object = self.layers.magazine.take().or_else(|| self.layers.bump.take(self.stock.size))?;
        // SAFETY: objects have an address that is not null.
        Some(unsafe { NonNull::new_unchecked(std::ptr::with_exposed_provenance_mut(object)) })
    }

    pub(crate) const fn new(size: usize, layers: Layers) -> Self {
        Bin { layers, stock: Stock { size, first: null_mut(), last: null_mut() } }
    }
}

/// The slabs of a class that have free objects. (Those that have none are found through their objects.)
///
/// Those that are mostly in use come first and those that are mostly free last, so that the former are filled and the latter
/// get a chance to become empty.
#[repr(C)]
pub(crate) struct Stock {
    /// Bytes of an object.
    pub(crate) size: usize,
    first: *mut Slab,
    last: *mut Slab,
}

impl Stock {
    fn append(&mut self, slab: NonNull<Slab>) {
        let last = self.last;
        // SAFETY: slabs in the list, and the one that comes, are this heap's.
        unsafe {
            (*slab.as_ptr()).previous = last;
            (*slab.as_ptr()).next = null_mut();
            (*slab.as_ptr()).is_listed = true;
            match last.as_mut() {
                Some(last) => last.next = slab.as_ptr(),
                None => self.first = slab.as_ptr(),
            }
        }
        self.last = slab.as_ptr();
    }

    fn prepend(&mut self, slab: NonNull<Slab>) {
        let first = self.first;
        // SAFETY: as above.
        unsafe {
            (*slab.as_ptr()).previous = null_mut();
            (*slab.as_ptr()).next = first;
            (*slab.as_ptr()).is_listed = true;
            match first.as_mut() {
                Some(first) => first.previous = slab.as_ptr(),
                None => self.last = slab.as_ptr(),
            }
        }
        self.first = slab.as_ptr();
    }

    fn remove(&mut self, slab: NonNull<Slab>) {
        // SAFETY: as above.
        unsafe {
            let (previous, next) = ((*slab.as_ptr()).previous, (*slab.as_ptr()).next);
            (*slab.as_ptr()).is_listed = false;
            match previous.as_mut() {
                Some(previous) => previous.next = next,
                None => self.first = next,
            }
            match next.as_mut() {
                Some(next) => next.previous = previous,
                None => self.last = previous,
            }
        }
    }

    /// Slabs with free objects.
    pub(crate) fn slabs(&self) -> impl Iterator<Item = NonNull<Slab>> {
        let mut next = self.first;
        std::iter::from_fn(move || {
            let slab = NonNull::new(next)?;
            // SAFETY: in the list.
            next = unsafe { (*slab.as_ptr()).next };
            Some(slab)
        })
    }
}

/// A class of a heap, with what it needs to get more slabs and to give them back.
pub(crate) struct Shelf<'h> {
    pub(crate) stock: &'h mut Stock,
    pub(crate) owner: *mut Heap,
    pub(crate) bin: *mut Bin,
    pub(crate) class: usize,
    pub(crate) world: &'h World,
    pub(crate) spare: &'h mut Option<NonNull<u8>>,
}

impl Shelf<'_> {
    fn new_slab(&mut self) -> Result<NonNull<Slab>, OutOfMemory> {
        let unit = match self.spare.take() {
            Some(unit) => unit,
            None => self.world.pool.lock().take(1, 1).ok_or(OutOfMemory)?.base,
        };
        // SAFETY: the unit is ours.
        let slab = unsafe { Slab::make(unit, self.owner, self.bin, self.class) };
        if self.world.checks() == Checks::Full {
            // SAFETY: as above; nobody has an object of it.
            unsafe { slab.as_ref().each(|object| guard::undress(object, self.stock.size)) };
        }
        self.stock.append(slab);
        Ok(slab)
    }

    /// A slab has more free objects than before.
    fn has_more(&mut self, slab: NonNull<Slab>) {
        let at = slab.as_ptr();
        // SAFETY: one of this heap. The list writes to the slab through its pointer, so each reference ends before that.
        unsafe {
            if !(*at).is_listed {
                self.stock.prepend(slab);
            }
            if (*at).becomes_sparse() {
                self.stock.remove(slab);
                self.stock.append(slab);
            }
            // The last one of a class stays: it is likely to be needed again.
            if (*at).is_empty() && self.stock.first != self.stock.last {
                self.stock.remove(slab);
                (*at).header.erase();
                self.let_go(slab.cast());
            }
        }
    }

    fn let_go(&mut self, unit: NonNull<u8>) {
        if self.spare.is_none() {
            *self.spare = Some(unit);
        } else {
            // SAFETY: an empty slab is in nobody's use.
            unsafe { self.world.pool.lock().give_back(unit, 1) };
        }
    }

    /// Takes back what is left of a range.
    pub(crate) fn give_back_range(&mut self, bump: Bump) {
        if bump.next < bump.end {
            let mut slab = unit_of(bump.next).cast::<Slab>();
            // SAFETY: ranges are carved from slabs of this heap.
            unsafe { slab.as_mut() }.put_run(bump.next, (bump.end - bump.next) / self.stock.size);
            self.has_more(slab);
        }
    }

    /// Lets go of slabs without objects, also of the last.
    pub(crate) fn give_back_empty(&mut self) {
        let mut next = self.stock.first;
        while let Some(slab) = NonNull::new(next) {
            // SAFETY: in the list.
            unsafe {
                next = (*slab.as_ptr()).next;
                if (*slab.as_ptr()).is_empty() {
                    self.stock.remove(slab);
                    (*slab.as_ptr()).header.erase();
                    self.let_go(slab.cast());
                }
            }
        }
    }
}

impl Source for Shelf<'_> {
    type Error = OutOfMemory;

    #[inline(always)]
    fn step(&self) -> usize {
        self.stock.size
    }

    fn carve(&mut self, layers: &mut Layers) -> Result<(), OutOfMemory> {
        let is_guarded = self.world.checks() == Checks::Full;
        let enough = layers.magazine.capacity() / 2;
        loop {
            let mut place = match NonNull::new(self.stock.first) {
                Some(slab) => slab,
                None => self.new_slab()?,
            };
            // SAFETY: in this heap's list.
            let slab = unsafe { place.as_mut() };
            let most = if is_guarded { 1 } else { (RANGE / self.stock.size).max(LONG) };
            while let Some((first, end)) = slab.take_run(most) {
                let room = layers.magazine.capacity() - layers.magazine.len();
                if end - first >= LONG || end - first > room {
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
            if slab.free == 0 {
                self.stock.remove(place);
            }
            if layers.bump.next < layers.bump.end || !layers.magazine.is_empty() {
                return Ok(());
            }
        }
    }

    fn give_back(&mut self, items: &[usize]) -> Result<(), OutOfMemory> {
        for item in items {
            let mut slab = unit_of(*item).cast::<Slab>();
            // SAFETY: what is in a magazine is an object of this heap's slabs.
            let slab_ref = unsafe { slab.as_mut() };
            if self.world.checks() != Checks::Off {
                // A quick free looked at nothing but the unit, which may be another's since then.
                slab_ref.must_be_out(*item, self.owner);
                if slab_ref.header.class != self.class {
                    guard::not_ours(*item);
                }
            }
            slab_ref.put(*item);
            self.has_more(slab);
        }
        Ok(())
    }
}
