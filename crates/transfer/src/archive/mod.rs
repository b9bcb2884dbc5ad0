//! Import and export of tar archives.
//!
//! The import reads ustar, GNU (long names, sparse files, base-256 numbers), POSIX pax with GNU's sparse
//! forms and `SCHILY.xattr` attributes; plain or compressed by gzip, zstd, xz, bzip2 or lz4. The export
//! writes POSIX pax, with times to the nanosecond, extended attributes as raw bytes and holes in GNU's form
//! 1.0; plain or compressed by gzip or zstd. Owners are numbers; names of users in an archive are ignored.
//! The `tar` crate encodes header fields. This module reads and writes records, because names and attributes
//! may hold newlines and any other byte, and sizes may be in records only.

mod acl_text;
mod compression;
mod destination;
mod export;
mod failure;
mod frames;
pub(crate) mod import;
mod input;
mod pax;
mod reader;
mod sparse;
mod stream;
mod writer;

pub use compression::is_archive_name;
pub use export::{ArchiveTarget, export_archive};
pub use import::{ArchiveSource, import_archive};
