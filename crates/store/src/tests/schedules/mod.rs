//! Schedule tests: the store's own code under an explorer, which decides at every preemption point which
//! thread continues, thousands of times (see [`lanefs_sync`]).
//!
//! The schedules are sequentially consistent: they vary the order of accesses to shared words, and not the
//! reordering of a processor. A failing schedule is printed as a string with which the explorer can replay
//! it.
//!
//! | module | |
//! |---|---|
//! | `explorer`, `world`, `medium` | the explorer; a store and the operations of a volume on it; a device that counts and fails |
//! | `reads`, `writes`, `gate` | concurrency |
//! | `fetches`, `windows`, `cache`, `slots`, `behind`, `commits`, `sums`, `snapshots` | fetches, neighbours, eviction, slots of sparse volumes, write-behind, durability, checksums of file data, snapshots of a device |

mod behind;
mod cache;
mod commits;
mod explorer;
mod fetches;
mod gate;
mod medium;
mod reads;
mod slots;
mod snapshots;
mod sums;
mod windows;
mod world;
mod writes;
