//! The volume's side: entries that are made, found and replaced.
//!
//! It uses the volume's public calls, and knows no host.

pub(crate) mod replacement;
pub(crate) mod volume;
pub(crate) mod volume_entry;
