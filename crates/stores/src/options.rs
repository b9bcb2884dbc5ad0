//! The options of a store.

use std::time::Duration;

/// The servers to which redirects are followed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Redirects {
    /// The same server: the same host and port, or the same host with encryption where there was none.
    #[default]
    SameServer,
    /// Any server. No credentials are sent to it.
    Anywhere,
}

/// Rules for requests that fail: a server that does not answer, or answers 408, 429 or 5xx.
#[derive(Clone, Copy, Debug)]
pub struct Retries {
    /// Most attempts after the first one.
    pub most: usize,
    /// First pause. Each further one is about twice as long.
    pub pause: Duration,
    /// Time from the first attempt after which there is no further one.
    pub within: Duration,
}

impl Default for Retries {
    fn default() -> Self {
        Retries { most: 8, pause: Duration::from_millis(200), within: Duration::from_secs(60) }
    }
}

/// Options of [`open`](crate::open).
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
