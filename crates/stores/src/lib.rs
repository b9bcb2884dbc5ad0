//! Stores for publications: S3 and all that speak its protocol, Google Cloud Storage, Azure Blob Storage,
//! web servers (for reading) and directories of the host.
//!
//! [`open_volume`] opens the volume that a URL names, and [`open`] makes the store of a URL. Credentials come
//! from the environment and from the files of each service's own tools ([`StoreOptions`]); nothing of them is
//! in a URL, a message, or a file that this crate writes.
//!
//! Without the feature `network`, which is on by default, there are stores in directories only, and none of
//! the libraries for services and encryption is built.
//!
//! ```
//! use lanefs_publish::Location;
//! use lanefs_stores::{StoreOptions, open};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let home = tempfile::tempdir()?;
//! # let url = format!("file://{}#draft", home.path().display());
//! let location = Location::parse(&url)?;
//! let store = open(location.store_url(), &StoreOptions::from_process())?;
//! assert_eq!(store.list("packs")?, []);
//! # Ok(())
//! # }
//! ```
//!
//! # Modules
//!
//! Each module refers to modules of the lines above it only.
//!
//! | module | |
//! |---|---|
//! | `options` | the options of a store |
//! | `network` | stores of the network: services and web servers; with the feature of this name |
//! | `open` | the store of a URL |
//! | `volume` | the publication and the volume of a URL |

#![forbid(unsafe_code)]

#[cfg(feature = "network")]
mod network;
mod open;
mod options;
mod volume;

#[cfg(feature = "network")]
pub use network::Remote;
pub use open::open;
pub use options::{Redirects, Retries, StoreOptions};
pub use volume::{UrlOptions, open_location, open_publication, open_volume};
