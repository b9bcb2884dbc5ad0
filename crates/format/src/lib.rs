//! The LaneFS on-disk format: every structure, constant, checksum and hash.
//!
//! This crate does no I/O and allocates nothing. `docs/format.md` explains what the bytes mean; its tables
//! are generated from the [`Layout`]s here and a test compares the two.
//!
//! All words are little-endian. The format's version is [`superblock::VERSION`], apart from the software's.
//!
//! # Modules
//!
//! Each module refers to modules of the lines above it only, so this table is also an order to read them in.
//!
//! | module | what it knows |
//! |---|---|
//! | `numbers` | macros for numbers in texts |
//! | `code`, `geometry`, `hash`, `kind`, `layout` | answers of lookups; sizes; the hash of names; kinds of blocks; how a structure is declared |
//! | [`dir`], `inodes`, `journal`, `pointer`, `space`, `xattr` | the structures |
//! | `checksum`, `ties` | checksums of blocks; order among names with one hash |
//! | [`superblock`] | the superblock |
//! | `relocate` | blocks of a volume as a part of a larger one |

#![forbid(unsafe_code)]

#[macro_use]
mod numbers;

mod checksum;
mod code;
pub mod dir;
mod geometry;
mod hash;
mod inodes;
mod journal;
mod kind;
mod layout;
mod pointer;
mod relocate;
mod space;
pub mod superblock;
mod ties;
mod xattr;

pub use checksum::Checksummer;
pub use code::{Code, UnknownCode};
pub use geometry::*;
pub use hash::{HASH_LANES, HashSeed, half_md4, half_md4_lanes};
pub use inodes::*;
pub use journal::*;
pub use kind::{BlockKind, FileKind};
pub use layout::{Array, Field, FieldInfo, Layout, Word};
pub use pointer::{BlockSize, DirRoot, InvalidPointer, Pointer};
pub use relocate::{LeadsOut, Relocation, RootAlias};
pub use space::{SumPlace, chunk_entry, chunk_header, group, sums, sums_chunk};
pub use xattr::xattr_block;

/// Every structure of the format, in the order in which `docs/format.md` shows them.
pub const STRUCTURES: &[Layout] = &[
    superblock::fields::LAYOUT,
    group::LAYOUT,
    chunk_header::LAYOUT,
    chunk_entry::LAYOUT,
    sums::LAYOUT,
    inode::LAYOUT,
    extent::LAYOUT,
    dir_inode_256::LAYOUT,
    dir_inode_128::LAYOUT,
    dir::leaf::LAYOUT,
    dir::entry::LAYOUT,
    dir::tree::LAYOUT,
    dir::index::LAYOUT,
    xattr_block::LAYOUT,
    journal_header::LAYOUT,
    journal_descriptor::LAYOUT,
    journal_commit::LAYOUT,
];
