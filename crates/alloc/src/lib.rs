//! Allocation in three layers, and a heap on it.
//!
//! *Bump*: the next item of a fresh range. *Magazine*: items that came back to this thread. *Slab*: a bitmap,
//! from which one call carves many items. [`policy`] and [`bitmap`] are for any kind of item, and a volume's
//! blocks use them too. The heap is [`LaneAlloc`], or [`malloc`] and [`free`]. `docs/allocator.md` follows a
//! pointer through the layers, and counts the instructions of each step.
//!
//! Each module uses those above it in this table:
//!
//! | module | |
//! |---|---|
//! | `planted`, `message`, `misuse`, `checks`, `lock` | planted bugs; messages and failed checks; the grades; a lock that allocates nothing |
//! | `os`, `clock` | memory of the kernel; ticks |
//! | [`bitmap`], [`policy`] | runs of free bits; magazine, range, and the source that refills them |
//! | `class`, `unit`, `slab_shape` | sizes; pieces of address space; the layout of a slab |
//! | `pool`, `backend` | units; the state that all heaps share |
//! | `ring`, `inbox`, `outbox` | remote frees |
//! | `header`, `guard` | the start of a unit, and the way from an object to it; guard bytes |
//! | `slab`, `slab_list`, `bin`, `large` | objects of one class; large objects |
//! | `stats`, `heap` | the heap of one thread |
//! | `registry`, `settings`, `thread` | heaps of threads that have ended; the environment; the heap of each thread |
//! | `api` | functions, and the global allocator |

mod api;
mod backend;
mod bin;
pub mod bitmap;
mod checks;
mod class;
mod clock;
mod guard;
mod header;
mod heap;
mod inbox;
mod large;
mod lock;
mod message;
mod misuse;
mod os;
mod outbox;
mod planted;
pub mod policy;
mod pool;
mod registry;
mod ring;
#[cfg(all(test, feature = "_shuttle"))]
mod schedules;
mod settings;
mod slab;
mod slab_list;
mod slab_shape;
mod stats;
mod thread;
mod unit;

pub use api::{LaneAlloc, calloc, free, malloc, malloc_aligned, realloc, usable_size};
pub use bin::OutOfMemory;
pub use checks::Checks;
pub use class::LARGEST;
pub use stats::Stats;

// The example of the README is compiled with the other examples.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
