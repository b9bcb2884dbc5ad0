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
//! | layer | modules |
//! |---|---|
//! | vocabulary | `types`, `options`, `error`, [`expansion`], `threads`, `extent`, `acl`, [`path`], `path_set`, `columns` |
//! | state of a mounted volume | `counts`, `hints`, `cursors`, `prealloc`, `holds`, `claims`, `journal`; `moves`, `dir_table`: where paths of directories lead; `writer`: the state of one writer; `state`: all of it |
//! | one attempt of an operation | `attempt`: its view of the volume; `edit`: a change |
//! | space | `space`: blocks and inodes |
//! | files | `inode`, `xattr`, `lists`, `perm`, `map`, `visited`; `write_plan`: the file data that a change writes at its end; `data`, `attr`; `transaction`: the end of a change |
//! | names | `dir`, `orphans`; `lookup`: reading names; `namespace`: changing them; `resolve` |
//! | running operations | `notice`, `shared`: the state that threads share; `commit`: durability, and the first change; `retry`: attempts until one is valid; `volume` |
//! | calls by inode number | `checksums`, `ops`, `copy`, `reclaim`, `hold` |
//! | calls by path | `as_path`; `whole`: files as a whole; `steps`: changes; `by_path`, `path_transaction`, `file`, `replacement`, `read_dir`, `tree`, `batch`, `engine`, `lookup_service`, `read_files`, `epoch_reader`, [`bulk`], `write_many` |
//! | calls also from another process | `file_system` |
//! | the volume as a whole | `identity`, `mkfs`, `grow`, `mount`, `freeze`, `inspect`, `used`, `group_use`, `snapshot`, `watch`, `scrub`, `check`; with the feature `_testing`: `unchecked` |
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

mod acl;
mod as_path;
mod attempt;
mod attr;
mod batch;
pub mod bulk;
mod by_path;
mod check;
mod checksums;
mod claims;
mod columns;
mod commit;
mod copy;
mod counts;
mod cursors;
mod data;
mod dir;
mod dir_table;
mod edit;
mod engine;
mod epoch_reader;
mod error;
pub mod escape;
pub mod expansion;
mod extent;
mod file;
mod file_system;
mod freeze;
mod group_table;
mod group_use;
mod grow;
mod hints;
mod hold;
mod holds;
mod identity;
mod inode;
mod inspect;
mod journal;
mod lists;
mod lookup;
mod lookup_service;
mod map;
mod memory;
mod mkfs;
mod mount;
mod moves;
mod namespace;
mod notice;
mod ops;
mod options;
mod orphans;
pub mod path;
mod path_set;
mod path_transaction;
mod perm;
mod pieces;
mod prealloc;
mod read_dir;
mod read_files;
mod reclaim;
mod replacement;
mod resolve;
mod retry;
mod scrub;
mod shared;
mod snapshot;
mod space;
mod state;
mod steps;
mod threads;
mod transaction;
mod tree;
mod types;
#[cfg(feature = "_testing")]
mod unchecked;
mod used;
mod visited;
mod volume;
mod watch;
mod whole;
mod write_many;
mod write_plan;
mod writer;
mod xattr;

pub use as_path::AsPath;
pub use check::{CheckOptions, CheckReport, Finding};
pub use columns::{
    ANSWER_BLOCK, AnswerBlock, AttributeBlock, Column, ColumnSet, Columns, ColumnsMut, Resolutions, Row, Rows,
};
pub use dir_table::DirectoryTableStats;
pub use engine::{BatchReport, Engine, EngineExt};
pub use epoch_reader::{EpochBatch, EpochOptions, EpochOrder, EpochReader};
pub use error::{Error, ErrorKind, Result};
pub use file::{File, FileMode};
pub use file_system::FileSystem;
pub use group_use::GroupUse;
pub use lanefs_format::{self as format, Code, FileKind, InodeSize};
pub use lanefs_store::StoreStats as Stats;
pub use lanefs_store::Watched;
pub use lanefs_store::host_path;
pub use lanefs_store::{
    Choice, Device, FileDevice, FileId, FileOptions, ImageUse, IoBuf, IoBufMut, MemoryDevice, Read,
    ReadErrors, Write, has_writer,
};
pub use lookup_service::{Lookup, LookupService, RunningService, ServiceOptions};
pub use notice::Changed;
pub use options::{Access, CreateOptions, OpenOptions};
pub use path_set::{BadOffsets, PathSet, Paths};
pub use path_transaction::Transaction;
pub use read_dir::ReadDir;
pub use read_files::{ByteRange, FileContents, FileLayout, FileList, FileSink, FileViews, ReadFiles};
pub use replacement::Replacement;
pub use scrub::{ScrubReport, WrongBlock, WrongContent};
pub use snapshot::VolumeSnapshot;
pub use tree::MkdirAll;
pub use types::*;
#[cfg(feature = "_testing")]
pub use unchecked::Unchecked;
pub use used::UsedBlocks;
pub use volume::Volume;
pub use watch::Watch;
pub use write_many::WriteMany;

// The examples of both READMEs are compiled with the other examples.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct PackageReadme;
