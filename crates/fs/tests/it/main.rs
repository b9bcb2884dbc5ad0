//! The file system as a program uses it.
//!
//! All tests are modules of one program: each program costs a link.

mod acl;
mod behind;
mod check;
mod checksums;
mod cold;
mod committing;
mod copy;
mod freeze;
mod group_use;
mod grow;
mod hold;
mod joined;
mod notice;
mod posix;
mod prealloc;
mod readers;
mod snapshot;
mod superblock;
mod tail;
mod threads;
mod volume;
