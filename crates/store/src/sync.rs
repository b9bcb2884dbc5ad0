//! Threads' primitives, in one place: the ordinary ones, or with the feature `shuttle` those of the schedule explorer,
//! which then decides at every [`point`] which thread goes on.

#[cfg(not(feature = "shuttle"))]
mod plain {
    pub(crate) use parking_lot::{Condvar, Mutex, MutexGuard};

    /// Lets other threads run.
    pub(crate) fn yield_now() {
        std::thread::yield_now();
    }

    /// A moment in which another thread may come in between. Free outside of schedule tests.
    #[inline(always)]
    pub(crate) fn point() {}
}

#[cfg(feature = "shuttle")]
mod explored {
    use std::sync::PoisonError;

    pub(crate) use shuttle::sync::MutexGuard;

    /// The explorer's mutex with the face of the ordinary one.
    #[derive(Debug, Default)]
    pub(crate) struct Mutex<T>(shuttle::sync::Mutex<T>);

    impl<T> Mutex<T> {
        pub(crate) fn new(value: T) -> Self {
            Mutex(shuttle::sync::Mutex::new(value))
        }
        pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
            self.0.lock().unwrap_or_else(PoisonError::into_inner)
        }
        pub(crate) fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
            self.0.try_lock().ok()
        }
    }

    /// The explorer's condition variable with the face of the ordinary one.
    #[derive(Debug, Default)]
    pub(crate) struct Condvar(shuttle::sync::Condvar);

    impl Condvar {
        pub(crate) fn notify_all(&self) {
            self.0.notify_all();
        }
        /// The guard is taken out and put back: the explorer's condition variable wants it by value.
        pub(crate) fn wait<T>(&self, guard: &mut MutexGuard<'_, T>) {
            replace_with(guard, |guard| self.0.wait(guard).unwrap_or_else(PoisonError::into_inner));
        }
    }

    fn replace_with<T>(slot: &mut T, change: impl FnOnce(T) -> T) {
        // SAFETY: the value is read once and written back once; should `change` panic, the process ends before the
        // value could be dropped twice.
        unsafe {
            let old = std::ptr::read(slot);
            let new = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| change(old)));
            std::ptr::write(slot, new.unwrap_or_else(|_| std::process::abort()));
        }
    }

    pub(crate) fn yield_now() {
        shuttle::thread::yield_now();
    }

    /// The explorer decides who goes on. (Sleeping, which to it takes no time, and not yielding, which would tell it that
    /// this thread had better not go on.)
    pub(crate) fn point() {
        shuttle::thread::sleep(std::time::Duration::ZERO);
    }
}

#[cfg(feature = "shuttle")]
pub(crate) use explored::{Condvar, Mutex, MutexGuard, point, yield_now};
#[cfg(not(feature = "shuttle"))]
pub(crate) use plain::{Condvar, Mutex, MutexGuard, point, yield_now};

/// A size that schedule tests make so small that its end is often met, and creating a store is cheap.
pub(crate) const fn size(ordinary: usize, explored: usize) -> usize {
    if cfg!(feature = "shuttle") { explored } else { ordinary }
}

/// A small number for the calling thread, the same for its whole life.
#[cfg(not(feature = "shuttle"))]
pub(crate) fn thread_number() -> usize {
    use std::sync::atomic::{AtomicUsize, Ordering};
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    std::thread_local! {
        static NUMBER: usize = NEXT.fetch_add(1, Ordering::Relaxed);
    }
    NUMBER.with(|number| *number)
}

/// A small number for the calling thread, the same in each run of a schedule.
#[cfg(feature = "shuttle")]
pub(crate) fn thread_number() -> usize {
    shuttle::current::me().into()
}

#[cfg(feature = "shuttle")]
pub(crate) use shuttle::thread_local;
#[cfg(not(feature = "shuttle"))]
pub(crate) use std::thread_local;
