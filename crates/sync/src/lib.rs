//! Synchronization primitives that a schedule explorer can take over, and bugs that tests plant.
//!
//! Without the feature `_shuttle` the names below are those of [`lock`] and of the standard library, and
//! [`point`] and [`is_planted`] vanish from the code. With it they belong to the schedule explorer, which
//! then decides at each of them which thread continues. A crate uses them like this:
//!
//! ```
//! use lanefs_sync::{Mutex, Planted, is_planted, point};
//!
//! /// Bugs that the schedule tests of this crate plant.
//! #[derive(Clone, Copy, Debug, PartialEq, Eq)]
//! enum PlantedBug {
//!     /// The counter forgets an increment.
//!     LostIncrement,
//! }
//!
//! impl Planted for PlantedBug {}
//!
//! fn increment(counter: &Mutex<u32>) {
//!     let mut count = counter.lock();
//!     if !is_planted(PlantedBug::LostIncrement) {
//!         *count += 1;
//!     }
//! }
//! # #[cfg(not(feature = "_shuttle"))] {
//! let counter = Mutex::new(0);
//! increment(&counter);
//! point();
//! assert_eq!(*counter.lock(), 1);
//! # }
//! ```
//!
//! | module | |
//! |---|---|
//! | [`lock`] | locks that a forked child can use |
//! | `native`, `explored` | the primitives of the machine, and those of the explorer with the same interface |
//! | `planted` | the switch for planted bugs |
//! | `explorer` | runs a test under many schedules (feature `_shuttle`) |
//!
//! This crate must never know what is locked, or why.

#![forbid(unsafe_code)]

#[cfg(feature = "_shuttle")]
mod explored;
#[cfg(feature = "_shuttle")]
mod explorer;
pub mod lock;
#[cfg(not(feature = "_shuttle"))]
mod native;
mod planted;

#[cfg(feature = "_shuttle")]
use explored as primitives;
#[cfg(not(feature = "_shuttle"))]
use native as primitives;

#[cfg(feature = "_shuttle")]
pub use explorer::Explorer;
#[cfg(feature = "_shuttle")]
pub use planted::with_planted;
pub use planted::{Planted, is_planted};
pub use primitives::{
    Condvar, Mutex, MutexGuard, atomic, is_past, point, thread_local, thread_number, yield_now,
};

/// Returns `native`, or `explored` with the feature `_shuttle`: a size that schedule tests make small, so
/// that they often reach its limit.
#[must_use]
pub const fn size(native: usize, explored: usize) -> usize {
    if cfg!(feature = "_shuttle") { explored } else { native }
}
