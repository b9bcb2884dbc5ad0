//! LaneFS as a file system of Linux, through FUSE: a [`Mount`] serves an open volume below a directory.
//!
//! What a request means is decided in the theme modules (`names`, `data`, `attributes`, `xattrs`, `listing`); `server` only hands
//! requests on. `session` mounts, serves and ends; `kernel` has the system calls for that; `table` reads what is mounted;
//! `unmount` takes it away again; `users` finds out who is in the way; `daemon` is a process of its own. Commands for a volume that is
//! mounted go from `client` to `control`, in the words of `wire`; `notify` tells the kernel what they changed.
//!
//! # Invariants
//!
//! * **The kernel checks permissions** (`default_permissions`): it knows the groups and capabilities of whoever asks, and answers
//!   from its caches without asking here. Here everything is done as the volume's owner.
//! * **The kernel may believe what it was told for ever**: whatever changes a mounted volume comes through the mount, or the kernel is
//!   told of it.
//! * **An inode that the kernel knows is held** in the volume, as often as it was told of it, until it forgets.
//! * **Nothing is said to be written that is not in the volume**: the kernel keeps no dirty data, save those of shared mappings.
//!
//! What this crate does not know: how a volume works inside; the command line.
// One call of `control` has to, with its reason.
#![deny(unsafe_code)]

mod attributes;
pub mod client;
mod control;
mod convert;
pub mod daemon;
mod data;
mod errno;
mod error;
mod kernel;
mod listing;
pub mod logging;
mod names;
mod notify;
mod options;
mod served;
mod server;
mod session;
mod statistics;
pub mod table;
pub mod unmount;
pub mod users;
mod wire;
mod xattrs;

pub use control::{Request, Service};
pub use error::{Error, Result};
pub use options::Options;
pub use session::{Ended, Mount, Stopper, directory};
pub use statistics::{Operation, STEPS, Snapshot, Statistics};
