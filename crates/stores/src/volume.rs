//! The volume of a publication, by its URL.

use crate::open::open;
use crate::options::StoreOptions;
use lanefs::{Access, OpenOptions, Volume};
use lanefs_publish::{Cache, DEFAULT_CACHE, Error, Location, Publication, ReadOptions, Store, default_cache};
use std::sync::Arc;

/// Options of [`open_volume`] and [`open_publication`].
#[derive(Clone, Default)]
pub struct UrlOptions {
    /// Access to the store.
    pub store: StoreOptions,
    /// Reading: the local cache, and memory.
    pub read: ReadOptions,
    /// The volume. It is open for reading, whatever the options say.
    pub volume: OpenOptions,
}

impl UrlOptions {
    /// The environment of this process, with the user's local cache of 10 GiB where it can be opened: the
    /// defaults of the program `lanefs`.
    pub fn from_process() -> Self {
        let cache = default_cache().and_then(|path| Cache::open(&path, DEFAULT_CACHE));
        let read = ReadOptions { cache: cache.ok().map(Arc::new), ..ReadOptions::default() };
        UrlOptions { store: StoreOptions::from_process(), read, volume: OpenOptions::default() }
    }
}

/// Opens the volume that a URL names, for reading. It stays the same version, whatever is published
/// meanwhile.
///
/// ```
/// use lanefs::{CreateOptions, Volume};
/// use lanefs_publish::PublishOptions;
/// use lanefs_stores::{UrlOptions, open_volume};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let home = tempfile::tempdir()?;
/// # let image = home.path().join("data.lane");
/// # let options = CreateOptions { size: 64 << 20, ..CreateOptions::default() };
/// # let volume = Volume::create(&image, &options)?;
/// # volume.write_file("/a", b"published")?;
/// # volume.close()?;
/// # let volume = Volume::open(&image, lanefs::Access::Read)?;
/// # let url = format!("file://{}#latest", home.path().display());
/// # let store = std::sync::Arc::new(lanefs_publish::Directory::new(home.path()));
/// # lanefs_publish::publish(&volume, store, "latest", &PublishOptions::default(), &|_, _| true)?;
/// let volume = open_volume(&url, &UrlOptions::default())?;
/// assert_eq!(volume.read_file("/a")?, b"published");
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// [`Error::Url`]; as [`open_publication`] and [`Volume::open_device`].
pub fn open_volume(url: &str, options: &UrlOptions) -> Result<Volume, Error> {
    let publication = open_publication(&Location::parse(url)?, options)?;
    publication.volume(OpenOptions { access: Access::Read, ..options.volume.clone() })
}

/// Opens the publication at a location.
///
/// # Errors
/// [`Error::Store`] as [`open`]; as [`Publication::open`].
pub fn open_publication(location: &Location, options: &UrlOptions) -> Result<Publication, Error> {
    Publication::open(open_location(location, &options.store)?, location.reference(), &options.read)
}

/// Opens the store of a location. A failure names the store.
///
/// # Errors
/// [`Error::Store`] as [`open`].
pub fn open_location(location: &Location, options: &StoreOptions) -> Result<Arc<dyn Store>, Error> {
    let object = || location.store_url().to_string();
    open(location.store_url(), options).map_err(|source| Error::Store {
        object: object(),
        offset: None,
        source,
    })
}
