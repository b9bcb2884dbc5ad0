//! The objects of a publication: packs, pieces, pages, the root, and the words and hashes in them.
//!
//! It does no I/O.

pub(crate) mod buffers;
pub(crate) mod facts;
pub(crate) mod frames;
pub(crate) mod hash;
pub(crate) mod join;
pub(crate) mod layout;
pub(crate) mod pack;
pub(crate) mod packs;
pub(crate) mod page;
pub(crate) mod piece;
pub(crate) mod proof;
pub(crate) mod root;
pub(crate) mod words;
