//! The host's side: directories by descriptor, attributes, new files.
//!
//! It follows no link that it did not make, and knows no volume.

pub(crate) mod change_times;
pub(crate) mod host;
pub(crate) mod host_attributes;
pub(crate) mod host_top;
pub(crate) mod hostdir;
pub(crate) mod new_file;
pub(crate) mod node;
pub(crate) mod opener;
