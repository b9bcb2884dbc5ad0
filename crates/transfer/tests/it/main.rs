//! Trees and archives on their way into a volume and out of it.
//!
//! All tests are modules of one program: each program costs a link.

mod access_lists;
mod archive_links;
mod archives;
mod batches;
mod common;
mod compressed_archives;
mod durable;
mod limits;
mod round_trip;
mod sync;
