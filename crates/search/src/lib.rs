//! Search in a volume: lines that match patterns, files of the same content, and paths by fuzzy names.
//!
//! Engines, patterns and forms of output are those of ripgrep, by its libraries. This crate adds the way to
//! the data: files are read in batches ([`lanefs::Volume::read_files`]), several batches at the same
//! time, and reported in the order in which they were named.
//!
//! | module | |
//! |---|---|
//! | `error` | errors of patterns |
//! | `ordered` | jobs on several threads, whose results come in order |
//! | `batch`, `file` | small files together; a large file as a reader |
//! | `selection` | files by type and glob |
//! | `query`, `paint`, `output` | what matches; how it is shown |
//! | `required`, `prefilter` | what each match has; an engine that looks for that first |
//! | `grep` | lines that match |
//! | `content_hash`, `hash_files` | engines that hash contents; the hashes of many files |
//! | `duplicates` | files of the same content |
//! | [`fuzzy`] | paths that a query matches, by score |
//! | `device` | the GPU engine, as these searches use it (feature `gpu`) |
//!
//! Each module refers to modules of the lines above it only.
#![forbid(unsafe_code)]

mod batch;
mod content_hash;
#[cfg(feature = "gpu")]
mod device;
mod duplicates;
mod error;
mod file;
pub mod fuzzy;
mod grep;
mod hash_files;
mod ordered;
mod output;
mod paint;
mod prefilter;
mod query;
mod required;
mod selection;

pub use batch::Candidate;
pub use content_hash::{ContentHash, CpuHash};
#[cfg(feature = "gpu")]
pub use device::{DeviceHash, DeviceRanks, DeviceSearch};
pub use duplicates::{DuplicateFiles, Duplicates, duplicates, duplicates_by};
pub use error::{Error, FileError, Result};
pub use grep::{Found, Grep};
pub use hash_files::{Hashes, hash_files};
pub use output::{Form, Lines, OutputOptions};
pub use prefilter::{Prefilter, Text};
pub use query::{Binary, Case, QueryOptions};
pub use required::{Sequence, Step};
pub use selection::{Selection, SelectionOptions};
