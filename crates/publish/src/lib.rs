//! Publications: versions of a volume on an object store, that any number of readers open piece by piece.
//!
//! [`publish`] writes a closed volume, or the [`Snapshot`] of one that is in use, as the next version of a
//! tag, and stores only blocks that the store does not have. A [`Publication`] is a version that is open for
//! reading; its [device](Publication::device) is one on which a volume is opened as on any other.
//! `docs/publication.md` gives every byte.
//!
//! ```
//! use lanefs::{Access, CreateOptions, Volume};
//! use lanefs_publish::{Directory, Publication, PublishOptions, ReadOptions, Reference, publish};
//! use std::sync::Arc;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let home = tempfile::tempdir()?;
//! let image = home.path().join("v.lane");
//! let volume = Volume::create(&image, &CreateOptions { size: 64 << 20, ..CreateOptions::default() })?;
//! volume.write_file("/greeting", b"hello")?;
//! volume.close()?;
//!
//! let store = Arc::new(Directory::new(home.path().join("store")));
//! let volume = Volume::open(&image, Access::Read)?;
//! publish(&volume, store.clone(), "latest", &PublishOptions::default(), &|_, _| true)?;
//!
//! let publication = Publication::open(store, &Reference::default(), &ReadOptions::default())?;
//! let there = publication.volume(Access::Read)?;
//! assert_eq!(there.read_file("/greeting")?, b"hello");
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
//! | `error` | errors of stores and publications |
//! | `format` | every object of a publication: its structure, its words, its hash |
//! | `store` | the interface of a store; a directory as one |
//! | `objects` | objects of a store by name |
//! | `condemned` | what a prune and publishers agree by |
//! | `reading` | the way from a store to a device: fetches, caches, the manifest, reads ahead |
//! | `publication` | a version that is open |
//! | `location`, `versions` | URLs; tags |
//! | `publish`, `join` | writing a version, of one volume and of shards |
//! | `prune`, `pull`, `verify`, `warm` | removing versions; images; verification of a store; filling the cache |
//! | `testing` | what a fuzzer calls |
//!
//! # Invariants
//!
//! * Nothing that a store or a cache gives is used before it was verified by its hash, and no size that it
//!   states is believed before it was bounded.
//! * A root is written after all packs of its version, and the tag last.
//! * Objects other than tags and the list of condemned objects never change.
#![forbid(unsafe_code)]

mod condemned;
mod error;
mod format;
mod join;
mod location;
#[cfg(test)]
mod mutations;
mod objects;
mod prune;
mod publication;
mod publish;
mod pull;
mod reading;
mod store;
#[cfg(feature = "_testing")]
pub mod testing;
mod verify;
mod versions;
mod warm;

pub use error::{Error, Result, StoreError};
pub use format::facts::Facts;
pub use format::hash::Hash;
pub use format::join::Shard;
pub use format::layout::{STRUCTURES, VERSION};
pub use format::root::Tag;
pub use join::{JoinOptions, JoinReport, Receipt, family_seed, join};
pub use lanefs::host_path::user_cache as default_cache;
pub use location::{Location, Service, StoreUrl};
pub use prune::{DEFAULT_GRACE, MIN_GRACE, PruneOptions, PruneReport, Tally, prune};
pub use publication::{Publication, ReadOptions, Reference};
pub use publish::{
    DEFAULT_FRAME, DEFAULT_LEVEL, OnProgress, PublishOptions, PublishReport, Snapshot, Source, publish,
    publish_shard,
};
pub use pull::{PullOptions, PullReport};
pub use reading::cache::{Cache, DEFAULT_CACHE, MIN_CACHE};
pub use reading::device::OnFailure;
pub use reading::fetch::Counts;
pub use reading::publication_device::PublicationDevice;
pub use store::{Directory, Listed, Stamp, Store};
pub use verify::{Inventory, Verified};
pub use versions::{VersionInfo, delete_tag, set_tag, tags, versions};
pub use warm::{WarmPart, WarmReport};
