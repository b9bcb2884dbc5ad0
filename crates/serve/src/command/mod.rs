//! Commands beside a mount. They know the socket, its messages, and the volume as a whole, and must never
//! know how a request of the mount's client is answered.
//!
//! A client reaches `control` by the `address` that the root directory of the mount gives, and speaks with it
//! in the frames of `wire`. A command without files of the host is executed by the server, with the client's
//! `streams` (`relay` is the server's end of them). All other commands run in the client, on a `remote`
//! volume: its `calls` are executed by the server, and `encode` has their values. `snapshots` are read in the
//! same way.

mod address;
mod calls;
pub mod client;
mod control;
mod encode;
#[cfg(feature = "_testing")]
#[doc(hidden)]
pub mod fuzzing;
mod relay;
mod remote;
mod snapshots;
mod streams;
mod wire;

pub use address::{address_of_mount, image_of_mount};
pub use control::{CommandRequest, CommandSocket, Executor};
pub use remote::RemoteVolume;
pub use snapshots::RemoteSnapshot;
pub use streams::{ClientStreams, Stream, Terminals};
pub use wire::TIMEOUT;
