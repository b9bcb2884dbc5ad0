//! Words of every transfer: names, errors, extended attributes, sets of hard links.
//!
//! It knows neither the host nor a volume.

pub(crate) mod error;
pub(crate) mod hardlinks;
pub(crate) mod input;
pub(crate) mod name;
pub(crate) mod xattrs;
