//! Which heap is whose: a word of each thread, what happens when a thread ends, and when the process is copied.

use crate::heap::{Heap, NO_HEAP};
use crate::settings;
use crate::world::World;
use std::sync::atomic::{AtomicU32, Ordering};

/// What all heaps of the process share.
pub(crate) static WORLD: World = World::new();

const NO_HEAP_AT: *mut Heap = std::ptr::from_ref(&NO_HEAP).cast_mut();

/// The word lies at a fixed offset from the thread's pointer also in a shared library, so that it takes two instructions; what
/// the language offers calls a function there.
#[cfg(all(target_arch = "x86_64", target_os = "linux", not(miri)))]
mod word {
    use super::{Heap, NO_HEAP};

    std::arch::global_asm!(
        ".section .tdata.lanefs_alloc_heap,\"awT\",@progbits",
        ".p2align 3",
        ".globl lanefs_alloc_heap",
        ".hidden lanefs_alloc_heap",
        ".type lanefs_alloc_heap,@object",
        ".size lanefs_alloc_heap,8",
        "lanefs_alloc_heap: .quad {none}",
        ".text",
        none = sym NO_HEAP,
    );

    #[inline(always)]
    pub(crate) fn get() -> *mut Heap {
        let heap;
        // SAFETY: reads a word of this thread.
        unsafe {
            std::arch::asm!(
                "mov {heap}, qword ptr [rip + lanefs_alloc_heap@GOTTPOFF]",
                "mov {heap}, qword ptr fs:[{heap}]",
                heap = out(reg) heap,
                options(pure, readonly, nostack, preserves_flags),
            );
        }
        heap
    }

    pub(crate) fn set(heap: *mut Heap) {
        // SAFETY: writes a word of this thread.
        unsafe {
            std::arch::asm!(
                "mov {at}, qword ptr [rip + lanefs_alloc_heap@GOTTPOFF]",
                "mov qword ptr fs:[{at}], {heap}",
                at = out(reg) _,
                heap = in(reg) heap,
                options(nostack, preserves_flags),
            );
        }
    }
}

#[cfg(not(all(target_arch = "x86_64", target_os = "linux", not(miri))))]
mod word {
    use super::{Heap, NO_HEAP_AT};
    use std::cell::Cell;

    std::thread_local! {
        static HEAP: Cell<*mut Heap> = const { Cell::new(NO_HEAP_AT) };
    }

    #[inline(always)]
    pub(crate) fn get() -> *mut Heap {
        HEAP.try_with(Cell::get).unwrap_or(NO_HEAP_AT)
    }

    pub(crate) fn set(heap: *mut Heap) {
        let _ = HEAP.try_with(|word| word.set(heap));
    }
}

/// The thread's heap, or [`NO_HEAP`].
#[inline(always)]
pub(crate) fn heap() -> *mut Heap {
    word::get()
}

/// The heap of a thread that had none; null without memory.
#[cold]
pub(crate) fn attach() -> *mut Heap {
    begin();
    let heap = WORLD.adopt();
    if !heap.is_null() {
        // First, for what follows may allocate.
        word::set(heap);
        let key = KEY.load(Ordering::Acquire);
        if key != NO_KEY {
            // SAFETY: a key of ours. Where it fails, the heap stays with the thread for good.
            unsafe { libc::pthread_setspecific(key, heap.cast()) };
        }
        watch();
    }
    heap
}

const NO_KEY: u32 = u32::MAX;

/// Has a thread's heap given back when it ends.
static KEY: AtomicU32 = AtomicU32::new(NO_KEY);
static BEGUN: AtomicU32 = AtomicU32::new(0);
static WATCHED: AtomicU32 = AtomicU32::new(0);

/// Once in the process, by the first thread that allocates.
fn begin() {
    if BEGUN.load(Ordering::Acquire) == 2 {
        return;
    }
    if BEGUN.compare_exchange(0, 1, Ordering::Acquire, Ordering::Acquire).is_err() {
        // Whoever began it is a moment ahead. (It does not allocate, so it is another thread.)
        while BEGUN.load(Ordering::Acquire) != 2 {
            std::hint::spin_loop();
        }
        return;
    }
    settings::read(&WORLD);
    let mut key = 0;
    // SAFETY: a place for the key, and a function for it.
    if unsafe { libc::pthread_key_create(&raw mut key, Some(end)) } == 0 {
        KEY.store(key, Ordering::Release);
    }
    BEGUN.store(2, Ordering::Release);
}

/// A thread ends.
extern "C" fn end(heap: *mut libc::c_void) {
    let heap = heap.cast::<Heap>();
    if word::get() == heap {
        // What the thread allocates from now on comes from a heap that it adopts anew.
        word::set(NO_HEAP_AT);
    }
    // SAFETY: the thread's own, which nothing uses any more.
    unsafe { WORLD.abandon(heap) };
}

/// Sees to it that no lock is taken when the process is copied, and that its end is reported if somebody asked for that.
fn watch() {
    // Miri runs no second process, and has no functions for one.
    if cfg!(miri) {
        return;
    }
    if WATCHED.load(Ordering::Relaxed) == 0 && WATCHED.swap(1, Ordering::Relaxed) == 0 {
        // SAFETY: functions without arguments that live as long as the code.
        unsafe {
            libc::pthread_atfork(Some(before_fork), Some(after_fork), Some(after_fork_in_child));
            if settings::asks_for_stats() {
                libc::atexit(at_exit);
            }
        }
    }
}

extern "C" fn at_exit() {
    let own = heap();
    WORLD.stats((own != NO_HEAP_AT).then_some(own)).print();
}

extern "C" fn before_fork() {
    WORLD.hold();
}

extern "C" fn after_fork() {
    WORLD.go_on();
}

extern "C" fn after_fork_in_child() {
    WORLD.go_on();
    let own = heap();
    WORLD.mend((own != NO_HEAP_AT).then_some(own));
}
