//! A thread's heap.

use crate::class::{self, C_WORDS, CLASSES, SIZES};
use crate::guard::{self, MARGIN};
use crate::large;
use crate::os;
use crate::policy::{Layers, Magazine, Source};
use crate::remote::{self, Inbox, Outbox};
use crate::shelf::{Bin, Shelf};
use crate::slab::{Slab, unit_of};
use crate::world::{Checks, World};
use lanefs_sync::point;
use std::cell::UnsafeCell;
use std::ptr::{NonNull, null_mut};

/// Bytes that a magazine may keep of its class, and objects at least and at most.
const KEPT: usize = 32 << 10;
const FEWEST: usize = 2;
const MOST: usize = 128;

/// Objects that a magazine of this class holds.
const fn capacity(class: usize) -> usize {
    let count = KEPT / SIZES[class] as usize;
    if count < FEWEST {
        FEWEST
    } else if count > MOST {
        MOST
    } else {
        count
    }
}

const ALL_CAPACITIES: usize = {
    let (mut sum, mut class) = (0, 0);
    while class < CLASSES {
        sum += capacity(class);
        class += 1;
    }
    sum
};

const WORDS: usize = C_WORDS.len();

/// Bytes of a heap with its magazines.
const BYTES: usize = size_of::<Heap>() + ALL_CAPACITIES * size_of::<usize>();

/// A heap: its thread's own part, and the part to which others add. Heaps are never unmade; that of a thread which has ended
/// goes to the next one that begins.
#[repr(C)]
pub(crate) struct Heap {
    own: UnsafeCell<Own>,
    /// On a line of its own.
    pub(crate) inbox: Aligned<Inbox>,
}

// SAFETY: `own` is used by the thread that has the heap only.
unsafe impl Sync for Heap {}

#[repr(align(128))]
pub(crate) struct Aligned<T>(T);

impl<T> std::ops::Deref for Aligned<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

/// What a heap's thread alone uses.
#[repr(C)]
pub(crate) struct Own {
    bins: [Bin; CLASSES],
    /// For the size in words that C asks for, the class: one table instead of two.
    for_words: [*mut Bin; WORDS],
    /// None for the heap that stands for none.
    world: Option<&'static World>,
    outbox: Outbox,
    /// When it was last [tidied](Own::tidy).
    tidied: u64,
    /// An empty unit, for the next slab.
    spare: Option<NonNull<u8>>,
    pub(crate) next_idle: *mut Heap,
    pub(crate) stats: Stats,
}

/// What happened in one heap.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Allocations from a magazine. Counted with the feature `stats` only; so is the next.
    pub magazine_hits: u64,
    /// Allocations from a bump range.
    pub bump_hits: u64,
    /// Carves from a slab.
    pub refills: u64,
    /// Objects that they gave.
    pub refilled: u64,
    /// Times that a full magazine gave half of what it had back.
    pub overflows: u64,
    /// Objects that other threads freed.
    pub from_others: u64,
}

impl Stats {
    pub(crate) const NONE: Stats =
        Stats { magazine_hits: 0, bump_hits: 0, refills: 0, refilled: 0, overflows: 0, from_others: 0 };

    pub(crate) fn add(&mut self, other: &Stats) {
        self.magazine_hits += other.magazine_hits;
        self.bump_hits += other.bump_hits;
        self.refills += other.refills;
        self.refilled += other.refilled;
        self.overflows += other.overflows;
        self.from_others += other.from_others;
    }
}

/// A class without anything, for the heap below.
static NO_BIN: Nothing = Nothing(Bin::new(1, Layers::none()));

struct Nothing(Bin);

// SAFETY: nobody writes to a bin that is empty and has no room.
unsafe impl Sync for Nothing {}

/// Stands for the heap of a thread that has none yet: nothing is ever in it, nothing ever written to it.
pub(crate) static NO_HEAP: Heap = Heap {
    own: UnsafeCell::new(Own {
        bins: [const { Bin::new(1, Layers::none()) }; CLASSES],
        for_words: [(&raw const NO_BIN.0).cast_mut(); WORDS],
        world: None,
        outbox: Outbox::new(),
        tidied: 0,
        spare: None,
        next_idle: null_mut(),
        stats: Stats::NONE,
    }),
    inbox: Aligned(Inbox::new()),
};

