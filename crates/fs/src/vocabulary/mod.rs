//! Words of every layer: names and paths, attributes, options, errors, columns of answers.
//!
//! It knows what callers say and hear, and nothing of a volume's bytes.

pub(crate) mod acl;
pub(crate) mod as_path;
pub(crate) mod columns;
pub(crate) mod error;
pub mod escape;
pub mod expansion;
pub(crate) mod extent;
pub(crate) mod name_set;
pub(crate) mod notice;
pub(crate) mod options;
pub mod path;
pub(crate) mod path_set;
pub(crate) mod threads;
pub(crate) mod types;
pub(crate) mod xattr_name;
