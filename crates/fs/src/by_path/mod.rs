//! Calls by path, as programs have them; their errors name the path.
//!
//! Each is one operation on few files: batches are above.

mod calls;
pub(crate) mod file;
pub(crate) mod path_transaction;
pub(crate) mod read_dir;
pub(crate) mod replacement;
pub(crate) mod steps;
pub(crate) mod tree;
pub(crate) mod whole;
