//! A LaneFS volume as a POSIX service for any protocol: [`Served`] has one method for each request of a file
//! system, and one more end, the socket for commands. It needs no kernel, so tests call it in process.
//!
//! A transport decodes requests, calls [`Served`], and encodes the answers. `lanefs-fuse` is one, whose
//! client is the kernel. Content goes straight between the buffers of the transport and the block cache.
//!
//! # Modules
//!
//! Each module refers to modules of the lines above it only, so this table is also an order to read them in.
//!
//! | layer | modules |
//! |---|---|
//! | vocabulary | `errno`, `error`, `requester`, `statistics` |
//! | versions of a volume | `versions`: which inodes belong to which, and the client's references |
//! | the trace of what is read | `trace` |
//! | the volume that is served | `served`: the state that all requests share, the client that caches replies, moves to other versions |
//! | requests | `names`: lookup, making, renaming, removal, listings; `files`: content, attributes, extended attributes |
//! | commands beside a mount | [`command`]: the socket, its protocol, both ends; with the feature `_testing`: `fuzzing` |
//!
//! # Invariants
//!
//! * **The client of a service has checked permissions**, as the kernel does for a mount: it knows the
//!   requester's groups and capabilities. The service does everything as the volume's owner. It keeps the
//!   rules that follow from a permitted change: who owns a new file, which set-id bits and capabilities a
//!   change takes away.
//! * **No path and no descriptor of a client is used**: a client works on the host itself.
//! * **Replies are valid without limit where an [`Observer`] learns of all other changes**, and not at all
//!   elsewhere.
//! * **Inodes known to the client are held** in the volume, once for each reference, until the client forgets
//!   them. The number of a node tells its version.
//! * **Data reported as written are in the volume.**
//!
//! This crate knows neither a kernel's protocol, nor the inside of a volume, nor the command line.
#![forbid(unsafe_code)]

pub mod command;
mod errno;
mod error;
mod files;
mod names;
mod requester;
mod served;
mod statistics;
mod trace;
mod versions;

#[cfg(feature = "_testing")]
#[doc(hidden)]
pub use command::fuzzing;
pub use errno::{Errno, Reply};
pub use error::{Error, Result};
pub use files::OpenFlags;
pub use names::{EntrySink, NameSink, NewMode, Room};
pub use requester::{Groups, Requester};
pub use served::{Observer, ServeOptions, Served};
pub use statistics::{BUCKETS, Operation, OperationCounts, Statistics};
pub use trace::Trace;
pub use versions::{Entry, Lookup, NodeId};
