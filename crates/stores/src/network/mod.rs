//! Stores that a network is in front of: the services, and web servers.
//!
//! | module | |
//! |---|---|
//! | `early` | connections that are made before they are needed |
//! | `connection` | connections to servers, and the redirects that are followed |
//! | `failure` | errors of the library as errors of a store, without anything secret |
//! | `patience` | waits as long as a server asks for, and bounds its answers |
//! | `profile` | the files of the tools of S3 |
//! | `services` | a client for each service, from the environment |
//! | `remote` | a client as a store: a private runtime, bounded answers |

mod connection;
mod early;
mod failure;
mod patience;
mod profile;
mod remote;
mod services;

pub use remote::Remote;

use crate::options::StoreOptions;
use lanefs_publish::{Store, StoreError, StoreUrl};
use services::Settings;
use std::sync::Arc;

/// Opens the store of a web server's or a service's URL. No request is made.
///
/// # Errors
/// Settings that cannot be used; [`StoreError::Unsupported`] for another URL.
pub(crate) fn open(store_url: &StoreUrl, options: &StoreOptions) -> Result<Arc<dyn Store>, StoreError> {
    let settings = Settings {
        endpoint: options.endpoint.as_deref().map(services::endpoint).transpose()?,
        environment: &options.environment,
        retries: options.retries,
        writes: options.writes,
        redirects: options.redirects,
    };
    match store_url {
        StoreUrl::Web(url) => {
            let client = services::web(url, &settings)?;
            Ok(Arc::new(Remote::new(url, client, "")?))
        }
        StoreUrl::Bucket { service, bucket, folder } => {
            let client = services::bucket(*service, bucket, &settings)?;
            Ok(Arc::new(Remote::new(&store_url.to_string(), client, folder)?))
        }
        _ => Err(StoreError::Unsupported("there is no client for it".into())),
    }
}
