//! Publications on a store of the network.

use crate::server::{Fault, Server};
use crate::{Image, KEY, SECRET, content, forgetful, is_read_of, options, read, store};
use lanefs_publish::{Error, Location, Publication, ReadOptions, Reference, Store, StoreError};
use lanefs_stores::{Remote, StoreOptions, open};
use object_store::memory::InMemory;
use std::sync::Arc;

#[test]
fn a_client_in_memory_is_a_store() {
    let image = Image::new();
    let store: Arc<dyn Store> =
        Arc::new(Remote::new("memory:", Arc::new(InMemory::new()), "f").expect("a store"));
    let first = image.publish(&store).unwrap();
    image.change("/b", 5000);
    let second = image.publish(&store).unwrap();
    assert_eq!(second.previous, Some(first.version));
    assert_eq!(read(Arc::clone(&store), &ReadOptions::default(), "/b").unwrap(), content(5000));
    assert_eq!(image.publish(&store).unwrap().written_bytes, 0);
}

#[test]
fn a_publication_is_written_and_read_and_all_requests_are_signed() {
    let (server, image) = (Server::start(), Image::new());
    image.publish(&store(&server)).unwrap();
    image.change("/b", 5000);
    image.publish(&store(&server)).unwrap();
    assert_eq!(read(store(&server), &ReadOptions::default(), "/a").unwrap(), content(300_000));
    assert_eq!(read(store(&server), &forgetful(), "/b").unwrap(), content(5000));
    for request in server.requests() {
        let signed = request.headers.get("authorization").expect("a signature");
        assert!(signed.starts_with(&format!("AWS4-HMAC-SHA256 Credential={KEY}/")), "{signed}");
        assert!(!format!("{request:?}").contains(SECRET));
    }
}

#[test]
fn connections_for_the_first_fetch_are_made_while_the_tag_is_read_and_ask_for_nothing() {
    let (server, image) = (Server::start(), Image::new());
    image.publish(&store(&server)).unwrap();
    server.requests();
    let before = server.connections();
    // The tag is answered when the connections are there.
    server.plant_once(Fault::Connected(before + 4), |request| is_read_of(request, "/tags/"));
    let options = ReadOptions::default();
    let publication = Publication::open(store(&server), &Reference::default(), &options).unwrap();
    assert!(server.connections() >= before + 4, "three beside that of the tag");
    let reads = server.requests();
    let tags = reads.iter().filter(|request| is_read_of(request, "/tags/")).count();
    let first = publication.counts().requests as usize;
    assert_eq!((reads.len(), tags), (1 + first, 1), "{reads:?}");
}

#[test]
fn a_web_server_is_read_without_credentials_and_not_written() {
    let (server, image) = (Server::start(), Image::new());
    image.publish(&store(&server)).unwrap();
    server.requests();
    let location = Location::parse(&format!("{}/b/f/", server.url())).expect("a URL");
    let read_only = StoreOptions { writes: false, endpoint: None, ..options(&server) };
    let web = open(location.store_url(), &read_only).expect("a store");
    assert_eq!(web.name(), format!("{}/b/f", server.url()));
    assert_eq!(read(Arc::clone(&web), &ReadOptions::default(), "/a").unwrap(), content(300_000));
    assert!(server.requests().iter().all(|request| !request.headers.contains_key("authorization")));
    assert!(matches!(web.replace("tags/x", None, Vec::new()), Err(StoreError::Unsupported(_))));
    let writes = StoreOptions { writes: true, ..read_only.clone() };
    assert!(matches!(open(location.store_url(), &writes), Err(StoreError::Unsupported(_))));
    let endpoint = StoreOptions { endpoint: Some(server.url()), ..read_only };
    assert!(matches!(open(location.store_url(), &endpoint), Err(StoreError::Unsupported(_))));
}

#[test]
fn two_publishers_never_lose_an_update() {
    let (server, image) = (Server::start(), Image::new());
    image.publish(&store(&server)).unwrap();
    image.change("/b", 5000);
    // Another publisher moves the tag while this one writes.
    let (other, tag) = (server.clone(), server.object("/b/f/tags/latest").expect("a tag"));
    let mut is_first = true;
    server.plant(move |request| {
        if request.method == "PUT" && request.path.contains("/tags/") && std::mem::take(&mut is_first) {
            other.put("/b/f/tags/latest", &tag);
        }
        None
    });
    assert!(matches!(image.publish(&store(&server)), Err(Error::TagMoved(_))));
    assert!(matches!(read(store(&server), &forgetful(), "/b"), Err(Error::Volume(_))), "the old version");
    assert!(image.publish(&store(&server)).unwrap().written_bytes < 10_000, "only the tag");
    assert_eq!(read(store(&server), &forgetful(), "/b").unwrap(), content(5000));
}
