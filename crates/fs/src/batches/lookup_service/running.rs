//! A service with a thread of its own.

use super::{LookupService, ServiceOptions};
use crate::running::volume::Volume;
use crate::vocabulary::error::{Error, Result};
use std::ops::Deref;
use std::sync::Arc;
use std::thread::JoinHandle;

/// A [`LookupService`] that a thread of its own serves. Dropping it closes the service and waits for the
/// thread. Lookups that were begun are answered, or fail.
pub struct RunningService {
    service: Arc<LookupService>,
    server: Option<JoinHandle<()>>,
}

impl LookupService {
    /// Starts a service on a volume, with one thread that serves it. Use a service where many threads or
    /// tasks look single paths up: alone a lookup takes some 150 microseconds, because it waits for company
    /// and wakes a thread, and [`Volume::resolve`] 0.2; among thousands at a time it costs less than that.
    ///
    /// ```
    /// use lanefs::{CreateOptions, LookupService, ServiceOptions, Volume};
    ///
    /// # fn main() -> lanefs::Result<()> {
    /// let volume = Volume::create_memory(&CreateOptions { size: 64 << 20, ..CreateOptions::default() })?;
    /// volume.write_file("/a", b"")?;
    /// let service = LookupService::start(volume, ServiceOptions::default())?;
    /// assert!(service.lookup("/a").wait()?.ino.is_some());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// The host's, where it has no thread left.
    pub fn start(volume: impl Into<Arc<Volume>>, options: ServiceOptions) -> Result<RunningService> {
        let (volume, service) = (volume.into(), Arc::new(LookupService::new(options)));
        let serving = Arc::clone(&service);
        let server = std::thread::Builder::new()
            .name("lanefs-lookups".into())
            .spawn(move || serving.serve(&*volume))
            .map_err(|source| Error::Io { what: "starting a thread".into(), source })?;
        Ok(RunningService { service, server: Some(server) })
    }
}

impl Deref for RunningService {
    type Target = LookupService;

    fn deref(&self) -> &LookupService {
        &self.service
    }
}

impl Drop for RunningService {
    fn drop(&mut self) {
        self.service.close();
        if let Some(server) = self.server.take() {
            // A panic of the thread has failed its lookups already.
            let _ = server.join();
        }
    }
}
