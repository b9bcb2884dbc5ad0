//! Import and export of tar archives.
//!
//! The import reads ustar, GNU (long names, sparse files, base-256 numbers), POSIX pax with GNU's sparse
//! forms and `SCHILY.xattr` attributes. The export writes POSIX pax, with times to the nanosecond, extended
//! attributes as raw bytes and holes in GNU's form 1.0. Both handle plain, gzip and zstd archives. Owners are
//! numbers; names of users in an archive are ignored. The `tar` crate encodes header fields. This module
//! reads and writes records, because names and attributes may hold newlines and any other byte, and sizes may
//! be in records only.

mod acl_text;
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
