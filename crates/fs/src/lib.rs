//! LaneFS: a file system in one file, device or block of memory, with directories that are hash trees.
//!
//! This crate is the CPU engine and the library that programs use. A [`Volume`] has calls at two levels: by
//! inode number and single name ([`Volume::lookup`], [`Volume::create_file`], ...), and by path
//! ([`Volume::resolve`], [`Volume::write_file`], ...). [`Volume::resolve_batch`] resolves millions of paths,
//! [`Volume::read_files`] reads their contents, and an [`EpochReader`] reads ahead in the order of an epoch.
//! A [`LookupService`] makes batches of the single paths of many threads or tasks.
//!
//! ```
//! use lanefs::{Code, CreateOptions, ResolveOptions, Volume};
//!
//! # fn main() -> lanefs::Result<()> {
//! let volume = Volume::create_memory(&CreateOptions { size: 64 << 20, ..CreateOptions::default() })?;
//! volume.mkdir_all("/data/train", 0o755)?;
//! volume.write_file("/data/train/0001.txt", b"one sample")?;
//!
//! let options = ResolveOptions { attributes: true, ..ResolveOptions::default() };
//! let answers = volume.resolve_batch(&options, &["/data/train/0001.txt", "/data/train/0002.txt"])?;
//! assert_eq!(answers[0].attr.map(|a| a.size), Some(10));
//! assert_eq!(answers[1].code, Code::NotFound);
//! # Ok(())
//! # }
//! ```
//!
//! # Modules
//!
//! Each module refers to modules of the lines above it only, so this table is also an order to read them in.
//!
//! | module | what it knows |
//! |---|---|
//! | `vocabulary` | what callers say and hear: [`path`]s, batches of them, attributes, options, errors, columns of answers |
//! | `mounted` | the state of a mounted volume outside of its bytes: counts, claims, holders, the table of directories |
//! | `attempt` | the view that one attempt of an operation has; `edit`: a change |
//! | `space` | blocks and inodes that are taken and given back |
//! | `files` | inodes, their maps, content, attributes, permissions; the end of a change |
//! | `names` | directories, single names, whole paths; the directory of orphans |
//! | `running` | attempts until one is valid, the first change, durability; the [`Volume`] |
//! | `by_inode` | calls by inode number |
//! | `by_path` | calls by path: files as a whole, steps of a transaction, open files |
//! | `batches` | many paths or files at once: lookups, reads, [`bulk`] changes, an epoch, engines |
//! | `file_system` | calls that also another process answers |
//! | `lifecycle` | making, mounting, freezing and growing a volume |
//! | `inspection` | the volume as a whole: blocks in use, snapshots, scrubs, changes for an engine that has a copy |
//! | `check` | check and repair |
//!
//! # Features
//!
//! There are none for programs. A feature whose name begins with an underscore is for the tests and
//! measurements of LaneFS, and no part of its interface: with `_shuttle` a volume works under a schedule
//! explorer only, and calls of `_testing` read without concurrency control or empty the cache.
//!
//! # Invariants
//!
//! * Every change is one transaction: when a call fails, nothing of it has happened.
//! * No panic, hang or wild access follows from a volume's bytes, whatever they are; only an [`Error`].
//! * This crate does not know which device holds the bytes (`lanefs-store` does), and nothing of kernels,
//!   GPUs or command lines.

mod attempt;
mod batches;
mod by_inode;
mod by_path;
mod check;
mod file_system;
mod files;
mod inspection;
mod lifecycle;
mod mounted;
mod names;
mod running;
mod space;
mod vocabulary;

pub use batches::bulk;
pub use batches::engine::{BatchReport, Engine, EngineExt};
pub use batches::epoch_reader::{EpochBatch, EpochOptions, EpochOrder, EpochReader};
pub use batches::lookup_service::{Lookup, LookupService, RunningService, ServiceOptions};
pub use batches::read_files::{
    ByteRange, FileContents, FileLayout, FileList, FileSink, FileViews, ReadFiles,
};
pub use batches::write_many::WriteMany;
pub use by_path::file::{File, FileMode};
pub use by_path::path_transaction::Transaction;
pub use by_path::read_dir::ReadDir;
pub use by_path::replacement::Replacement;
pub use by_path::tree::MkdirAll;
pub use check::{CheckOptions, CheckReport, Finding};
pub use file_system::FileSystem;
pub use inspection::group_use::GroupUse;
pub use inspection::scrub::{ScrubReport, WrongBlock, WrongContent};
pub use inspection::snapshot::VolumeSnapshot;
pub use inspection::stamp::VolumeStamp;
#[cfg(feature = "_testing")]
pub use inspection::unchecked::Unchecked;
pub use inspection::used::UsedBlocks;
pub use inspection::watch::Watch;
pub use lanefs_format as format;
pub use lanefs_format::{Code, FileKind, InodeSize};
pub use lanefs_store::{
    BlockOrigin, Choice, Device, FileDevice, FileId, FileOptions, ImageUse, IoBuf, IoBufMut, MemoryDevice,
    Origins, Read, ReadErrors, StoreStats as Stats, Watched, Write, has_writer, host_path, host_xattr,
};
pub use mounted::dir_table::DirectoryTableStats;
pub use running::volume::Volume;
pub use vocabulary::as_path::AsPath;
pub use vocabulary::columns::{
    ANSWER_BLOCK, AnswerBlock, AttributeBlock, Column, ColumnSet, Columns, ColumnsMut, Resolutions, Row, Rows,
};
pub use vocabulary::error::{Error, ErrorKind, Result, host_text};
pub use vocabulary::name_set::{BadNumbers, NameSet, NamesUnder};
pub use vocabulary::notice::Changed;
pub use vocabulary::options::{Access, CreateOptions, OpenOptions};
pub use vocabulary::path_set::{BadOffsets, PathSet, Paths};
pub use vocabulary::types::*;
pub use vocabulary::xattr_name::is_linux_xattr;
pub use vocabulary::{escape, expansion, path};

// The examples of both READMEs are compiled with the other examples.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct PackageReadme;
