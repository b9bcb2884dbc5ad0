//! Blocks by size: classes, slabs of one class and lists of them, large blocks.
//!
//! It knows no thread.

pub(crate) mod bin;
pub(crate) mod class;
pub(crate) mod header;
pub(crate) mod large;
pub(crate) mod slab;
mod slab_list;
mod slab_shape;
