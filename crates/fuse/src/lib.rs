//! LaneFS as a file system of Linux, through FUSE: a [`Mount`] serves an open volume below a directory.
//!
//! The rules of POSIX are `lanefs-serve`'s; this crate is its transport to and from the kernel.
//!
//! # Modules
//!
//! Each module refers to modules of the lines above it only, so this table is also an order to read them in.
//!
//! | layer | modules |
//! |---|---|
//! | vocabulary | `error`, `options`, [`logging`], [`daemon`]: a background process; [`std_output`]: whether standard output was closed at the start |
//! | the kernel | `kernel`: the system calls that mount and unmount, [`table`]: its table of mounts, mounts that are held, [`processes`]: those that use a mount, [`ending`]: whether a server still closes its volume |
//! | requests | `requests`: one line for each, the words of the kernel's interface, the kernel's caches, the state that a remount changes; `device`: the agreement with the kernel, requests through `/dev/fuse`; `uring`: requests through rings |
//! | mounts | [`find`]: the mount of an image or a directory, none of whose names is believed; `mover`: to another version of the volume; `session`: start, service, end |
//! | changes of a mount | [`remount`], [`unmount`] |
//!
//! # Invariants
//!
//! * **The kernel checks permissions** (`default_permissions`): it knows the caller's groups and
//!   capabilities, and replies from its caches without a request.
//! * **No path and no descriptor of a client is used** by the server: a client works on the host itself.
//! * **The kernel may cache replies without limit**: every change of a mounted volume is a request of the
//!   kernel, or the kernel is notified of it.
//! * **Data reported as written are in the volume**: the kernel keeps no dirty data, except those of shared
//!   mappings.
//!
//! This crate knows neither the inside of a volume nor the command line.
// Three places are excepted: the memory that the kernel writes, in one module of `uring`; one control in
// `kernel`; and the function of `std_output` that the loader calls.
#![deny(unsafe_code)]

pub mod daemon;
mod device;
mod error;
pub mod find;
mod kernel;
pub mod logging;
mod mover;
mod options;
pub mod remount;
mod requests;
mod session;
pub mod std_output;
pub mod unmount;
mod uring;

pub use error::{Error, Result};
pub use kernel::{ending, processes, table};
pub use lanefs_serve::command::{
    ClientStreams, CommandRequest, Executor as Service, RemoteSnapshot, RemoteVolume, Stream, Terminals,
    client,
};
pub use lanefs_serve::{BUCKETS, Operation, OperationCounts, Statistics, Trace};
pub use mover::Mover;
pub use options::{Options, Transport};
pub use session::{Ended, Mount, Stopper, directory};
