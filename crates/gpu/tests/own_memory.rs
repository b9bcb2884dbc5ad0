//! The tests of lookups, searches, changes and files once more, on a device whose memory the host does not
//! map, so over copies.

#![allow(clippy::duplicate_mod, reason = "these files are tests of another program, too")]

#[path = "it/changes.rs"]
mod changes;
#[path = "it/device_files.rs"]
mod device_files;
#[path = "it/directories.rs"]
mod directories;
#[path = "it/find.rs"]
mod find;
#[path = "flight.rs"]
mod flight;
#[path = "it/list.rs"]
mod list;
#[path = "it/lookup.rs"]
mod lookup;
#[path = "it/support/mod.rs"]
mod support;
