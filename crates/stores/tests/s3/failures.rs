//! Failures of a server: tried again, told in words, and never wrong bytes.

use crate::server::{Fault, Server};
use crate::{Image, content, forgetful, is_read_of, options, read, store};
use lanefs_publish::{Error, Location, Publication, Reference, StoreError};
use lanefs_stores::{StoreOptions, open};

#[test]
fn a_lost_answer_to_the_last_put_is_no_conflict() {
    let (server, image) = (Server::start(), Image::new());
    for method in ["tags", "packs", "versions"] {
        image.change("/b", 5000 + method.len());
        server
            .plant_once(Fault::Lost, move |request| request.method == "PUT" && request.path.contains(method));
        image.publish(&store(&server)).unwrap_or_else(|error| panic!("{method}: {error}"));
        assert_eq!(read(store(&server), &forgetful(), "/b").unwrap().len(), 5000 + method.len());
    }
}

#[test]
fn what_fails_for_a_short_time_is_tried_again() {
    let (server, image) = (Server::start(), Image::new());
    let answer = |status| Fault::Answer(status, "Retry-After: 0", "<Code>SlowDown</Code>".into());
    for part in ["/tags/", "/versions/", "/packs/"] {
        image.change("/b", 5000 + part.len());
        for status in [500, 503, 429] {
            server.plant_once(answer(status), move |request| {
                request.method == "PUT" && request.path.contains(part)
            });
        }
        image.publish(&store(&server)).unwrap();
        for status in [500, 502, 503, 429, 408] {
            server.plant_once(answer(status), move |request| is_read_of(request, part));
            assert_eq!(read(store(&server), &forgetful(), "/a").unwrap(), content(300_000), "{status}");
        }
        for fault in [Fault::Cut, Fault::Lost] {
            server.plant_once(fault, move |request| is_read_of(request, part));
            assert_eq!(read(store(&server), &forgetful(), "/a").unwrap(), content(300_000), "{part}");
        }
    }
    // Wrong bytes are asked for once more.
    server.plant_once(Fault::Flipped, |request| is_read_of(request, "/packs/"));
    assert_eq!(read(store(&server), &forgetful(), "/a").unwrap(), content(300_000));
}

#[test]
fn what_keeps_failing_is_an_error_that_names_the_object_and_never_wrong_bytes() {
    let (server, image) = (Server::start(), Image::new());
    image.publish(&store(&server)).unwrap();
    type Make = fn() -> Fault;
    let faults: [(Make, &str); 8] = [
        (|| Fault::Answer(503, "X: y", "<Code>SlowDown</Code>".into()), "503 Service Unavailable (SlowDown)"),
        (|| Fault::Answer(403, "X: y", "<Code>AccessDenied</Code>".into()), "403 Forbidden (AccessDenied)"),
        (|| Fault::Answer(404, "X: y", String::new()), "no such object"),
        (|| Fault::Cut, "the connection"),
        (|| Fault::Shifted, "Requested"),
        (|| Fault::Whole, "non-partial response"),
        (|| Fault::Flipped, "their hash differs"),
        (|| Fault::Endless, "has more than"),
    ];
    for (fault, why) in faults {
        server.heal();
        let publication = Publication::open(store(&server), &Reference::default(), &forgetful()).unwrap();
        server.plant(move |request| is_read_of(request, "/packs/").then(fault));
        let failed =
            lanefs::Device::read_slice(&publication.device(), 0, &mut [0; 4096]).unwrap_err().to_string();
        assert!(failed.contains("s3://b/f/packs/") && failed.contains(why), "{why}: {failed}");
    }
}

#[test]
fn a_pack_that_was_cut_short_is_damage_of_that_pack() {
    let (server, image) = (Server::start(), Image::new());
    image.publish(&store(&server)).unwrap();
    let packs: Vec<String> = server.paths().into_iter().filter(|path| path.contains("/packs/")).collect();
    assert!(packs.len() >= 2, "pieces and pages");
    for path in packs {
        let whole = server.object(&path).expect("a pack");
        server.put(&path, &whole[..1]);
        let publication = Publication::open(store(&server), &Reference::default(), &forgetful()).unwrap();
        let verified = publication.verify(&|_, _| true).unwrap();
        let name = path.rsplit('/').next().expect("a name");
        let is_named =
            |finding: &Error| matches!(finding, Error::Damaged { object, .. } if object.ends_with(name));
        assert!(verified.found > 0 && verified.findings.iter().all(is_named), "{verified:?}");
        read(store(&server), &forgetful(), "/a").unwrap_err();
        server.put(&path, &whole);
    }
}

#[test]
fn a_server_that_is_away_is_told_and_used_again_when_it_is_back() {
    let (server, image) = (Server::start(), Image::new());
    image.publish(&store(&server)).unwrap();
    let gone = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}", gone.local_addr().expect("an address"));
    drop(gone);
    let away = StoreOptions { endpoint: Some(url), ..options(&server) };
    let location = Location::parse("s3://b/f").expect("a URL");
    let refused = open(location.store_url(), &away).expect("a store").read("packs/x", 0..1).unwrap_err();
    assert!(refused.to_string().contains("cannot connect: Connection refused"), "{refused}");

    let there = store(&server);
    server.plant(|_| Some(Fault::Lost));
    assert!(there.read_all("tags/latest", 1000).is_err());
    server.heal();
    assert!(there.read_all("tags/latest", 1000).is_ok());
}

