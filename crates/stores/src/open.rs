//! The store of a URL.

use crate::connection::Redirects;
use crate::remote::Remote;
use crate::services::{self, Retries, Settings};
use lanefs_publish::{Directory, Store, StoreError, StoreUrl};
use std::sync::Arc;

/// Options of [`open`].
#[derive(Clone, Default)]
pub struct StoreOptions {
    /// True where the store is to be written.
    pub writes: bool,
    /// URL of a server that speaks the protocol of the service, in place of the service's own.
    pub endpoint: Option<String>,
    /// Variables of the environment, which have the settings and the credentials of the services.
    pub environment: Vec<(String, String)>,
    /// Rules for requests that fail.
    pub retries: Retries,
    /// Redirects of a web server that are followed. Those of a service with credentials never lead to another
    /// server.
    pub redirects: Redirects,
}

impl StoreOptions {
    /// Options with the environment of this process.
    pub fn from_process() -> Self {
        let text = |(name, value): (std::ffi::OsString, std::ffi::OsString)| {
            Some((name.into_string().ok()?, value.into_string().ok()?))
        };
        let environment = std::env::vars_os().filter_map(text).collect();
        StoreOptions { environment, ..StoreOptions::default() }
    }
}

/// Opens the store of a URL. No request is made, except that a directory is looked at.
///
/// # Errors
/// [`StoreError::NoStore`] without the directory; [`StoreError::Unsupported`]: a web server is not written,
/// and only services have an endpoint; settings that cannot be used.
pub fn open(store_url: &StoreUrl, options: &StoreOptions) -> Result<Arc<dyn Store>, StoreError> {
    let unsupported = |why: &str| Err(StoreError::Unsupported(why.into()));
    if options.endpoint.is_some() && !matches!(store_url, StoreUrl::Bucket { .. }) {
        return unsupported("has no other endpoint: only s3, gs and az have one");
    }
    let settings = Settings {
        endpoint: options.endpoint.as_deref().map(services::endpoint).transpose()?,
        environment: &options.environment,
        retries: options.retries,
        writes: options.writes,
        redirects: options.redirects,
    };
    match store_url {
        StoreUrl::Directory(path) => {
            let directory = Directory::new(path);
            directory.check(options.writes)?;
            Ok(Arc::new(directory))
        }
        StoreUrl::Web(_) if options.writes => {
            unsupported("a web server is for reading; publish to the store behind it")
        }
        StoreUrl::Web(url) => {
            let client = services::web(url, &settings)?;
            Ok(Arc::new(Remote::new(url, client, "")?))
        }
        StoreUrl::Bucket { service, bucket, folder } => {
            let client = services::bucket(*service, bucket, &settings)?;
            Ok(Arc::new(Remote::new(&store_url.to_string(), client, folder)?))
        }
        _ => unsupported("there is no client for it"),
    }
}
