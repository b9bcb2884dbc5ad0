//! The store of a URL.

#[cfg(feature = "network")]
use crate::network;
use crate::options::StoreOptions;
use lanefs_publish::{Directory, Store, StoreError, StoreUrl};
use std::sync::Arc;

/// Opens the store of a URL. No request is made, except that a directory is looked at.
///
/// # Errors
/// [`StoreError::NoStore`] without the directory; [`StoreError::Unsupported`]: a web server is not written,
/// only services have an endpoint, and a crate without the feature `network` knows directories only; settings
/// that cannot be used.
pub fn open(store_url: &StoreUrl, options: &StoreOptions) -> Result<Arc<dyn Store>, StoreError> {
    let unsupported = |why: &str| Err(StoreError::Unsupported(why.into()));
    if options.endpoint.is_some() && !matches!(store_url, StoreUrl::Bucket { .. }) {
        return unsupported("has no other endpoint: only s3, gs and az have one");
    }
    match store_url {
        StoreUrl::Directory(path) => {
            let directory = Directory::new(path);
            directory.check(options.writes)?;
            Ok(Arc::new(directory))
        }
        StoreUrl::Web(_) if options.writes => {
            unsupported("a web server is for reading; publish to the store behind it")
        }
        #[cfg(feature = "network")]
        StoreUrl::Web(_) | StoreUrl::Bucket { .. } => network::open(store_url, options),
        #[cfg(not(feature = "network"))]
        StoreUrl::Web(_) | StoreUrl::Bucket { .. } => unsupported(
            "this program was built without stores of the network; build it with the feature `network`, as \
             `make build` does",
        ),
        _ => unsupported("there is no client for it"),
    }
}