impl Heap {
    /// A new heap; null without memory.
    pub(crate) fn make(world: &'static World) -> *mut Heap {
        let Some(place) = os::map(BYTES.next_multiple_of(os::PAGE), os::PAGE) else { return null_mut() };
        let heap = place.cast::<Heap>();
        // SAFETY: fresh memory, as long as the heap and its magazines.
        unsafe {
            let mut room = place.add(size_of::<Heap>()).cast::<usize>();
            let with_magazines = world.checks() != Checks::Full;
            let mut class = 0;
            let bins = [(); CLASSES].map(|()| {
                let mut layers = Layers::none();
                if with_magazines {
                    layers.magazine = Magazine::over(room, capacity(class));
                    room = room.add(capacity(class));
                }
                class += 1;
                Bin::new(SIZES[class - 1] as usize, layers)
            });
            heap.write(Heap {
                own: UnsafeCell::new(Own {
                    bins,
                    for_words: [null_mut(); WORDS],
                    world: Some(world),
                    outbox: Outbox::new(),
                    tidied: 0,
                    spare: None,
                    next_idle: null_mut(),
                    stats: Stats::NONE,
                }),
                inbox: Aligned(Inbox::new()),
            });
            for (words, class) in C_WORDS.iter().enumerate() {
                let bin = Self::bin(heap.as_ptr(), usize::from(*class));
                (*heap.as_ptr()).own_mut().for_words[words] = bin;
            }
        }
        heap.as_ptr()
    }

    /// Ends a heap, which nothing else does: tests make so many that they would fill the machine.
    ///
    /// # Safety
    /// It was [made](Self::make), and nobody has it, nor an object of it.
    #[cfg(all(test, feature = "shuttle"))]
    pub(crate) unsafe fn unmake(heap: *mut Heap) {
        let Some(place) = NonNull::new(heap) else { return };
        // SAFETY: the caller's promise.
        unsafe { os::unmap(place.cast(), BYTES.next_multiple_of(os::PAGE)) };
    }

    /// The thread's own part.
    ///
    /// # Safety
    /// The caller is the heap's thread, or the heap has none, and no other such reference lives.
    #[expect(clippy::mut_from_ref, reason = "the caller's promise")]
    #[inline(always)]
    pub(crate) unsafe fn own_mut(&self) -> &mut Own {
        // SAFETY: the caller's promise.
        unsafe { &mut *self.own.get() }
    }

    /// The class that C's `malloc` takes for a size of so many words.
    ///
    /// # Safety
    /// The words are those of a size up to [`TINY`].
    #[inline(always)]
    pub(crate) unsafe fn bin_for_words(heap: *mut Heap, words: usize) -> *mut Bin {
        // SAFETY: the caller's promise; this part of a heap does not change.
        unsafe { *(*(*heap).own.get()).for_words.get_unchecked(words) }
    }

    /// A class.
    ///
    /// # Safety
    /// It is one.
    #[inline(always)]
    pub(crate) unsafe fn bin(heap: *mut Heap, class: usize) -> *mut Bin {
        // SAFETY: the caller's promise.
        unsafe { (&raw mut (*(*heap).own.get()).bins).cast::<Bin>().add(class) }
    }

    /// An object of a class when the layers are empty. `size` is what was asked for. Null without memory.
    ///
    /// # Safety
    /// `heap` is the caller's thread's.
    #[cold]
    pub(crate) unsafe fn slow(heap: *mut Heap, class: usize, size: usize) -> *mut u8 {
        // SAFETY: the caller's promise.
        let own = unsafe { (*heap).own_mut() };
        let Some(world) = own.world else { return null_mut() };
        own.outbox.send();
        // SAFETY: as above.
        unsafe { Self::take_inbox(heap, own, world) };
        own.tidy(heap, world);
        let is_guarded = world.checks() == Checks::Full;
        let class = if is_guarded { guarded_class(class, size) } else { Some(class) };
        let Some(class) = class else { return large::malloc(world, size, os::PAGE).0 };
        let (layers, mut shelf) = own.shelf(heap, class, world);
        let before = layers.magazine.len();
        let Ok(object) = layers.take(&mut shelf) else { return null_mut() };
        let room = shelf.stock.size;
        // Of what others freed some may have been of this class, so that nothing had to be carved.
        let carved =
            (layers.bump.end - layers.bump.next) / room + (layers.magazine.len() + 1).saturating_sub(before);
        own.stats.refills += u64::from(before == 0);
        own.stats.refilled += if before == 0 { carved as u64 } else { 0 };
        if is_guarded {
            // SAFETY: an object of this class, nobody else's.
            unsafe { guard::dress(object, room, size) };
        }
        std::ptr::with_exposed_provenance_mut(object)
    }

