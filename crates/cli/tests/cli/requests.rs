//! The requests that commands make to a store for many files.

use crate::common::{TestVolume, run, text};
use crate::server::Server;
use lanefs::{Access, Volume};
use std::fs;

/// Files that are read, each in a directory of its own, and most of the requests for their data.
const FILES: usize = 24;
const MOST: usize = 4;

fn hot(number: usize) -> String {
    format!("/hot/d{number}/file")
}

/// Makes files that do not compress, here and there on a volume, and publishes it with their data side by
/// side to a server. Returns the URL.
fn published(v: &TestVolume, server: &Server) -> String {
    let volume = Volume::open(&v.image, Access::Write).unwrap();
    volume.mkdir_all("/cold", 0o755).unwrap();
    let mut state = 1u64;
    let mut noise = |bytes: usize| -> Vec<u8> {
        let next = || {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1);
            (state >> 56) as u8
        };
        std::iter::repeat_with(next).take(bytes).collect()
    };
    for number in 0..FILES {
        volume.write_file(format!("/cold/{number}"), noise(300_000)).unwrap();
        volume.mkdir_all(format!("/hot/d{number}"), 0o755).unwrap();
        volume.write_file(hot(number), noise(10_000)).unwrap();
    }
    volume.close().unwrap();
    let order: String = (0..FILES).map(|number| format!("{}\n", hot(number))).collect();
    fs::write(v.host("order"), order).unwrap();
    let store = format!("file://{}", text(&v.host("store")));
    run(&["publish", text(&v.image), &store, "--order", text(&v.host("order"))]).ends(0);
    for folder in ["packs", "tags", "versions"] {
        for object in fs::read_dir(v.host("store").join(folder)).unwrap().flatten() {
            let name = object.file_name().into_string().unwrap();
            server.put(&format!("/v/{folder}/{name}"), &fs::read(object.path()).unwrap());
        }
    }
    format!("{}/v", server.url())
}

/// Runs a command without a cache. Returns its output and the number of its requests to packs.
fn counted(server: &Server, args: &[&str]) -> (Vec<u8>, usize) {
    server.requests();
    let ran = run(&[args, &["--no-cache"]].concat()).ends(0);
    let requests = server.requests();
    (ran.bytes, requests.iter().filter(|request| request.path.starts_with("/v/packs/")).count())
}

#[test]
fn commands_that_read_many_files_fetch_their_data_together() {
    let (v, server) = (TestVolume::new(), Server::start());
    let url = published(&v, &server);
    let (_, metadata) = counted(&server, &["ls", "-lR", &url, "/hot"]);

    let paths: Vec<String> = (0..FILES).map(hot).collect();
    let mut args = vec!["cat", &url];
    args.extend(paths.iter().map(String::as_str));
    let (bytes, requests) = counted(&server, &args);
    assert!(requests <= metadata + MOST, "cat: {requests} requests, {metadata} of them for metadata");
    args[1] = text(&v.image);
    assert!(run(&args).ends(0).bytes == bytes, "cat has other bytes");
    // Names that are missing or lead elsewhere are told, and cost the others nothing.
    run(&["cat", &url, &paths[0], "/none", "/hot", &paths[1], "--no-cache"]).ends(1).says("/none: ");

    let out = v.host("out");
    let (_, requests) = counted(&server, &["export", &url, "/hot", text(&out), "--threads", "1"]);
    assert!(requests <= metadata + MOST, "export: {requests} requests, {metadata} of them for metadata");
    for (number, path) in paths.iter().enumerate() {
        let here = run(&["cat", text(&v.image), path]).ends(0).bytes;
        assert!(fs::read(out.join(format!("d{number}/file"))).unwrap() == here, "{number}");
    }

    // 7.2 MB, of which a request has 4 MiB at most.
    let (bytes, requests) = counted(&server, &["export", &url, "/cold", "-"]);
    assert!(bytes.len() > FILES * 300_000);
    assert!(requests <= metadata + 2 * MOST, "an archive: {requests} requests");
}
