//! Trees and archives on their way into a volume and out of it.
//!
//! All tests are modules of one program: each program costs a link.

mod access_lists;
mod archives;
mod batches;
mod common;
mod limits;
mod round_trip;
