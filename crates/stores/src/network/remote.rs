//! A client of `object_store` as a store.
//!
//! The library is asynchronous, and its callers here are threads. So a store has a runtime of its own, whose
//! workers do the requests. The threads wait for their answers by channels, so a caller may even be a task of
//! another runtime, which it blocks.

use super::patience::listing;
use super::{early, failure};
use futures_util::{Stream, StreamExt};
use lanefs_publish::{Listed, Stamp, Store, StoreError};
use object_store::path::Path;
use object_store::{
    GetOptions, GetRange, GetResult, ObjectMeta, ObjectStore, ObjectStoreExt, PutMode, PutPayload,
    UpdateVersion,
};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::sync_channel;
use tokio::runtime::{Builder, Runtime};

/// Most workers of a runtime. They decrypt; threads of the caller verify and decompress.
const WORKERS: usize = 4;
/// Attempts to read bytes whose connection is cut on the way.
const READS: usize = 3;
/// Most bytes of a listing in memory: about nine million packs.
const MAX_LISTING_BYTES: usize = 1 << 30;

/// Requests of a reader at the same time: services answer thousands, and each has a connection here.
const REQUESTS: usize = 256;

type Outcome<T> = Result<T, StoreError>;

/// A client as a store.
pub struct Remote {
    name: String,
    client: Arc<dyn ObjectStore>,
    folder: Path,
    /// Requests that follow the next read at the same time, beside one on its connection.
    following: AtomicUsize,
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
        let following = AtomicUsize::new(0);
        Ok(Remote { name: name.into(), client, folder, following, runtime: Some(runtime) })
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
            let (named, following) = (object.to_owned(), self.following.swap(0, Ordering::Relaxed));
            let read = async move {
                let answer = client.get_opts(&path, options).await?;
                // Without an entity tag the client cannot know that the rest is of the same object.
                let is_continued = answer.meta.e_tag.is_some();
                match collect(answer, most).await {
                    Err(error) if !is_continued && failure::is_cut(&error) => Ok(Body::Cut(error)),
                    Err(error) => Err(error),
                    Ok(body) => Ok(body),
                }
            };
            match self.wait(async move { early::beside(&named, following, read).await }) {
                Ok(Body::Whole(bytes, stamp)) => return Ok((bytes, stamp)),
                Ok(Body::TooLarge) => return Err(StoreError::Failed(format!("has more than {most} bytes"))),
                // The object is shorter than it should be, which its reader judges.
                Err(error) if range.is_some() && failure::is_behind_end(&error) => {
                    return Ok((Vec::new(), Stamp::default()));
                }
                // All else the client has tried again itself, as often as its rules say.
                Ok(Body::Cut(_)) if attempt < READS => {}
                Ok(Body::Cut(error)) | Err(error) => return Err(failure::convert(&error)),
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

/// The body of an answer.
enum Body {
    Whole(Vec<u8>, Stamp),
    /// It has more bytes than it may have, whatever its headers say.
    TooLarge,
    /// It was cut off, and nobody has tried again.
    Cut(object_store::Error),
}

/// Receives an answer.
async fn collect(answer: GetResult, most: u64) -> object_store::Result<Body> {
    let stamp = Stamp { e_tag: answer.meta.e_tag.clone(), version: answer.meta.version.clone() };
    let expected = answer.range.end.saturating_sub(answer.range.start).min(most);
    let mut bytes = Vec::with_capacity(expected as usize);
    let mut stream = answer.into_stream();
    while let Some(part) = stream.next().await {
        let part = part?;
        if (bytes.len() + part.len()) as u64 > most {
            return Ok(Body::TooLarge);
        }
        bytes.extend_from_slice(&part);
    }
    Ok(Body::Whole(bytes, stamp))
}

/// Receives a listing of the objects that lie in a folder itself. Those of folders below it have other names.
/// Returns `None` where it takes more bytes of memory than it may take: a server may have another page
/// without end.
async fn gather(
    mut found: impl Stream<Item = object_store::Result<ObjectMeta>> + Unpin,
    folder: &Path,
    most: usize,
) -> object_store::Result<Option<Vec<Listed>>> {
    let (mut listed, mut taken) = (Vec::new(), 0);
    while let Some(object) = found.next().await {
        let object = object?;
        let Some(name) = name_in(folder, &object.location) else { continue };
        taken += size_of::<Listed>() + name.len();
        if taken > most {
            return Ok(None);
        }
        let (bytes, modified) = (object.size, object.last_modified.timestamp());
        listed.push(Listed { name, bytes, modified, is_object: true });
    }
    Ok(Some(listed))
}

/// Name of an object in a folder; `None` where it lies elsewhere.
fn name_in(folder: &Path, object: &Path) -> Option<String> {
    let mut parts = object.prefix_match(folder)?;
    let name = parts.next()?.as_ref().to_owned();
    parts.next().is_none().then_some(name)
}

impl Store for Remote {
    fn name(&self) -> String {
        self.name.clone()
    }

    fn concurrency(&self) -> usize {
        REQUESTS
    }

    fn prepare(&self, requests: usize) {
        self.following.store(requests, Ordering::Relaxed);
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

    fn delete(&self, object: &str) -> Outcome<()> {
        let (client, path) = (Arc::clone(&self.client), self.path(object)?);
        match self.wait(async move { client.delete(&path).await }) {
            Ok(()) | Err(object_store::Error::NotFound { .. }) => Ok(()),
            Err(error) => Err(failure::convert(&error)),
        }
    }

    fn list(&self, folder: &str) -> Outcome<Vec<Listed>> {
        let (client, path) = (Arc::clone(&self.client), self.path(folder)?);
        let list = listing(async move { gather(client.list(Some(&path)), &path, MAX_LISTING_BYTES).await });
        let found = self.wait(list).map_err(|error| failure::convert(&error))?;
        found.ok_or_else(|| StoreError::Failed(format!("{folder} has too many objects to be listed")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::stream;

    #[tokio::test]
    async fn a_listing_that_is_too_large_is_given_up() {
        let object = |number: u64| ObjectMeta {
            location: Path::from(format!("packs/{number:064}")),
            last_modified: Default::default(),
            size: number,
            e_tag: None,
            version: None,
        };
        let (folder, one) = (Path::from("packs"), size_of::<Listed>() + 64);
        let some = stream::iter(0..100).map(|number| Ok(object(number)));
        let listed = gather(some, &folder, 100 * one).await.expect("a listing").expect("not too many");
        assert_eq!(listed.len(), 100);
        let more = stream::iter(0..101).map(|number| Ok(object(number)));
        assert!(gather(more, &folder, 100 * one).await.expect("a listing").is_none());
    }
}
