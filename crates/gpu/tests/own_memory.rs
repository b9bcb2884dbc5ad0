//! The tests of lookups, searches, changes and files once more, on a device whose memory the host does not
//! map, so over copies.

#![allow(
    clippy::duplicate_mod,
    reason = "each of these files is a test of its own too, with its own support"
)]

#[path = "changes.rs"]
mod changes;
#[path = "device_files.rs"]
mod device_files;
#[path = "directories.rs"]
mod directories;
#[path = "find.rs"]
mod find;
#[path = "flight.rs"]
mod flight;
#[path = "list.rs"]
mod list;
#[path = "lookup.rs"]
mod lookup;
