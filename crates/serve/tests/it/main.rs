//! A service in the process of the test, without a kernel.
//!
//! The [`client`] takes the kernel's place: it walks paths, holds and returns references, keeps positions,
//! and says when a write takes privileges away. It checks no permissions. These rules are the kernel's alone,
//! and tests of `lanefs-fuse` try them: who may search, read and change (with groups, capabilities and access
//! control lists), sticky directories, who changes modes, owners and times, limits of a process, locks, and
//! set-group-id bits that a `chmod` by a stranger loses.
//!
//! All tests are modules of one program: each program costs a link.

mod client;
mod commands;
mod creating;
mod model;
mod observers;
mod posix;
mod times;
mod unnamed;
mod versions;
