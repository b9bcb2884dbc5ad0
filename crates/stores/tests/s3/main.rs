//! Stores on a server in this process: what is asked of it, and its failures.

mod failures;
mod objects;
mod publications;
mod server;
mod settings;

use lanefs::{Access, CreateOptions, Volume};
use lanefs_publish::{
    Location, Publication, PublishOptions, PublishReport, ReadOptions, Reference, Store, publish,
};
use lanefs_stores::{Retries, StoreOptions, open};
use server::{Request, Server};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

const KEY: &str = "AKIDEXAMPLE";
const SECRET: &str = "wJalrXUtnFEMI/K7MDENG+verysecret";

fn options(server: &Server) -> StoreOptions {
    let variable = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    StoreOptions {
        writes: true,
        endpoint: Some(server.url()),
        environment: vec![
            variable("AWS_ACCESS_KEY_ID", KEY),
            variable("AWS_SECRET_ACCESS_KEY", SECRET),
            variable("AWS_ENDPOINT_URL", "http://127.0.0.1:1/is-not-used"),
        ],
        retries: Retries { most: 3, pause: Duration::from_millis(1), within: Duration::from_secs(600) },
        ..StoreOptions::default()
    }
}

fn at(server: &Server, url: &str) -> Arc<dyn Store> {
    let location = Location::parse(url).expect("a URL");
    open(location.store_url(), &options(server)).expect("a store")
}

/// The bucket `b` with the folder `f`.
fn store(server: &Server) -> Arc<dyn Store> {
    at(server, "s3://b/f")
}

fn is_read_of(request: &Request, part: &str) -> bool {
    request.method == "GET" && request.path.contains(part)
}

/// A volume with some files in a directory of its own.
struct Image {
    _home: tempfile::TempDir,
    path: PathBuf,
}

impl Image {
    fn new() -> Self {
        let home = tempfile::tempdir().expect("a directory");
        let path = home.path().join("v.lane");
        let options = CreateOptions { size: 64 << 20, ..CreateOptions::default() };
        let image = Image { _home: home, path };
        Volume::create(&image.path, &options).and_then(Volume::close).expect("a volume");
        image.change("/a", 300_000);
        image
    }

    fn change(&self, name: &str, bytes: usize) {
        let volume = Volume::open(&self.path, Access::Write).expect("a volume");
        volume.write_file(name, content(bytes)).expect("a file");
        volume.close().expect("a close");
    }

    fn publish(&self, store: &Arc<dyn Store>) -> lanefs_publish::Result<PublishReport> {
        let volume = Volume::open(&self.path, Access::Read)?;
        publish(&volume, Arc::clone(store), "latest", &PublishOptions::default(), &|_, _| true)
    }
}

fn content(bytes: usize) -> Vec<u8> {
    (0..bytes).map(|i| (i * i / 7) as u8).collect()
}

fn read(store: Arc<dyn Store>, options: &ReadOptions, name: &str) -> lanefs_publish::Result<Vec<u8>> {
    let publication = Publication::open(store, &Reference::default(), options)?;
    let volume = Volume::open_device(Box::new(publication.device()), Access::Read)?;
    Ok(volume.read_file(name)?)
}

/// Without reading ahead and without memory, so that each read asks the store.
fn forgetful() -> ReadOptions {
    ReadOptions { ahead: 0, memory: 0, ..ReadOptions::default() }
}
