//! Stores for publications: S3 and all that speak its protocol, Google Cloud Storage, Azure Blob Storage,
//! web servers (for reading) and directories of the host.
//!
//! [`open_volume`] opens the volume that a URL names, and [`open`] makes the store of a URL. Credentials come
//! from the environment and from the files of each service's own tools ([`StoreOptions`]); nothing of them is
//! in a URL, a message, or a file that this crate writes.
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
//! | `connection` | connections to servers, and the redirects that are followed |
//! | `failure` | errors of the library as errors of a store, without anything secret |
//! | `patience` | waits as long as a server asks for, and bounds its answers |
//! | `profile` | the files of the tools of S3 |
//! | `services` | a client for each service, from the environment |
//! | `remote` | a client as a store: a private runtime, bounded answers |
//! | `open` | the store of a URL |
//! | `volume` | the publication and the volume of a URL |
#![forbid(unsafe_code)]

mod connection;
mod failure;
mod open;
mod patience;
mod profile;
mod remote;
mod services;
mod volume;

pub use connection::Redirects;
pub use open::{StoreOptions, open};
pub use remote::Remote;
pub use services::Retries;
pub use volume::{UrlOptions, open_location, open_publication, open_volume};
