//! Behaviour of a mounted volume, as programs see it. Each test mounts a volume of its own.
//!
//! The tests need /dev/fuse, and root or fusermount3. Without them they fail with a message that says so.

mod data;
mod limits;
mod lists;
mod names;
mod overlay;
mod privileges;
mod shared;
pub(crate) mod support;
mod times;
