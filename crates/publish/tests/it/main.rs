//! Publications: written, read, spoiled.
//!
//! All tests are modules of one program: each program costs a link.

mod document;
mod equal;
mod frames;
mod hostile;
mod join;
mod order;
mod prune;
mod publish;
mod pull;
mod snapshot;
mod support;
