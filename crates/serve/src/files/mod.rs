//! Requests about one inode: content, attributes, extended attributes, and the privileges that a change takes
//! away. They must never know a name.

mod attributes;
mod controls;
mod data;
mod opening;
mod privileges;
mod xattrs;

pub use opening::OpenFlags;
