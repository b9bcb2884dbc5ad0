//! Stores on a server in this process: what is asked of it, and its failures.

mod support;

use lanefs::{Access, CreateOptions, Volume};
use lanefs_publish::{
    Error, Location, Publication, PublishOptions, PublishReport, ReadOptions, Reference, Stamp, Store,
    StoreError, publish,
};
use lanefs_stores::{Redirects, Remote, Retries, StoreOptions, open};
use object_store::memory::InMemory;
use std::path::PathBuf;
use std::sync::{Arc, Barrier};
use std::time::Duration;
use support::{Fault, Request, Server};

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
fn a_wrong_region_is_told_in_words() {
    let server = Server::start();
    server.plant(|_| Some(Fault::Answer(301, "X: y", String::new())));
    for told in [store(&server).read("packs/x", 0..4).unwrap_err(), store(&server).list("packs").unwrap_err()]
    {
        assert!(told.to_string().contains("incorrectly configured region"), "{told}");
    }
}

/// The variables of the environment, and no endpoint besides.
fn environment(server: &Server, own: &[(&str, &str)]) -> Arc<dyn Store> {
    let environment = own.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    let options = StoreOptions { environment, endpoint: None, ..options(server) };
    open(Location::parse("s3://b/f").expect("a URL").store_url(), &options).expect("a store")
}

#[test]
fn an_empty_variable_is_none() {
    let server = Server::start();
    let home = tempfile::tempdir().expect("a directory");
    let file = home.path().join("credentials");
    let keys = format!("[default]\naws_access_key_id = {KEY}\naws_secret_access_key = {SECRET}\n");
    std::fs::write(&file, keys).expect("a file");
    let store = environment(
        &server,
        &[
            ("AWS_ACCESS_KEY_ID", ""),
            ("AWS_SECRET_ACCESS_KEY", ""),
            ("AWS_SESSION_TOKEN", ""),
            ("AWS_ENDPOINT_URL_S3", ""),
            ("AWS_ENDPOINT_URL", &server.url()),
            ("AWS_SHARED_CREDENTIALS_FILE", file.to_str().expect("text")),
        ],
    );
    store.write("packs/x", Vec::new()).unwrap();
    for request in server.requests() {
        assert!(request.headers["authorization"].contains(KEY));
        assert!(!request.headers.contains_key("x-amz-security-token"), "{request:?}");
    }
}

#[test]
fn a_key_of_the_environment_replaces_the_key_of_the_files_and_not_the_region() {
    let server = Server::start();
    let home = tempfile::tempdir().expect("a directory");
    let file = home.path().join("config");
    let own = "[default]\nregion = xy-south-7\naws_access_key_id = OTHER\naws_session_token = OTHER\n";
    std::fs::write(&file, own).expect("a file");
    let store = environment(
        &server,
        &[
            ("AWS_ACCESS_KEY_ID", KEY),
            ("AWS_SECRET_ACCESS_KEY", SECRET),
            ("AWS_ENDPOINT_URL", &server.url()),
            ("AWS_CONFIG_FILE", file.to_str().expect("text")),
            ("AWS_SHARED_CREDENTIALS_FILE", "/none"),
        ],
    );
    store.write("packs/x", Vec::new()).unwrap();
    for request in server.requests() {
        let authorization = &request.headers["authorization"];
        assert!(authorization.contains(KEY) && authorization.contains("/xy-south-7/"), "{authorization}");
        assert!(!request.headers.contains_key("x-amz-security-token"), "{request:?}");
    }
}

#[test]
fn the_endpoint_of_s3_comes_first_and_its_scheme_has_any_case() {
    let server = Server::start();
    let keys = [("AWS_ACCESS_KEY_ID", KEY), ("AWS_SECRET_ACCESS_KEY", SECRET)];
    let (own, other) = (server.url(), "https://127.0.0.1:1");
    let (s3, all) = (("AWS_ENDPOINT_URL_S3", &own[..]), ("AWS_ENDPOINT_URL", other));
    let upper = own.to_uppercase();
    for endpoints in [[s3, all], [all, s3], [("AWS_ENDPOINT_URL_S3", &upper), all]] {
        let store = environment(&server, &[keys, endpoints].concat());
        store.write("packs/x", Vec::new()).unwrap();
    }
    let options = StoreOptions { endpoint: Some(upper), ..options(&server) };
    let store = open(Location::parse("s3://b/f").expect("a URL").store_url(), &options).expect("a store");
    store.write("packs/x", Vec::new()).unwrap();
}

