//! Mounts as the kernel has them: system calls, its table, what it says of processes and images. The folder
//! asks no server, and must never know a request or a service.

mod calls;
pub mod ending;
mod handle;
pub mod processes;
pub mod table;

pub(crate) use calls::{
    MAX_WRITE_BYTES, UnmountMode, bind, clone_connection, mount, raise_readahead, remount, restrict, unmount,
};
pub(crate) use handle::MountHandle;
