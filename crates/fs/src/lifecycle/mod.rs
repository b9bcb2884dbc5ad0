//! The life of a volume: it is made, mounted, frozen, and grows.
//!
//! It knows the image and its memory, and no file.

mod freeze;
mod group_table;
mod grow;
mod identity;
mod memory;
pub(crate) mod mkfs;
mod mount;
