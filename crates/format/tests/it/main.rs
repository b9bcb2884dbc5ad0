//! The format as its document says it.
//!
//! All tests are modules of one program: each program costs a link.

mod debugfs;
mod document;
mod ties;
