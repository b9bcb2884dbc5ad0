//! Publications of an older version, and hostile ones.

use crate::common::{TestVolume, program, run, text};
use crate::hostile::peak;
use std::fs;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

/// Memory that a store may cost, above that of the program with a small volume.
const MOST: u64 = 64 << 20;

/// Writes the objects of a file of the test data to a directory.
pub(crate) fn unpack(file: &[u8], to: &Path) {
    let bytes = zstd::decode_all(file).expect("a store");
    let mut rest = &bytes[..];
    while let Some(at) = rest.iter().position(|byte| *byte == b'\n') {
        let line = std::str::from_utf8(&rest[..at]).expect("a line");
        let (name, len) = line.rsplit_once(' ').expect("a name and a length");
        let (object, behind) = rest[at + 1..].split_at(len.parse().expect("a length"));
        let path = to.join(name);
        fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        fs::write(path, object).expect("an object");
        rest = behind;
    }
}

/// Peak of the memory of a command; its exit code is no matter, but a signal is.
fn memory_of(args: &[&str]) -> u64 {
    let mut child = program()
        .args(args)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("the program starts");
    let mut most = 0;
    loop {
        most = most.max(peak(child.id()));
        if let Some(status) = child.try_wait().expect("a child") {
            assert!(status.code().is_some_and(|code| code < 64), "{args:?}: {status}");
            return most;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn opening_a_hostile_publication_takes_no_more_memory_than_it_reads_ahead() {
    let v = TestVolume::new();
    let honest = format!("file://{}", text(&v.host("honest")));
    run(&["publish", text(&v.image), &honest]).ends(0);
    let hostile = v.host("hostile");
    unpack(include_bytes!("../../../publish/tests/data/ahead.store.zst"), &hostile);
    let hostile = format!("file://{}", text(&hostile));
    let there = v.host("there.lane");
    for command in [&["ls", "URL", "/"][..], &["remote", "info", "URL"], &["pull", "URL", text(&there)]] {
        let of = |url: &str| {
            let args: Vec<&str> =
                command.iter().map(|word| if *word == "URL" { url } else { *word }).collect();
            memory_of(&[&args[..], &["--no-cache"]].concat())
        };
        let (floor, memory) = (of(&honest), of(&hostile));
        let _ = fs::remove_file(&there);
        assert!(memory < floor + MOST, "{command:?}: {memory} bytes, and {floor} of an honest one");
    }
}

#[test]
fn a_version_that_binds_no_content_is_told_and_bound_by_publishing_again() {
    let v = TestVolume::new();
    let store = v.host("store");
    unpack(include_bytes!("../../../publish/tests/data/version2.store.zst"), &store);
    let url = format!("file://{}", text(&store));
    let image = v.host("old.lane");
    let bytes = include_bytes!("../../../publish/tests/data/version2.lane.zst");
    fs::write(&image, zstd::decode_all(&bytes[..]).expect("an image")).expect("write");
    let is_bound = |command: &str, bound: bool| {
        let told = run(&["remote", command, &url]).ends(0);
        assert_eq!(told.out().contains("not bound: "), !bound, "{}", told.out());
        let json = run(&["remote", command, &url, "--json"]).ends(0);
        let json: serde_json::Value = serde_json::from_str(json.out()).expect("JSON");
        assert_eq!(json["bound"], bound);
    };
    is_bound("verify", false);
    is_bound("info", false);
    let listed = |url: &str| run(&["ls", "-la", url, "/", "--no-cache"]).ends(0).out().to_owned();
    let before = listed(&url);
    let published = run(&["publish", text(&image), &url]).ends(0);
    assert!(published.out().contains("with 0 new pieces"), "{}", published.out());
    is_bound("verify", true);
    is_bound("info", true);
    assert_eq!(listed(&url), before);
}

#[test]
fn a_check_replaces_a_damaged_piece() {
    let v = TestVolume::new();
    let url = format!("file://{}", text(&v.host("store")));
    run(&["publish", text(&v.image), &url]).ends(0);
    for pack in fs::read_dir(v.host("store/packs")).expect("packs") {
        let path = pack.expect("a pack").path();
        let mut bytes = fs::read(&path).expect("a pack");
        // The pack of metadata, the largest one here.
        if bytes.len() > 600 {
            bytes[7] ^= 1;
            fs::write(&path, bytes).expect("a pack");
        }
    }
    run(&["remote", "verify", &url]).ends(3);
    let dry = run(&["publish", text(&v.image), &url, "--check", "--dry-run"]).ends(0);
    assert!(dry.out().contains("would be replaced"), "{}", dry.out());
    let done = run(&["publish", text(&v.image), &url, "--check"]).ends(0);
    assert!(done.out().contains("damaged, or not as claimed; replaced"), "{}", done.out());
    run(&["remote", "verify", &url]).ends(0);
}
