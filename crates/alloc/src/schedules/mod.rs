//! The heap under a schedule explorer: its own code, with every moment in which a thread may be overtaken
//! decided by the explorer, thousands of times (see [`lanefs_sync`]).
//!
//! The exploration is sequentially consistent: it varies which thread continues after each access to shared
//! words, and not the reorderings of a processor. A failing schedule is printed as a string with which the
//! explorer can replay it.
//!
//! | module | |
//! |---|---|
//! | `explorer`, `stage` | how schedules are tried; a world for one schedule, its threads, and objects that tell whose they are |
//! | `frees` | objects that other threads free |
//! | `threads` | threads that end and begin, memory that is released meanwhile, forks |
//! | `locks` | the lock |

mod explorer;
mod frees;
mod locks;
mod stage;
mod threads;