    /// Frees an object, in the frequent case that it is of this heap and that there is room; else false.
    ///
    /// # Safety
    /// `heap` is the caller's thread's, or [`NO_HEAP`]; the object is nobody's any more.
    #[inline(always)]
    pub(crate) unsafe fn quick_free(heap: *mut Heap, object: usize) -> bool {
        // SAFETY: objects have a header; a slab of this heap changes only through this thread.
        unsafe {
            let header = unit_of(object).as_ref();
            header.owner() == heap && (*header.bin).layers.magazine.put(object)
        }
    }

    /// Frees any object.
    ///
    /// # Safety
    /// As [`quick_free`](Self::quick_free).
    #[cold]
    pub(crate) unsafe fn slow_free(heap: *mut Heap, world: &'static World, object: usize) {
        if world.checks() != Checks::Off {
            check(world, object);
        }
        let header = unit_of(object);
        // SAFETY: objects have a header.
        let (owner, is_large) = unsafe { (header.as_ref().owner(), header.as_ref().units > 0) };
        if is_large {
            // SAFETY: the caller's promise.
            return unsafe { large::free(world, header, object) };
        }
        if world.checks() == Checks::Full {
            // SAFETY: an object in use, as far as can be told from outside its heap.
            unsafe {
                let room = header.as_ref().size;
                guard::size_of_dressed(object, room);
                guard::undress(object, room);
            }
        }
        // SAFETY: the caller's promises.
        unsafe {
            let own = (*heap).own_mut();
            if owner == heap {
                if world.checks() != Checks::Off {
                    header.cast::<Slab>().as_ref().must_be_out(object, heap);
                }
                own.put(heap, world, header.as_ref().class, object);
                own.stats.overflows += 1;
                own.tidy(heap, world);
            } else if own.world.is_some() && world.checks() != Checks::Full {
                own.outbox.put(object, owner);
            } else {
                remote::send(object, owner);
            }
        }
    }

    /// Takes what other threads freed.
    ///
    /// # Safety
    /// `heap` is the caller's, and `own` is its own part.
    unsafe fn take_inbox(heap: *mut Heap, own: &mut Own, world: &'static World) {
        let is_checked = world.checks() != Checks::Off;
        // SAFETY: heaps live for ever.
        let inbox = unsafe { &(*heap).inbox };
        let mut last = 0;
        inbox.take(|object, was_linked| {
            own.stats.from_others += 1;
            // SAFETY: what is sent to a heap is an object of its slabs.
            let mut slab = unit_of(object).cast::<Slab>();
            // SAFETY: as above.
            let slab = unsafe { slab.as_mut() };
            if is_checked {
                slab.must_be_out(object, heap);
                // Both would lie in the magazine, which nobody looks through.
                if std::mem::replace(&mut last, object) == object {
                    guard::freed_twice(object);
                }
            }
            if world.checks() == Checks::Full {
                // SAFETY: as above; nobody has it.
                unsafe {
                    if was_linked {
                        guard::undress_link(object);
                    }
                    guard::must_be_undressed(object, slab.header.size);
                }
            }
            let class = slab.header.class;
            own.put(heap, world, class, object);
        });
    }

    /// In the copy of a process: threads that were sending something to this heap are gone.
    ///
    /// # Safety
    /// `heap` is the caller's thread's, or nobody's, and there is no other thread.
    pub(crate) unsafe fn mend(heap: *mut Heap) {
        // SAFETY: heaps live for ever.
        unsafe { (*heap).inbox.mend() };
    }

    /// Sends what the heap's thread freed for others, which might wait for long.
    ///
    /// # Safety
    /// `heap` is the caller's thread's.
    pub(crate) unsafe fn say_goodbye(heap: *mut Heap) {
        // SAFETY: the caller's promise.
        unsafe { (*heap).own_mut() }.outbox.send();
    }

