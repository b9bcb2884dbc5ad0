//! Searches on a device: patterns in texts, hashes of contents, ranks of paths.
//!
//! It knows texts and paths that it was given, and not the volume that they come from.

pub(crate) mod kept_texts;
pub(crate) mod ranked;
pub(crate) mod scan;
mod text_device;
pub(crate) mod text_hash;
pub(crate) mod woven;
