//! The heap's own code under a schedule explorer, which decides at each preemption point which thread
//! continues, thousands of times (see [`lanefs_sync`]).
//!
//! The explored memory is sequentially consistent: the explorer reorders threads at each access to shared
//! words, and not accesses as a processor does. It prints a failing schedule as a string that replays it.
//!
//! | module | |
//! |---|---|
//! | `explorer`, `fixture` | the series of schedules; a registry for one schedule, its threads, and objects with known contents |
//! | `frees` | objects that other threads free |
//! | `threads` | threads that end and begin, memory that is released meanwhile, forks |
//! | `locks` | the lock |

mod explorer;
mod fixture;
mod frees;
mod locks;
mod threads;
