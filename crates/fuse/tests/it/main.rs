//! Volumes that are mounted.
//!
//! All tests are modules of one program: each program costs a link.

mod coherence;
mod cold;
mod direct;
mod model;
mod posix;
mod remount;
mod versions;
