//! Allocation in three layers, and a heap on it.
//!
//! *Bump*: the next item of a range that nobody had. *Magazine*: items that came back to this thread. *Slab*: a bitmap, from which many
//! are carved at once. [`policy`] and [`bitmap`] are for any kind of item, and a volume's blocks use them too; the heap
//! is [`LaneAlloc`], or [`malloc`] and [`free`]. `docs/allocator.md` says how a pointer travels, and what each step costs.

pub mod bitmap;
mod class;
mod face;
mod guard;
mod heap;
mod large;
mod lock;
mod os;
mod planted;
pub mod policy;
mod pool;
mod remote;
#[cfg(all(test, feature = "shuttle"))]
mod schedules;
mod settings;
mod shelf;
mod slab;
mod thread;
mod world;

pub use class::LARGEST;
pub use face::{LaneAlloc, calloc, free, malloc, malloc_aligned, realloc, usable_size};
pub use heap::Stats;
pub use shelf::OutOfMemory;
pub use world::Checks;
