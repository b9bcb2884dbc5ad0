//! Files inside an attempt: inodes, their maps, content, attributes, lists and permissions.
//!
//! It knows no name of a file.

pub(crate) mod attr;
pub(crate) mod data;
pub(crate) mod inode;
pub(crate) mod lists;
pub(crate) mod map;
pub(crate) mod perm;
pub(crate) mod transaction;
pub(crate) mod write_plan;
pub(crate) mod xattr;
