//! A client for each service, from the variables of the environment.

use super::failure;
use super::patience::Patient;
use super::profile;
use crate::options::{Redirects, Retries};
use lanefs_publish::{Location, Service, StoreError, StoreUrl};
use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey};
use object_store::azure::{AzureConfigKey, MicrosoftAzureBuilder};
use object_store::gcp::{GoogleCloudStorageBuilder, GoogleConfigKey};
use object_store::http::HttpBuilder;
use object_store::{BackoffConfig, ClientConfigKey, ObjectStore, RetryConfig};
use std::sync::Arc;

/// Seconds for a request that reads, of which the largest has 4 MiB.
const READ_SECONDS: u64 = 60;
/// Seconds for a request of a publisher, of which the largest writes 32 MiB.
const WRITE_SECONDS: u64 = 600;
/// Seconds for a connection.
const CONNECT_SECONDS: u64 = 10;

/// Settings of a client.
pub(crate) struct Settings<'s> {
    pub(crate) endpoint: Option<String>,
    pub(crate) environment: &'s [(String, String)],
    pub(crate) retries: Retries,
    pub(crate) writes: bool,
    pub(crate) redirects: Redirects,
}

type Client = Arc<dyn ObjectStore>;

/// Makes a client for a bucket.
pub(crate) fn bucket(service: Service, bucket: &str, settings: &Settings<'_>) -> Result<Client, StoreError> {
    use_ring();
    match service {
        Service::S3 => s3(bucket, settings),
        Service::Google => google(bucket, settings),
        Service::Azure => azure(bucket, settings),
        _ => Err(StoreError::Unsupported("there is no client for the service".into())),
    }
}

/// Makes a client for a folder of a web server.
pub(crate) fn web(url: &str, settings: &Settings<'_>) -> Result<Client, StoreError> {
    use_ring();
    let mut builder = HttpBuilder::new()
        .with_url(url)
        .with_retry(settings.retry())
        .with_http_connector(Patient::with(settings.redirects));
    for (key, value) in settings.client(Some(url)) {
        builder = builder.with_config(key, value);
    }
    made(builder.build())
}

/// Reads the URL of an endpoint, by the rules for that of a publication on a web server. The library panics
/// at some that are none.
pub(crate) fn endpoint(text: &str) -> Result<String, StoreError> {
    match Location::parse(text).map(|location| location.store_url().clone()) {
        Ok(StoreUrl::Web(url)) if !text.contains('#') => Ok(url),
        _ => Err(StoreError::Unsupported(
            "the endpoint is not a URL of a server, as in https://storage.example.org:9000".into(),
        )),
    }
}

fn s3(bucket: &str, settings: &Settings<'_>) -> Result<Client, StoreError> {
    // Not all servers that speak the protocol delete many objects by one request.
    let mut builder = AmazonS3Builder::new()
        .with_retry(settings.retry())
        .with_http_connector(Patient::default())
        .with_disable_bulk_delete(true);
    let variables = settings.variables("AWS_");
    // As the tools of S3 do: a key of the environment replaces the key in the files, but not the region.
    let is_keyed = variables.iter().any(|(name, _)| name == "aws_access_key_id");
    let counts = |name: &str| !is_keyed || name == "aws_region";
    let files = profile::settings(settings.environment).into_iter();
    let files = files.filter(|(name, _)| counts(name)).map(|(name, value)| (name.to_owned(), value));
    // The endpoint of S3, and the one of all services, which counts where the first is missing.
    let (mut own, mut common) = (None, None);
    for (name, value) in files.chain(variables) {
        match name.parse() {
            Ok(AmazonS3ConfigKey::S3Endpoint) => own = Some(value),
            Ok(AmazonS3ConfigKey::Endpoint) => common = Some(value),
            Ok(key) => builder = builder.with_config(key, value),
            // Variables for other programs.
            Err(_) => {}
        }
    }
    let endpoint = settings.endpoint_or(own.or(common))?;
    for (key, value) in settings.client(endpoint.as_deref()) {
        builder = builder.with_config(AmazonS3ConfigKey::Client(key), value);
    }
    if let Some(endpoint) = endpoint {
        builder = builder.with_endpoint(endpoint);
    }
    made(builder.with_bucket_name(bucket).build())
}

