//! Bounds on what commands do for a hostile file: on the data that they read, and on their memory.

use crate::common::{Ran, TestVolume, program, run, text};
use crate::hostile_files::{Slots, with_files_of_one_block};
use std::fs;
use std::process::Stdio;

/// Size of the files: more than 1 GiB, which any publication may give, and less than a hundred times the
/// volume's size.
const SIZE: u64 = 3 << 29;

/// Publishes an image. Returns the URL.
fn published(v: &TestVolume, name: &str, image: &[u8]) -> String {
    let (path, url) = (v.host(name), format!("file://{}", text(&v.host(&format!("{name}.store")))));
    fs::write(&path, image).expect("an image");
    run(&["publish", text(&path), &url]).ends(0);
    url
}

/// Runs the program; its output goes nowhere.
fn silent(args: &[&str]) -> Ran {
    let child = program().args(args).arg("--no-cache").stdin(Stdio::null()).stdout(Stdio::null()).output();
    let output = child.expect("the program runs");
    let err = String::from_utf8_lossy(&output.stderr).into_owned();
    Ran { code: output.status.code().unwrap_or(-1), bytes: Vec::new(), err }
}

#[test]
fn no_command_reads_more_of_a_publication_than_its_bytes_justify() {
    let v = TestVolume::sized("8M");
    let url = &published(&v, "one", &with_files_of_one_block(SIZE, b'\n', Slots::All));
    let (tree, copy) = (v.host("tree"), v.host("copy"));
    let refused = |args: &[&str]| {
        silent(args).ends(3).says("100 times the bytes that the store gave").says("--max-expansion");
    };
    refused(&["cat", url, "/a"]);
    refused(&["grep", url, "-c", "y", "/"]);
    refused(&["dups", url]);
    refused(&["shell", url, "-c", "ls /", "-c", "cat /a"]);
    // These ask for holes, by maps that have no block twice between two holes.
    let holes = &published(&v, "holes", &with_files_of_one_block(2 * SIZE, b'\n', Slots::EverySecond));
    refused(&["cp", holes, ":/a", text(&copy)]);
    for target in [&["--tar", "-"][..], &[text(&tree), "--no-sync"]] {
        let ran = silent(&[&["export", holes, "/", "--max-expansion", "1000"], target].concat());
        ran.ends(4).says("1000 times the bytes that the store gave").says("--max-expansion");
        silent(&[&["export", holes, "/"], target].concat()).ends(4).says("2 times the size of the volume");
    }
    assert!(!copy.exists() && !tree.join("a").exists(), "no file by half");
    // A multiple of the size that the volume claims is no reason to stop where the user wants more.
    silent(&["cat", url, "/a", "--max-expansion", "0"]).ends(0);
    silent(&["cat", url, "/a", "--max-expansion", "10000000"]).ends(0);
}

#[test]
fn zeros_and_holes_of_a_publication_are_read_all_the_same() {
    let v = TestVolume::sized("8M");
    let url = &published(&v, "zeros", &with_files_of_one_block(SIZE, 0, Slots::All));
    for args in [&["cat", url, "/a"][..], &["dups", url], &["grep", url, "-ac", "y", "/"]] {
        let ran = silent(args);
        assert!(
            matches!(ran.code, 0 | 1) && !ran.err.contains("times"),
            "{args:?}: {} {}",
            ran.code,
            ran.err
        );
    }
    v.run("truncate", &format!("-s {} /hole", 3_u64 << 40)).ends(0);
    let url = &format!("file://{}", text(&v.host("holes.store")));
    run(&["publish", text(&v.image), url]).ends(0);
    let (tree, copy) = (v.host("tree"), v.host("copy"));
    silent(&["export", url, "/", text(&tree)]).ends(0);
    silent(&["cp", url, ":/hole", text(&copy)]).ends(0);
    assert_eq!(copy.metadata().expect("a file").len(), 3 << 40);
}
