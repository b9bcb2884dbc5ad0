//! Volumes on stores: a publication by its URL, with a local cache.

use lanefs::{Access, OpenOptions, Volume};
use lanefs_publish::{
    Cache, DEFAULT_CACHE, Error, Location, Publication, PublishOptions, ReadOptions, Reference, Snapshot,
    StoreError, default_cache,
};
use lanefs_stores::StoreOptions;
use lanefs_sync::lock::Mutex;
use std::path::PathBuf;
use std::sync::Arc;

/// A publication to open, and how.
#[derive(Clone, Debug)]
pub(crate) struct Remote {
    location: Location,
    /// Directory of the local cache: `None` for the user's own.
    cache_dir: Option<PathBuf>,
    /// Bytes of the local cache; 0 for none.
    cache_bytes: u64,
    endpoint: Option<String>,
}

/// The reason why a publication is not open.
pub(crate) enum RemoteError {
    Publication(Error),
    /// The local cache in this directory.
    Cache(PathBuf, std::io::Error),
    Volume(lanefs::Error),
}

impl From<Error> for RemoteError {
    fn from(error: Error) -> Self {
        RemoteError::Publication(error)
    }
}

impl From<lanefs::Error> for RemoteError {
    fn from(error: lanefs::Error) -> Self {
        RemoteError::Volume(error)
    }
}

/// The last read of a store that failed. A process has its own.
#[derive(Clone, Default)]
pub(crate) struct LastFailure(Arc<Mutex<Option<String>>>);

impl LastFailure {
    /// Returns its message, and forgets it.
    pub(crate) fn take(&self) -> Option<String> {
        self.0.lock().take()
    }
}

impl Remote {
    /// Takes a URL and the options of `Volume.open`.
    ///
    /// # Errors
    /// A text that is not a URL of a publication.
    pub(crate) fn new(
        url: &str,
        cache_dir: Option<PathBuf>,
        cache_bytes: Option<u64>,
        endpoint: Option<String>,
    ) -> Result<Remote, Error> {
        let location = Location::parse(url)?;
        let cache_bytes = cache_bytes.unwrap_or(DEFAULT_CACHE);
        Ok(Remote { location, cache_dir, cache_bytes, endpoint })
    }

    /// The URL. Once the publication was opened, it names the version and not a tag.
    pub(crate) fn url(&self) -> String {
        self.location.to_string()
    }

    /// Opens the volume. From then on this value stands for the version that was opened, so that other
    /// processes open the same one.
    pub(crate) fn open(&mut self, options: OpenOptions) -> Result<(Volume, LastFailure), RemoteError> {
        let store = StoreOptions { endpoint: self.endpoint.clone(), ..StoreOptions::from_process() };
        let store = lanefs_stores::open_location(&self.location, &store)?;
        let failure = LastFailure::default();
        let noted = failure.clone();
        let read = ReadOptions {
            cache: self.cache()?,
            on_failure: Some(Arc::new(move |error, _| *noted.0.lock() = Some(error.to_string()))),
            ..ReadOptions::default()
        };
        let publication = Publication::open(store, self.location.reference(), &read)?;
        self.location = self.location.clone().at(Reference::Version(publication.version()));
        publication.check_closed()?;
        let options = OpenOptions { access: Access::Read, ..options };
        Ok((Volume::open_device(Box::new(publication.device()), options)?, failure))
    }

    /// Opens the local cache. The user's own need not work: then there is none, as for the program `lanefs`.
    fn cache(&self) -> Result<Option<Arc<Cache>>, RemoteError> {
        let open = |path: PathBuf| Cache::open(&path, self.cache_bytes).map(Arc::new);
        match &self.cache_dir {
            _ if self.cache_bytes == 0 => Ok(None),
            Some(path) => {
                open(path.clone()).map(Some).map_err(|error| RemoteError::Cache(path.clone(), error))
            }
            None => Ok(default_cache().and_then(open).ok()),
        }
    }
}

/// Publishes a volume: as it is, where it is open for reading, else a snapshot of it. Returns the URL of the
/// version.
///
/// # Errors
/// As [`publish`]; a URL that names a version in place of a tag.
pub(crate) fn publish(
    volume: &Volume,
    url: &str,
    endpoint: Option<String>,
    level: i32,
    is_stopped: &dyn Fn() -> bool,
) -> Result<String, Error> {
    let location = Location::parse(url)?;
    let Reference::Tag(tag) = location.reference() else {
        return Err(Error::Url("a version does not change; name a tag after #".into()));
    };
    let options = StoreOptions { writes: true, endpoint, ..StoreOptions::from_process() };
    let store = lanefs_stores::open_location(&location, &options)?;
    let options = PublishOptions { level, ..PublishOptions::default() };
    let progress = |_, _| !is_stopped();
    let report = match volume.access() {
        Access::Read => lanefs_publish::publish(volume, store, tag, &options, &progress)?,
        Access::Write | Access::Repair => {
            let snapshot = Snapshot::take(volume, Snapshot::MEMORY)?;
            lanefs_publish::publish(&snapshot, store, tag, &options, &progress)?
        }
    };
    Ok(location.at(Reference::Version(report.version)).to_string())
}

/// The errno of a failure, by which Python chooses the exception.
pub(crate) fn errno(error: &Error) -> i32 {
    let errno = match error {
        Error::NoTag(_) | Error::Store { source: StoreError::Missing | StoreError::NoStore(_), .. } => {
            rustix::io::Errno::NOENT
        }
        Error::Store { source: StoreError::Denied(_), .. } => rustix::io::Errno::ACCESS,
        Error::Store { source: StoreError::Unsupported(_), .. } => rustix::io::Errno::OPNOTSUPP,
        _ => rustix::io::Errno::IO,
    };
    errno.raw_os_error()
}