    /// Gives everything back that the heap's layers have.
    ///
    /// # Safety
    /// `heap` is the caller's thread's, or nobody's.
    pub(crate) unsafe fn empty(heap: *mut Heap) {
        // SAFETY: the caller's promise.
        let own = unsafe { (*heap).own_mut() };
        let Some(world) = own.world else { return };
        own.outbox.send();
        // SAFETY: as above.
        unsafe { Self::take_inbox(heap, own, world) };
        (0..CLASSES).for_each(|class| own.empty_class(heap, world, class));
        if let Some(unit) = own.spare.take() {
            // SAFETY: an empty unit.
            unsafe { world.pool.lock().give_back(unit, 1) };
        }
    }

    /// Gives all memory back to the host that no object lies in.
    ///
    /// # Safety
    /// As [`empty`](Self::empty).
    pub(crate) unsafe fn trim(heap: *mut Heap) {
        // SAFETY: the caller's promise.
        unsafe { Self::empty(heap) };
        // SAFETY: as above.
        let own = unsafe { (*heap).own_mut() };
        // What is free has known bytes in the highest grade.
        if own.world.is_some_and(|world| world.checks() != Checks::Full) {
            own.each_slab(Slab::release_pages);
        }
    }
}

impl Own {
    fn shelf<'h>(
        &'h mut self,
        owner: *mut Heap,
        class: usize,
        world: &'h World,
    ) -> (&'h mut Layers, Shelf<'h>) {
        // From the heap's own pointer, for slabs keep it: one from this reference would end with it.
        // SAFETY: the owner is the heap that this is the own part of.
        let bin = unsafe { Heap::bin(owner, class) };
        let Bin { layers, stock } = &mut self.bins[class];
        (layers, Shelf { stock, owner, bin, class, world, spare: &mut self.spare })
    }

    /// Now and then, gives back what all layers have. A few objects of a class that is not used much any more would keep a slab
    /// each; a class that is in use pays a refill for it.
    fn tidy(&mut self, heap: *mut Heap, world: &World) {
        if os::is_time(&mut self.tidied) {
            (0..CLASSES).for_each(|class| self.empty_class(heap, world, class));
            if world.checks() != Checks::Full {
                self.each_slab(Slab::rest);
            }
            world.pool.lock().tick();
        }
    }

    /// Does something with every slab that has free objects.
    fn each_slab(&self, work: impl Fn(&mut Slab)) {
        for mut slab in self.bins.iter().flat_map(|bin| bin.stock.slabs()) {
            // SAFETY: a slab of this heap.
            work(unsafe { slab.as_mut() });
        }
    }

    /// Gives back what the layers of a class have, and slabs without objects.
    fn empty_class(&mut self, heap: *mut Heap, world: &World, class: usize) {
        let (layers, mut shelf) = self.shelf(heap, class, world);
        shelf.give_back_range(std::mem::take(&mut layers.bump));
        let _ = shelf.give_back(layers.magazine.items());
        // Were another thread to have this heap too, it would take here what has gone back.
        point();
        layers.magazine.set_len(0);
        shelf.give_back_empty();
    }

    /// Puts an object into a magazine of this heap, or back into its slab.
    fn put(&mut self, heap: *mut Heap, world: &World, class: usize, object: usize) {
        let (layers, mut shelf) = self.shelf(heap, class, world);
        let _ = layers.put(&mut shelf, object);
    }
}

/// The address must be that of an object. (A header that is mixed with its address, and erased when its unit is given back, is found
/// nowhere else by chance: so the pool, which has a lock, is asked in the highest grade only.)
fn check(world: &World, object: usize) {
    let header = unit_of(object);
    // SAFETY: where nothing lies the program ends here, without a message, as it would have before.
    let head = unsafe { header.as_ref() };
    if !head.is_sound() {
        guard::not_ours(object);
    }
    if world.checks() == Checks::Full && !world.pool.lock().has(header.as_ptr() as usize) {
        guard::not_ours(object);
    }
    if head.units == 0 {
        // SAFETY: a sound header without units is that of a slab, whose shape does not change.
        let index = unsafe { header.cast::<Slab>().as_ref() }.exact(object);
        if index.is_none() {
            guard::not_ours(object);
        }
    }
}

fn guarded_class(class: usize, size: usize) -> Option<usize> {
    // The same alignment as the class that was chosen for it.
    let align = (SIZES[class] & SIZES[class].wrapping_neg()).min(os::PAGE as u32);
    class::aligned(size.checked_add(MARGIN)?, align as usize)
}