fn google(bucket: &str, settings: &Settings<'_>) -> Result<Client, StoreError> {
    let mut builder =
        GoogleCloudStorageBuilder::new().with_retry(settings.retry()).with_http_connector(Patient::default());
    let mut variable = None;
    for (name, value) in settings.variables("GOOGLE_") {
        match name.parse() {
            Ok(GoogleConfigKey::BaseUrl) => variable = Some(value),
            Ok(key) => builder = builder.with_config(key, value),
            Err(_) => {}
        }
    }
    let endpoint = settings.endpoint_or(variable)?;
    for (key, value) in settings.client(endpoint.as_deref()) {
        builder = builder.with_config(GoogleConfigKey::Client(key), value);
    }
    if let Some(endpoint) = endpoint {
        builder = builder.with_config(GoogleConfigKey::BaseUrl, endpoint);
    }
    made(builder.with_bucket_name(bucket).build())
}

fn azure(container: &str, settings: &Settings<'_>) -> Result<Client, StoreError> {
    let mut builder =
        MicrosoftAzureBuilder::new().with_retry(settings.retry()).with_http_connector(Patient::default());
    let mut variable = None;
    for (name, value) in settings.variables("AZURE_") {
        match name.parse() {
            Ok(AzureConfigKey::Endpoint) => variable = Some(value),
            Ok(key) => builder = builder.with_config(key, value),
            Err(_) => {}
        }
    }
    let endpoint = settings.endpoint_or(variable)?;
    for (key, value) in settings.client(endpoint.as_deref()) {
        builder = builder.with_config(AzureConfigKey::Client(key), value);
    }
    if let Some(endpoint) = endpoint {
        builder = builder.with_endpoint(endpoint);
    }
    made(builder.with_container_name(container).build())
}

impl Settings<'_> {
    fn retry(&self) -> RetryConfig {
        let Retries { most, pause, within } = self.retries;
        let backoff = BackoffConfig { init_backoff: pause, ..BackoffConfig::default() };
        RetryConfig { backoff, max_retries: most, retry_timeout: within }
    }

    /// The endpoint that the user named, else the one of a variable.
    fn endpoint_or(&self, variable: Option<String>) -> Result<Option<String>, StoreError> {
        match &self.endpoint {
            Some(named) => Ok(Some(named.clone())),
            None => variable.as_deref().map(endpoint).transpose(),
        }
    }

    /// The variables of a service, with names in lower case. As for its tools, an empty one is none.
    fn variables(&self, prefix: &str) -> Vec<(String, String)> {
        let own =
            self.environment.iter().filter(|(name, value)| name.starts_with(prefix) && !value.is_empty());
        own.map(|(name, value)| (name.to_ascii_lowercase(), value.clone())).collect()
    }

    /// Settings of the connection. One without encryption is allowed where the user writes `http://`.
    fn client(&self, url: Option<&str>) -> Vec<(ClientConfigKey, String)> {
        let seconds = if self.writes { WRITE_SECONDS } else { READ_SECONDS };
        let mut settings = vec![
            (ClientConfigKey::Timeout, format!("{seconds}s")),
            (ClientConfigKey::ConnectTimeout, format!("{CONNECT_SECONDS}s")),
        ];
        if url.is_some_and(|url| url.starts_with("http://")) {
            settings.push((ClientConfigKey::AllowHttp, "true".into()));
        }
        settings
    }
}

/// Has TLS use ring. Where the process has made another choice, that one stays.
fn use_ring() {
    let _ = rustls::crypto::ring::default_provider().install_default();
}

fn made(client: object_store::Result<impl ObjectStore>) -> Result<Client, StoreError> {
    match client {
        Ok(client) => Ok(Arc::new(client)),
        Err(error) => Err(failure::convert(&error)),
    }
}
