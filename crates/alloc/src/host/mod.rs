//! The host: pages, a clock, locks, a message at the end.
//!
//! It knows no block of the heap.

pub(crate) mod clock;
pub(crate) mod lock;
pub(crate) mod message;
pub(crate) mod os;
