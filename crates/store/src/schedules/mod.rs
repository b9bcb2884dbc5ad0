//! The store under a schedule explorer: its own code, with every moment in which a thread may be overtaken decided by
//! the explorer, thousands of times (see [`lanefs_sync`]).
//!
//! What is explored is sequentially consistent: which thread goes on after each access to shared words, not what a
//! processor may reorder. A failing schedule is printed as a string with which the explorer can replay it.
//!
//! | module | |
//! |---|---|
//! | `explorer`, `world`, `medium` | how schedules are tried; a store and what a volume does with it; a device that counts and fails |
//! | `reads`, `writes`, `gate` | concurrency |
//! | `fetches`, `cache`, `commits` | blocks come and go, and become durable |

mod behind;
mod cache;
mod commits;
mod explorer;
mod fetches;
mod gate;
mod medium;
mod reads;
mod world;
mod writes;