#[test]
fn a_server_that_is_dead_is_tried_as_often_as_the_rules_say() {
    let server = Server::start();
    let store = store(&server);
    store.write("packs/x", b"abcd".to_vec()).unwrap();
    for fault in [|| Fault::Lost, || Fault::Answer(503, "X: y", String::new()), || Fault::Cut] {
        server.requests();
        server.plant(move |_| Some(fault()));
        assert!(store.read("packs/x", 0..4).is_err());
        assert_eq!(server.requests().len(), 1 + options(&server).retries.most);
    }
}

#[test]
fn a_body_that_is_cut_is_read_again_without_an_entity_tag() {
    let server = Server::start();
    let store = store(&server);
    store.write("packs/x", b"abcd".to_vec()).unwrap();
    server.plant_once(Fault::CutUntagged, |_| true);
    assert_eq!(store.read("packs/x", 0..4).unwrap(), b"abcd");
    server.plant_once(Fault::CutUntagged, |_| true);
    assert_eq!(store.read_all("packs/x", 4).unwrap().0, b"abcd");
}

#[test]
fn an_answer_without_end_is_an_error_and_fills_no_memory() {
    const ENDLESS: usize = 256 << 20;
    const MOST: usize = 64 << 20;
    let server = Server::start();
    let store = store(&server);
    let lengths =
        ["Content-Length: 9000000000000000000", "Content-Length: 1000000000000000", "Connection: close"];
    for length in lengths {
        for bytes in [200_000, ENDLESS] {
            let answer = |status: u16| {
                let head = format!("HTTP/1.1 {status} Status\r\n{length}\r\n\r\n");
                server.plant(move |_| Some(Fault::Raw(head.clone(), bytes)));
            };
            let check = |why: &str| assert!(server.sent() < MOST, "{why} {length} {bytes}");
            for status in [404, 403, 500] {
                answer(status);
                let failed = [
                    store.read("packs/x", 0..9).unwrap_err(),
                    store.read_all("tags/x", 9).unwrap_err(),
                    store.write("packs/x", Vec::new()).unwrap_err(),
                    store.list("packs").unwrap_err(),
                ];
                for error in failed {
                    match status {
                        404 => {
                            let is_missing = matches!(error, StoreError::Missing);
                            assert!(is_missing || error.to_string().contains("404"), "{error}");
                        }
                        403 => assert!(matches!(error, StoreError::Denied(_)), "{error}"),
                        _ => assert!(error.to_string().contains("500"), "{error}"),
                    }
                }
                check("an error");
            }
            answer(200);
            assert!(matches!(store.read("packs/x", 0..9), Err(StoreError::Failed(_))));
            assert!(matches!(store.read_all("tags/x", 9), Err(StoreError::Failed(_))));
            check("a read");
            assert!(matches!(store.list("packs"), Err(StoreError::Failed(_))));
            check("a listing");
            let _ = store.replace("tags/x", None, Vec::new());
            check("a replacement");
        }
    }
    server.heal();
    store.write("packs/x", b"abc".to_vec()).unwrap();
    assert_eq!(store.read("packs/x", 0..9).unwrap(), b"abc");
}

#[test]
fn a_listing_that_never_ends_is_given_up() {
    let server = Server::start();
    let page = |token: &str| {
        let truncated = "<ListBucketResult><IsTruncated>true</IsTruncated>";
        format!("{truncated}<NextContinuationToken>{token}</NextContinuationToken></ListBucketResult>")
    };
    // The same token for ever, and two that take turns.
    for tokens in [["same", "same"], ["one", "two"]] {
        let mut count = 0;
        server.requests();
        server.plant(move |_| {
            count += 1;
            Some(Fault::Answer(200, "content-type: application/xml", page(tokens[count % 2])))
        });
        let refused = store(&server).list("packs").expect_err("no end");
        assert!(refused.to_string().contains("the listing has no end"), "{refused}");
        assert!(server.requests().len() <= 4);
    }
    server.heal();
    assert_eq!(store(&server).list("packs").expect("a listing"), []);
}

#[test]
fn a_wrong_region_is_told_in_words() {
    let server = Server::start();
    server.plant(|_| Some(Fault::Answer(301, "X: y", String::new())));
    for told in [store(&server).read("packs/x", 0..4).unwrap_err(), store(&server).list("packs").unwrap_err()]
    {
        assert!(told.to_string().contains("incorrectly configured region"), "{told}");
    }
}

#[test]
fn a_missing_bucket_is_no_missing_object() {
    let server = Server::start();
    let body = "<Error><Code>NoSuchBucket</Code><BucketName>b</BucketName></Error>";
    server.plant(move |_| Some(Fault::Answer(404, "X: y", body.into())));
    assert!(matches!(store(&server).read_all("tags/t", 9), Err(StoreError::NoStore(_))));
    assert!(matches!(store(&server).list("packs"), Err(StoreError::NoStore(_))));
}
