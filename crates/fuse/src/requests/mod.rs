//! The way of the kernel's requests to the service, and of notifications to the kernel. Each request is one
//! line. The folder knows the library's types, and must never know a rule of POSIX.

mod buffer;
mod convert;
mod notify;
mod replies;
mod server;
mod state;

pub(crate) use notify::KernelCache;
pub(crate) use server::{Agreed, Server};
pub(crate) use state::{MountPoint, MountState, StateWatch};