#[test]
fn a_missing_bucket_is_no_missing_object() {
    let server = Server::start();
    let body = "<Error><Code>NoSuchBucket</Code><BucketName>b</BucketName></Error>";
    server.plant(move |_| Some(Fault::Answer(404, "X: y", body.into())));
    assert!(matches!(store(&server).read_all("tags/t", 9), Err(StoreError::NoStore(_))));
    assert!(matches!(store(&server).list("packs"), Err(StoreError::NoStore(_))));
}

#[test]
fn no_error_has_a_part_of_the_credentials() {
    let server = Server::start();
    let store = store(&server);
    // A server that repeats all that it got.
    server.plant(|request| {
        let body = format!("<Error><Code>X{SECRET}</Code>{KEY} {SECRET} {:?}</Error>", request.headers);
        Some(Fault::Answer(403, "X-Echo: y", body))
    });
    let stamp = Stamp { e_tag: Some("\"1\"".into()), version: None };
    let errors = [
        store.read("packs/x", 0..9).unwrap_err(),
        store.read_all("tags/x", 9).unwrap_err(),
        store.write("packs/x", Vec::new()).unwrap_err(),
        store.replace("tags/x", Some(&stamp), Vec::new()).unwrap_err(),
        store.list("packs").unwrap_err(),
    ];
    for error in errors {
        let text = format!("{error} {error:?}");
        assert!(matches!(error, StoreError::Denied(_)), "{text}");
        assert!(text.contains("403"), "{text}");
        assert!(!text.contains(KEY) && !text.contains(SECRET) && !text.contains("AWS4"), "{text}");
    }
    assert!(!store.name().contains(SECRET));
}

#[test]
fn settings_that_cannot_be_used_are_refused_without_their_values() {
    let server = Server::start();
    let location = |url: &str| Location::parse(url).expect("a URL").store_url().clone();
    let home = tempfile::tempdir().expect("a directory");
    let file = home.path().join("key.json");
    std::fs::write(&file, format!("\"{SECRET}\"")).expect("a file");
    for (url, name, value) in [
        ("s3://b", "AWS_SECRET_ACCESS_KEY", SECRET),
        ("gs://b", "GOOGLE_APPLICATION_CREDENTIALS", file.to_str().expect("text")),
        ("gs://b", "GOOGLE_SERVICE_ACCOUNT_KEY", SECRET),
        ("az://b", "AZURE_STORAGE_ACCOUNT_KEY", SECRET),
    ] {
        let environment = vec![(name.to_owned(), value.to_owned())];
        let options = StoreOptions { environment, ..options(&server) };
        let refused = open(&location(url), &options).map(drop).expect_err(url).to_string();
        assert!(!refused.contains(SECRET) && !refused.is_empty(), "{url} {name}: {refused}");
    }
    for endpoint in
        ["127.0.0.1:9000", "s3://b", "http://me:secret@host", "http://host?secret", "http://h#secret"]
    {
        for (url, name) in ENDPOINTS {
            let environment = vec![(name.to_owned(), endpoint.to_owned())];
            for options in [
                StoreOptions { endpoint: Some(endpoint.into()), ..options(&server) },
                StoreOptions { endpoint: None, environment, ..options(&server) },
            ] {
                let refused = open(&location(url), &options).map(drop).expect_err(endpoint).to_string();
                assert!(!refused.contains("secret"), "{refused}");
            }
        }
    }
}

/// Each service's variable for another server.
const ENDPOINTS: [(&str, &str); 3] =
    [("s3://b", "AWS_ENDPOINT_URL"), ("gs://b", "GOOGLE_BASE_URL"), ("az://b", "AZURE_ENDPOINT")];

#[test]
fn a_variable_names_a_server_without_encryption() {
    for (url, endpoint) in ENDPOINTS {
        let server = Server::start();
        let address = server.url();
        let environment = [
            (endpoint, &address[..]),
            ("AWS_SKIP_SIGNATURE", "true"),
            ("GOOGLE_SKIP_SIGNATURE", "true"),
            ("AZURE_SKIP_SIGNATURE", "true"),
            ("AZURE_STORAGE_ACCOUNT_NAME", "account"),
        ];
        let environment = environment.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
        let location = Location::parse(url).expect("a URL");
        let options = StoreOptions { endpoint: None, environment, ..options(&server) };
        let store = open(location.store_url(), &options).expect(url);
        let answer = store.read("packs/x", 0..9);
        assert!(matches!(answer, Err(StoreError::Missing)), "{url}: {answer:?}");
        assert_eq!(server.requests().len(), 1, "{url}");
    }
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
