//! Tar archives: into a volume and out of it.
//!
//! Read: ustar, GNU (long names, sparse files, base-256 numbers), POSIX pax with GNU's sparse forms and `SCHILY.xattr`
//! attributes; plain, gzip or zstd. Written: POSIX pax, with times to the nanosecond, extended attributes as raw
//! bytes and holes in GNU's form 1.0; plain, gzip or zstd. Owners are numbers; names of users in an archive are not looked
//! at. Header fields go through the `tar` crate; records are read and written here, as names and attributes may hold
//! newlines and any other byte, and sizes may be in records only.

mod export;
mod import;
mod pax;
mod reader;
mod sparse;
mod stream;
mod writer;

pub use export::{ArchiveTarget, export_archive};
pub use import::{ArchiveSource, import_archive};
pub use stream::is_archive_name;
