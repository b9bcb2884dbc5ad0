//! Requests about names. They know directories, references and the owner of a new inode, and must never know
//! the content of a file.

mod listing;
mod lookup;
mod making;
mod removal;

pub use listing::{EntrySink, NameSink, Room};
pub use making::NewMode;
