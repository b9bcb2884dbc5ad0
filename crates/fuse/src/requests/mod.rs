//! The requests of the kernel to the service, by whichever way they come, and notifications to the kernel.
//! Each request is one line or two. The folder knows the words of the kernel's interface, and must never know
//! a rule of POSIX.

pub(crate) mod abi;
mod dispatch;
mod notify;
mod state;

pub(crate) use dispatch::{Request, RequestService};
pub(crate) use notify::KernelCache;
pub(crate) use state::{MountPoint, MountState, StateWatch};
