//! The heap of each thread: a word of the thread, the end of a thread, and copies of the process.

use super::registry::Registry;
use super::settings;
use crate::heap::{Heap, NO_HEAP};
use std::sync::atomic::{AtomicU32, Ordering};

/// All heaps of the process.
pub(crate) static REGISTRY: Registry = Registry::new();

/// The word is at a fixed offset from the thread pointer, also in a shared library: two instructions read it.
/// A thread-local variable of the language calls a function there.
#[cfg(all(target_arch = "x86_64", target_os = "linux", not(miri), not(lanefs_no_asm)))]
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

#[cfg(not(all(target_arch = "x86_64", target_os = "linux", not(miri), not(lanefs_no_asm))))]
mod word {
    use super::{Heap, no_heap};
    use std::cell::Cell;

    std::thread_local! {
        static HEAP: Cell<*mut Heap> = const { Cell::new(no_heap()) };
    }

    #[inline(always)]
    pub(crate) fn get() -> *mut Heap {
        HEAP.try_with(Cell::get).unwrap_or(no_heap())
    }

    pub(crate) fn set(heap: *mut Heap) {
        let _ = HEAP.try_with(|word| word.set(heap));
    }
}

const fn no_heap() -> *mut Heap {
    (&raw const NO_HEAP).cast_mut()
}

/// Returns the heap of the calling thread, or [`NO_HEAP`].
#[inline(always)]
pub(crate) fn heap() -> *mut Heap {
    word::get()
}

/// Returns the heap of the calling thread, if it has one.
pub(crate) fn own_heap() -> Option<*mut Heap> {
    Some(heap()).filter(|heap| Heap::is_real(*heap))
}

/// Gives a heap to a thread that has none; null without memory.
#[cold]
pub(crate) fn attach() -> *mut Heap {
    initialize();
    let heap = REGISTRY.adopt();
    if !heap.is_null() {
        // First, because the calls below may allocate.
        word::set(heap);
        let key = KEY.load(Ordering::Acquire);
        if key != NO_KEY {
            // SAFETY: a key of this module. If it fails, the heap stays with the thread, and no other adopts
            // it.
            unsafe { libc::pthread_setspecific(key, heap.cast()) };
        }
        register_handlers();
    }
    heap
}

const NO_KEY: u32 = u32::MAX;

/// Key of the thread-specific value whose destructor abandons the heap.
static KEY: AtomicU32 = AtomicU32::new(NO_KEY);
static INITIALIZATION: AtomicU32 = AtomicU32::new(NOT_BEGUN);
static HAS_HANDLERS: AtomicU32 = AtomicU32::new(0);

/// Values of `INITIALIZATION`, which only rises.
const NOT_BEGUN: u32 = 0;
const BEGUN: u32 = 1;
const DONE: u32 = 2;

/// Reads the settings and creates the key, in the first thread that allocates; other threads wait for it.
fn initialize() {
    if INITIALIZATION.load(Ordering::Acquire) == DONE {
        return;
    }
    if INITIALIZATION.compare_exchange(NOT_BEGUN, BEGUN, Ordering::Acquire, Ordering::Acquire).is_err() {
        // (The first thread does not allocate meanwhile, so this is another one.)
        while INITIALIZATION.load(Ordering::Acquire) != DONE {
            std::hint::spin_loop();
        }
        return;
    }
    settings::read_checks(&REGISTRY.backend);
    let mut key = 0;
    // SAFETY: a variable for the key, and a destructor.
    if unsafe { libc::pthread_key_create(&raw mut key, Some(thread_ends)) } == 0 {
        KEY.store(key, Ordering::Release);
    }
    INITIALIZATION.store(DONE, Ordering::Release);
}

/// Abandons the heap of a thread that ends.
extern "C" fn thread_ends(heap: *mut libc::c_void) {
    let heap = heap.cast::<Heap>();
    if word::get() == heap {
        // If the thread allocates again, it adopts another heap.
        word::set(no_heap());
    }
    // SAFETY: the thread's own, which nothing uses any more.
    unsafe { REGISTRY.abandon(heap) };
}

/// Registers handlers for copies of the process, and for its end if the environment asks for counters.
fn register_handlers() {
    if HAS_HANDLERS.load(Ordering::Relaxed) == 0
        && HAS_HANDLERS.swap(1, Ordering::Relaxed) == 0
        && cfg!(not(miri))
    {
        // SAFETY: functions without arguments that live as long as the code.
        unsafe {
            libc::pthread_atfork(Some(before_fork), Some(after_fork), Some(after_fork_in_child));
            if settings::wants_stats() {
                libc::atexit(at_exit);
            }
        }
    }
}

extern "C" fn at_exit() {
    REGISTRY.stats(own_heap()).print();
}

extern "C" fn before_fork() {
    REGISTRY.lock_for_fork();
}

extern "C" fn after_fork() {
    REGISTRY.unlock_after_fork();
}

extern "C" fn after_fork_in_child() {
    REGISTRY.unlock_after_fork();
    REGISTRY.drop_unfilled(own_heap());
}
