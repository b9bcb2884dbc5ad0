//! Directories: entries in leaf blocks, in one hash-ordered list, found through a hash tree and region
//! indexes.
//!
//! | form | when | a name is found through |
//! |---|---|---|
//! | empty | no entry, no block | |
//! | small | up to 28 entries (8 in 128 B inodes) in one leaf | tags in the inode |
//! | region | one hash region | its index block |
//! | tree | several regions | tree blocks, then the region's index block |
//!
//! Entries never move once written, so the position in the leaves is a stable cookie for `readdir`.

mod batch;
mod entry;
mod index;
mod leaf;
mod list;
mod lookup;
mod many;
mod region;
mod root;
mod small;
mod tree;
mod unindexed;
mod update;

pub use batch::{Added, Batch, Built, Head, Home, Lookup, Source, Task};
pub(crate) use entry::{Dentry, Name};
pub(crate) use index::{bucket_at, probe_bucket};
pub(crate) use list::{leaf_entries, list};
pub(crate) use lookup::{Region, find, prefetch_removal};
pub(crate) use many::{EntryChange, count, finish, look, prepare};
pub(crate) use root::{is_empty, root_in};
pub(crate) use small::{candidates, unit_of};
pub(crate) use tree::descend as region_of;
pub(crate) use update::{insert, remove, replace};
