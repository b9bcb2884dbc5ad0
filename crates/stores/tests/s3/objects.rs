//! Objects: written, read, replaced, listed and deleted.

use crate::server::{Fault, Request, Server};
use crate::{Image, at, content, options, store};
use lanefs_publish::{Location, Stamp, StoreError};
use lanefs_stores::{Redirects, StoreOptions, open};
use std::sync::{Arc, Barrier};

#[test]
fn objects_are_written_read_replaced_listed_and_deleted() {
    let server = Server::start();
    for (url, folder) in [("s3://b/f", "/b/f/"), ("s3://b", "/b/"), ("s3://b/x%20y/z", "/b/x%20y/z/")] {
        let store = at(&server, url);
        assert_eq!(store.name(), url);
        store.write("packs/one", b"0123456789".to_vec()).unwrap();
        assert_eq!(server.object(&format!("{folder}packs/one")).as_deref(), Some(&b"0123456789"[..]));
        assert_eq!(store.read("packs/one", 2..5).unwrap(), b"234");
        assert_eq!(store.read("packs/one", 8..50).unwrap(), b"89", "the object ends before");
        assert_eq!(store.read("packs/one", 10..20).unwrap(), b"", "it ends even before the first byte");
        assert!(matches!(store.read("packs/two", 0..1), Err(StoreError::Missing)));
        assert_eq!(store.read_all("packs/one", 10).unwrap().0, b"0123456789");
        assert!(matches!(store.read_all("packs/one", 9), Err(StoreError::Failed(_))));
    }
    let store = store(&server);
    // Objects of folders below have other names.
    store.write("packs/old/one", b"another".to_vec()).unwrap();
    store.write("packs/old/two", b"another".to_vec()).unwrap();
    let listed = store.list("packs").unwrap();
    assert_eq!(listed.iter().map(|one| (&one.name[..], one.bytes)).collect::<Vec<_>>(), [("one", 10)]);
    assert!(listed[0].modified > 1_700_000_000);
    assert_eq!(store.list("none").unwrap(), []);

    store.replace("tags/t", None, b"1".to_vec()).unwrap();
    assert!(matches!(store.replace("tags/t", None, b"2".to_vec()), Err(StoreError::Changed)));
    let (_, first) = store.read_all("tags/t", 10).unwrap();
    store.replace("tags/t", Some(&first), b"2".to_vec()).unwrap();
    assert!(matches!(store.replace("tags/t", Some(&first), b"3".to_vec()), Err(StoreError::Changed)));
    assert_eq!(store.read_all("tags/t", 10).unwrap().0, b"2");
    let none = Stamp::default();
    assert!(matches!(store.replace("tags/t", Some(&none), b"3".to_vec()), Err(StoreError::Unsupported(_))));
    assert!(matches!(store.replace("tags/u", Some(&first), b"3".to_vec()), Err(StoreError::Changed)));

    store.delete("tags/t").unwrap();
    assert!(matches!(store.read_all("tags/t", 10), Err(StoreError::Missing)));
    store.delete("tags/t").expect("one that is not there is no error");
}

#[test]
fn a_redirect_to_another_server_is_not_followed_unless_it_is_allowed() {
    let (server, other, image) = (Server::start(), Server::start(), Image::new());
    image.publish(&store(&other)).unwrap();
    other.requests();
    let (own, there) = (server.url(), other.url());
    let redirect = move |to: String| {
        move |request: &Request| {
            let location = format!("location: {to}{}", request.path);
            Some(Fault::Answer(302, Box::leak(location.into_boxed_str()), String::new()))
        }
    };
    let read_only = StoreOptions { writes: false, endpoint: None, ..options(&server) };
    let location = Location::parse(&format!("{own}/b/f/")).expect("a URL");
    let web = |redirects| {
        let options = StoreOptions { redirects, ..read_only.clone() };
        open(location.store_url(), &options).expect("a store")
    };
    server.plant(redirect(there.clone()));
    let refused = web(Redirects::SameServer).read_all("tags/latest", 4096).expect_err("another server");
    assert!(refused.to_string().contains("redirects to another server"), "{refused}");
    assert!(store(&server).read_all("tags/latest", 4096).is_err(), "nor with credentials");
    assert!(other.requests().is_empty(), "the other server was asked");
    let read_there = web(Redirects::Anywhere).read_all("tags/latest", 1 << 20).expect("the tag");
    assert!(!read_there.0.is_empty());
    assert!(other.requests().iter().all(|request| !request.headers.contains_key("authorization")));
    // Within the server a redirect is followed.
    server.put("/moved", b"here");
    let target = format!("location: {own}/moved");
    server.plant(move |request| {
        let fault = Fault::Answer(302, Box::leak(target.clone().into_boxed_str()), String::new());
        (request.path != "/moved").then_some(fault)
    });
    assert_eq!(web(Redirects::SameServer).read_all("tags/latest", 4096).expect("it is followed").0, b"here");
}

#[test]
fn many_reads_are_under_way_at_once() {
    let server = Server::start();
    let store = store(&server);
    store.write("packs/x", content(1 << 16)).unwrap();
    // No answer comes before all have asked.
    let all = Arc::new(Barrier::new(32));
    server.plant(move |_| Some(Fault::Together(Arc::clone(&all))));
    std::thread::scope(|scope| {
        for number in 0..32 {
            let store = &store;
            scope.spawn(move || {
                let read = store.read("packs/x", number * 1000..number * 1000 + 500).unwrap();
                assert_eq!(read, content(1 << 16)[number as usize * 1000..][..500]);
            });
        }
    });
}
