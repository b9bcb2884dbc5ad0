//! The words that kernels read besides the volume: filters, patterns, needles, lists of hashes, bundles of
//! paths.
//!
//! It knows no device: words go in wherever they lie.

pub(crate) mod filter;
pub(crate) mod hash_lists;
pub(crate) mod needles;
pub(crate) mod path_bundles;
pub(crate) mod patterns;
