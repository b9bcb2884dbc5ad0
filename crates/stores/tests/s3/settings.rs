//! Settings: the environment, files and endpoints, and credentials, which no error shows.

use crate::server::{Fault, Server};
use crate::{KEY, SECRET, options, store};
use lanefs_publish::{Location, Stamp, Store, StoreError};
use lanefs_stores::{StoreOptions, open};
use std::sync::Arc;

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
