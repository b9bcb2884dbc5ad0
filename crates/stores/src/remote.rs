//! A client of `object_store` as a store.
//!
//! The library is asynchronous, and its callers here are threads. So a store has a runtime of its own, whose
//! workers do the requests. The threads wait for their answers by channels, so a caller may even be a task of
//! another runtime, which it blocks.

use crate::failure;
use futures_util::{StreamExt, TryStreamExt};
use lanefs_publish::{Listed, Stamp, Store, StoreError};
use object_store::path::Path;
use object_store::{GetOptions, GetRange, GetResult, ObjectStore, PutMode, PutPayload, UpdateVersion};
use std::ops::Range;
use std::sync::Arc;
use std::sync::mpsc::sync_channel;
use tokio::runtime::{Builder, Runtime};

/// Most workers of a runtime. They decrypt; threads of the caller verify and decompress.
const WORKERS: usize = 4;
/// Attempts to read bytes whose connection is cut on the way.
const READS: usize = 3;

type Outcome<T> = Result<T, StoreError>;

/// A client as a store.
pub struct Remote {
    name: String,
    client: Arc<dyn ObjectStore>,
    folder: Path,
    /// `None` only while it is dropped.
    runtime: Option<Runtime>,
}

impl Remote {
    /// Makes a store of a client. `name` is its URL for messages; objects lie in `folder`, which may be
    /// empty.
    ///
    /// # Errors
    /// An impossible folder; the host has no thread left.
    pub fn new(name: &str, client: Arc<dyn ObjectStore>, folder: &str) -> Outcome<Self> {
        let folder = Path::parse(folder).map_err(|error| failure::convert(&error.into()))?;
        let workers = std::thread::available_parallelism().map_or(1, usize::from).min(WORKERS);
        let runtime = Builder::new_multi_thread()
            .worker_threads(workers)
            .thread_name("lanefs-store")
            .enable_all()
            .build()
            .map_err(|error| StoreError::Failed(error.to_string()))?;
        Ok(Remote { name: name.into(), client, folder, runtime: Some(runtime) })
    }

    fn path(&self, object: &str) -> Outcome<Path> {
        let path = match self.folder.as_ref() {
            "" => Path::parse(object),
            folder => Path::parse(format!("{folder}/{object}")),
        };
        path.map_err(|error| failure::convert(&error.into()))
    }

    /// Has a worker do some work, and waits for it.
    fn wait<T: Send + 'static>(
        &self,
        work: impl Future<Output = object_store::Result<T>> + Send + 'static,
    ) -> object_store::Result<T> {
        let gone = || object_store::Error::Generic { store: "runtime", source: "a worker has ended".into() };
        let (send, receive) = sync_channel(1);
        let runtime = self.runtime.as_ref().ok_or_else(gone)?;
        runtime.spawn(async move {
            let _ = send.send(work.await);
        });
        // A worker that panics drops its end of the channel.
        receive.recv().unwrap_or_else(|_| Err(gone()))
    }

    /// Reads an object, or bytes of it: `most` at most.
    fn get(&self, object: &str, range: Option<Range<u64>>, most: u64) -> Outcome<(Vec<u8>, Stamp)> {
        let path = self.path(object)?;
        let mut attempt = 0;
        loop {
            attempt += 1;
            let (client, path) = (Arc::clone(&self.client), path.clone());
            let options = GetOptions { range: range.clone().map(GetRange::Bounded), ..GetOptions::default() };
            let read = self.wait(async move { collect(client.get_opts(&path, options).await?, most).await });
            match read {
                Ok(Some(read)) => return Ok(read),
                Ok(None) => return Err(StoreError::Failed(format!("has more than {most} bytes"))),
                // The client tries again itself, but not all that was cut off on the way.
                Err(error) if attempt < READS && failure::is_of_network(&error) => {}
                Err(error) => return Err(failure::convert(&error)),
            }
        }
    }

    fn put(&self, object: &str, bytes: Vec<u8>, mode: PutMode) -> Outcome<()> {
        let (client, path) = (Arc::clone(&self.client), self.path(object)?);
        let put = async move { client.put_opts(&path, PutPayload::from(bytes), mode.into()).await };
        self.wait(put).map(drop).map_err(|error| failure::convert(&error))
    }
}

impl Drop for Remote {
    fn drop(&mut self) {
        // Without a wait: that would be a panic in a task of another runtime.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// Receives an answer; `None` where it has more bytes than it may have, whatever its headers say.
async fn collect(answer: GetResult, most: u64) -> object_store::Result<Option<(Vec<u8>, Stamp)>> {
    let stamp = Stamp { e_tag: answer.meta.e_tag.clone(), version: answer.meta.version.clone() };
    let expected = answer.range.end.saturating_sub(answer.range.start).min(most);
    let mut bytes = Vec::with_capacity(expected as usize);
    let mut stream = answer.into_stream();
    while let Some(part) = stream.next().await {
        let part = part?;
        if (bytes.len() + part.len()) as u64 > most {
            return Ok(None);
        }
        bytes.extend_from_slice(&part);
    }
    Ok(Some((bytes, stamp)))
}

impl Store for Remote {
    fn name(&self) -> String {
        self.name.clone()
    }

    fn read(&self, object: &str, range: Range<u64>) -> Outcome<Vec<u8>> {
        let most = range.end.saturating_sub(range.start);
        self.get(object, Some(range), most).map(|(bytes, _)| bytes)
    }

    fn read_all(&self, object: &str, most: u64) -> Outcome<(Vec<u8>, Stamp)> {
        self.get(object, None, most)
    }

    fn write(&self, object: &str, bytes: Vec<u8>) -> Outcome<()> {
        self.put(object, bytes, PutMode::Overwrite)
    }

    fn replace(&self, object: &str, expected: Option<&Stamp>, bytes: Vec<u8>) -> Outcome<()> {
        let mode = match expected {
            None => PutMode::Create,
            Some(Stamp { e_tag: None, version: None }) => {
                return Err(StoreError::Unsupported("the store has no entity tags".into()));
            }
            Some(Stamp { e_tag, version }) => {
                PutMode::Update(UpdateVersion { e_tag: e_tag.clone(), version: version.clone() })
            }
        };
        self.put(object, bytes, mode)
    }

    fn list(&self, folder: &str) -> Outcome<Vec<Listed>> {
        let (client, path) = (Arc::clone(&self.client), self.path(folder)?);
        let list = async move { client.list(Some(&path)).try_collect::<Vec<_>>().await };
        let found = self.wait(list).map_err(|error| failure::convert(&error))?;
        let listed = |object: object_store::ObjectMeta| {
            let name = object.location.filename()?.to_owned();
            Some(Listed { name, bytes: object.size, modified: object.last_modified.timestamp() })
        };
        Ok(found.into_iter().filter_map(listed).collect())
    }
}
