//! LaneFS as a file system of Linux, through FUSE: a [`Mount`] serves an open volume below a directory.
//!
//! * Requests: `server` receives them and passes them to the theme modules (`opening`, `names`, `data`,
//!   `attributes`, `xattrs`, `listing`), which implement them on the state of the mount (`served`) and its
//!   `versions`, and return an `errno`. `convert` translates types, `statistics` counts.
//! * Mounts: `session` starts, serves and ends one, with the system calls in `kernel`. `table` reads the
//!   kernel's table of mounts, `remount` changes a mount, `state` makes the server adopt the change,
//!   `unmount` removes a mount, `ending` tells that its server still closes the volume, `mover` moves one to
//!   another version of its volume, `processes` finds the processes that use it, `daemon` starts a background
//!   process.
//! * Commands beside a mount: `find` finds the mount of an image or a directory, and believes no name of it;
//!   `handle` holds it. `client` reaches `control` by the `address` that the mount itself gives, and speaks
//!   with it in the frames of `wire`. A command without files of the host is executed by the server,
//!   with the client's `streams` (`relay` is the server's end of them). All other commands run in the client,
//!   on a `remote` volume: its `calls` are executed by the server, and `encode` has their values. `snapshots`
//!   are read in the same way. `notify` invalidates the kernel's caches.
//!
//! # Invariants
//!
//! * **The kernel checks permissions** (`default_permissions`): it knows the caller's groups and
//!   capabilities, and replies from its caches without a request. This crate does everything as the volume's
//!   owner.
//! * **No path and no descriptor of a client is used** by the server: a client works on the host itself.
//! * **The kernel may cache replies without limit**: every change of a mounted volume is a request of the
//!   kernel, or the kernel is notified of it.
//! * **Inodes known to the kernel are held** in the volume, once for each lookup, until the kernel forgets
//!   them. The kernel's number of an inode tells its version.
//! * **Data reported as written are in the volume**: the kernel keeps no dirty data, except those of shared
//!   mappings.
//!
//! This crate knows neither the inside of a volume nor the command line.
#![forbid(unsafe_code)]

mod address;
mod attributes;
mod buffer;
mod calls;
pub mod client;
mod control;
mod convert;
pub mod daemon;
mod data;
mod encode;
pub mod ending;
mod errno;
mod error;
pub mod find;
#[cfg(feature = "_testing")]
#[doc(hidden)]
pub mod fuzzing;
mod handle;
mod kernel;
mod listing;
pub mod logging;
mod mover;
mod moving;
mod names;
mod notify;
mod numbers;
mod observer;
mod opening;
mod options;
pub mod processes;
mod relay;
mod remote;
pub mod remount;
mod replies;
mod requester;
mod root_attributes;
mod serve_error;
mod served;
mod server;
mod session;
mod snapshots;
mod state;
mod statistics;
mod streams;
pub mod table;
pub mod unmount;
mod versions;
mod wire;
mod xattrs;

pub use control::{CommandRequest, Service};
pub use error::{Error, Result};
pub use mover::Mover;
pub use options::Options;
pub use remote::RemoteVolume;
pub use session::{Ended, Mount, Stopper, directory};
pub use snapshots::RemoteSnapshot;
pub use statistics::{BUCKETS, Operation, OperationCounts, Statistics};
pub use streams::{ClientStreams, Stream, Terminals};
