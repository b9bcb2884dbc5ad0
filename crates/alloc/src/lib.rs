//! Allocation in three layers, and a heap on it.
//!
//! *Bump*: the next item of a fresh range. *Magazine*: items that came back to this thread. *Slab*: a bitmap,
//! from which one call carves many items. [`policy`] and [`bitmap`] are for any kind of item, and a volume's
//! blocks use them too. The heap is [`LaneAlloc`], or [`malloc`] and [`free`]. `docs/allocator.md` follows a
//! pointer through the layers, and counts the instructions of each step.
//!
//! # Modules
//!
//! Each module refers to modules of the lines above it only, so this table is also an order to read them in.
//!
//! | module | what it knows |
//! |---|---|
//! | `planted` | bugs that schedule tests plant |
//! | `host` | pages of the kernel, a clock, a lock that allocates nothing, messages of failed checks |
//! | `checking` | misuse by the program: grades of checks, guard bytes |
//! | [`bitmap`], [`policy`] | runs of free bits; magazine, range, and the source that refills them |
//! | `memory` | units of address space, the pool of them |
//! | `frees` | frees by other threads |
//! | `slabs` | size classes, slabs of one class, large objects |
//! | `stats` | statistics |
//! | `heap` | the heap of one thread |
//! | `threads` | the heaps of all threads, and of those that have ended; settings from the environment |
//! | `api` | functions, and the global allocator |

mod api;
pub mod bitmap;
mod checking;
mod frees;
mod heap;
mod host;
mod memory;
mod planted;
pub mod policy;
#[cfg(all(test, feature = "_shuttle"))]
mod schedules;
mod slabs;
mod stats;
mod threads;

pub use api::{LaneAlloc, calloc, free, malloc, malloc_aligned, realloc, usable_size};
pub use checking::checks::Checks;
pub use slabs::bin::OutOfMemory;
pub use slabs::class::LARGEST;
pub use stats::Stats;

// The example of the README is compiled with the other examples.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
