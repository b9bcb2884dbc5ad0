//! The record of the last sync: which names `lanefs sync` passes over, and when it looks at all of them.

use crate::common::{Ran, TestVolume, program, run, text};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, SystemTime};

/// A source with four directories and six files, and a cache of its own.
struct Synced {
    v: TestVolume,
    source: PathBuf,
}

impl Synced {
    fn new() -> Synced {
        let v = TestVolume::on_disk();
        let source = v.host("source");
        fs::create_dir_all(source.join("d/e")).unwrap();
        fs::create_dir_all(source.join("g")).unwrap();
        for name in ["a", "d/b", "d/c", "d/e/f", "g/h", "g/i"] {
            fs::write(source.join(name), name).unwrap();
        }
        settle();
        Synced { v, source }
    }

    fn records(&self) -> PathBuf {
        self.v.host("cache/syncs")
    }

    /// The paths of all records, with their times.
    fn kept(&self) -> Vec<(PathBuf, SystemTime)> {
        let entries = fs::read_dir(self.records()).into_iter().flatten();
        entries
            .map(|entry| entry.unwrap())
            .map(|entry| (entry.path(), entry.metadata().unwrap().modified().unwrap()))
            .collect()
    }

    /// Syncs an image; returns the number of names that were passed over, of ten.
    fn sync_image(&self, image: &Path, more: &[&str]) -> u64 {
        let (cache, source) = (format!("--cache-dir={}", text(&self.v.host("cache"))), text(&self.source));
        let args = [&["sync", text(image), source, "/in", "--delete", "--json", &cache], more].concat();
        let ran = run(&args).ends(0);
        let last = ran.out().lines().last().expect("an object");
        let object: serde_json::Value = serde_json::from_str(last).expect("JSON");
        assert_eq!(object["compared"], 10, "{object}");
        object["passed_over"].as_u64().expect("a number")
    }

    fn sync(&self, more: &[&str]) -> u64 {
        self.sync_image(&self.v.image, more)
    }

    /// A volume whose last sync has a record that counts; `None` where no sync here has one.
    fn recorded() -> Option<Synced> {
        let synced = Synced::new();
        assert_eq!(synced.sync(&[]), 0);
        if synced.kept().is_empty() {
            eprintln!("SKIPPED: the times of the build folder's file system do not tell every change");
            return None;
        }
        assert_eq!(synced.sync(&[]), 10);
        Some(synced)
    }
}

/// Waits until the host gives other times to changes.
fn settle() {
    let begin = SystemTime::now();
    while SystemTime::now() < begin + Duration::from_millis(150) {
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn content(v: &TestVolume, path: &str) -> Ran {
    v.run("cat", path)
}

#[test]
fn a_sync_passes_over_what_is_as_the_last_one_has_found_it() {
    let Some(synced) = Synced::recorded() else { return };
    let kept = synced.kept();
    assert_eq!(kept.len(), 1);
    assert_eq!(fs::metadata(&kept[0].0).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(synced.sync(&["--dry-run"]), 10);
    assert_eq!(synced.kept(), kept, "nothing has changed, so nothing is written");
    fs::write(synced.source.join("d/e/f"), "other").unwrap();
    settle();
    assert_eq!(synced.sync(&["--dry-run"]), 8);
    assert_eq!(synced.sync(&[]), 8);
    assert_eq!(content(&synced.v, "/in/d/e/f").out(), "other");
    assert_eq!(synced.sync(&[]), 10);
    assert_eq!(synced.sync(&["--checksum"]), 0);
    assert_eq!(synced.sync(&["--threads=1"]), 10);
    synced.v.clean();
}

#[test]
fn without_a_cache_all_names_are_compared() {
    let synced = Synced::new();
    let args = ["sync", text(&synced.v.image), text(&synced.source), "/in", "--json", "--no-cache"];
    for _ in 0..2 {
        assert!(run(&args).ends(0).out().contains("\"passed_over\":0"));
    }
    // A cache that others may write to is not one.
    fs::create_dir(synced.v.host("cache")).unwrap();
    fs::set_permissions(synced.v.host("cache"), fs::Permissions::from_mode(0o777)).unwrap();
    for _ in 0..2 {
        assert_eq!(synced.sync(&[]), 0);
    }
    assert!(!synced.records().exists());
}

#[test]
fn a_source_that_holds_the_cache_has_no_record() {
    let synced = Synced::new();
    let (cache, link) = (synced.source.join("d/cache"), synced.v.host("link"));
    std::os::unix::fs::symlink(&synced.source, &link).unwrap();
    let cache_option = format!("--cache-dir={}", text(&cache));
    for source in [&synced.source, &link, &synced.source.join("d/cache/syncs")] {
        for _ in 0..2 {
            run(&["sync", text(&synced.v.image), text(source), "/in", &cache_option]).ends(0);
        }
    }
    assert_eq!(fs::read_dir(cache.join("syncs")).unwrap().count(), 0);
}

#[test]
fn a_volume_that_was_changed_is_compared_with_all_in_it() {
    let Some(synced) = Synced::recorded() else { return };
    let v = &synced.v;
    let image = text(&v.image);
    let changes: [&[&str]; 4] = [
        &["xattr", image, "set", "user.of", "value", "/in/d/b"],
        &["chmod", image, "600", "/in/g/h"],
        &["rm", image, "/in/d/e/f"],
        // Elsewhere in the volume, too: the record knows of no place.
        &["mkdir", image, "/out"],
    ];
    for change in changes {
        run(change).ends(0);
        assert_eq!(synced.sync(&[]), 0, "{change:?}");
        assert_eq!(synced.sync(&[]), 10, "{change:?}");
        run(&["diff", text(&synced.source), &format!("{image}:/in")]).ends(0);
    }
    // Reading changes nothing.
    v.run("ls", "-l /in").ends(0);
    v.clean();
    assert_eq!(synced.sync(&[]), 10);
}

#[test]
fn a_copy_of_the_image_and_one_that_comes_back_have_no_record() {
    let Some(synced) = Synced::recorded() else { return };
    let image = &synced.v.image;
    let (copy, old) = (synced.v.host("copy.lane"), synced.v.host("old.lane"));
    fs::copy(image, &copy).unwrap();
    fs::copy(image, &old).unwrap();
    assert_eq!(synced.sync_image(&copy, &[]), 0);
    assert_eq!(synced.sync_image(&copy, &[]), 10);
    // Both have had as many sessions.
    for (image, path) in [(image, "/in/d/b"), (&copy, "/in/g/h")] {
        run(&["rm", text(image), path]).ends(0);
    }
    for image in [image, &copy] {
        assert_eq!(synced.sync_image(image, &[]), 0);
    }
    // An old state is written over the image, and has the name of the newer one.
    fs::write(synced.source.join("a"), "newer").unwrap();
    settle();
    assert_eq!(synced.sync(&[]), 8);
    fs::copy(&old, image).unwrap();
    assert_eq!(synced.sync(&[]), 0);
    fs::rename(&old, image).unwrap();
    assert_eq!(synced.sync(&[]), 0);
    assert_eq!(content(&synced.v, "/in/a").out(), "newer");
    synced.v.clean();
}

#[test]
fn a_record_counts_for_one_source_and_the_same_rules() {
    let Some(synced) = Synced::recorded() else { return };
    let other = synced.v.host("other");
    assert!(Command::new("cp").arg("-a").args([&synced.source, &other]).status().unwrap().success());
    let cache = format!("--cache-dir={}", text(&synced.v.host("cache")));
    let sync = |source: &Path, more: &[&str]| {
        let args = [&["sync", text(&synced.v.image), text(source), "/in", "--json", &cache], more].concat();
        let ran = run(&args).ends(0);
        ran.out().contains("\"passed_over\":10")
    };
    // Neither the names that stay nor the other directory are those of the record.
    for (source, more) in
        [(&synced.source, &[][..]), (&other, &["--delete"]), (&synced.source, &["--delete", "--exclude=x"])]
    {
        assert!(!sync(source, more));
    }
    assert!(!sync(&synced.source, &["--delete"]), "the record is that of the last sync");
    assert!(sync(&synced.source, &["--delete"]));
}

#[test]
fn damaged_records_and_strange_ones_do_no_harm() {
    let Some(synced) = Synced::recorded() else { return };
    let path = synced.kept().remove(0).0;
    let good = fs::read(&path).unwrap();
    let mut damaged = good.clone();
    damaged[100] ^= 1;
    for bad in [&damaged[..], &good[..good.len() - 1], b"", b"LFsync1\n", &[0; 4096]] {
        fs::write(&path, bad).unwrap();
        assert_eq!(synced.sync(&[]), 0);
        assert_eq!(synced.sync(&[]), 10);
    }
    // A link and a directory under its name.
    fs::rename(&path, synced.v.host("elsewhere")).unwrap();
    std::os::unix::fs::symlink(synced.v.host("elsewhere"), &path).unwrap();
    assert_eq!(synced.sync(&[]), 0);
    assert!(path.symlink_metadata().unwrap().is_file());
    fs::remove_file(&path).unwrap();
    fs::create_dir(&path).unwrap();
    for _ in 0..2 {
        assert_eq!(synced.sync(&[]), 0);
    }
    assert_eq!(synced.kept().len(), 1, "no part of a record is left");
}

#[test]
fn syncs_at_the_same_time_take_no_change_for_none() {
    let Some(synced) = Synced::recorded() else { return };
    let v = &synced.v;
    let cache = format!("--cache-dir={}", text(&v.host("cache")));
    for round in 0..5 {
        fs::write(synced.source.join("d/e/f"), format!("round {round}")).unwrap();
        fs::write(synced.source.join(format!("g/new-{round}")), "").unwrap();
        fs::remove_file(synced.source.join(format!("g/new-{round}"))).unwrap();
        settle();
        // A volume that another one has open is refused. Those that come later find one that has changed.
        let syncs = [&["--delete"][..], &[], &["--delete", "--threads=1"], &["--delete"]].map(|more| {
            let mut command = program();
            command.args(["sync", text(&v.image), text(&synced.source), "/in", &cache]).args(more);
            command.stderr(Stdio::null()).stdout(Stdio::null()).spawn().unwrap()
        });
        let done = syncs.map(|mut sync| sync.wait().unwrap().success());
        assert!(done.contains(&true), "{done:?}");
        run(&["diff", text(&synced.source), &format!("{}:/in", text(&v.image))]).ends(0);
        synced.sync(&[]);
        assert_eq!(synced.sync(&[]), 10, "round {round}");
    }
    v.clean();
}

#[test]
fn a_sync_that_is_killed_leaves_no_record_of_what_it_has_not_done() {
    let Some(synced) = Synced::recorded() else { return };
    let v = &synced.v;
    let cache = format!("--cache-dir={}", text(&v.host("cache")));
    for round in 0..8 {
        fs::write(synced.source.join("d/e/f"), format!("round {round}")).unwrap();
        settle();
        let mut command = program();
        command.args(["sync", text(&v.image), text(&synced.source), "/in", "--delete", &cache]);
        let mut sync = command.stderr(Stdio::null()).stdout(Stdio::null()).spawn().unwrap();
        std::thread::sleep(Duration::from_millis(round * 12));
        sync.kill().unwrap();
        sync.wait().unwrap();
        // The next one ends with the same, however far it has come.
        synced.sync(&[]);
        assert_eq!(content(v, "/in/d/e/f").out(), format!("round {round}"));
        run(&["diff", text(&synced.source), &format!("{}:/in", text(&v.image))]).ends(0);
    }
    synced.sync(&[]);
    assert_eq!(synced.sync(&[]), 10);
    v.clean();
}

#[test]
fn parts_of_records_are_not_records_and_go() {
    let Some(synced) = Synced::recorded() else { return };
    let record = synced.kept().remove(0).0;
    let bytes = fs::read(&record).unwrap();
    let name = record.file_name().unwrap().to_str().unwrap();
    // A program that was killed leaves what it has written, and its name.
    for number in 0..40 {
        let part = synced.records().join(format!("{name}.{number:032x}"));
        fs::write(part, &bytes[..bytes.len() * number / 40]).unwrap();
    }
    assert_eq!(synced.sync(&[]), 10);
    fs::write(synced.source.join("a"), "other").unwrap();
    settle();
    assert_eq!(synced.sync(&[]), 8);
    assert_eq!(synced.kept().len(), 32);
    assert_eq!(synced.sync(&[]), 10);
    assert_eq!(content(&synced.v, "/in/a").out(), "other");
}

#[test]
fn a_sync_with_a_problem_leaves_no_record() {
    let synced = Synced::new();
    // A directory with names is in the way of a file.
    synced.v.run("mkdir", "--parents /in/a/names").ends(0);
    let cache = format!("--cache-dir={}", text(&synced.v.host("cache")));
    for _ in 0..2 {
        let args = ["sync", text(&synced.v.image), text(&synced.source), "/in", "--json", &cache];
        assert!(run(&args).ends(1).out().contains("\"passed_over\":0"));
    }
    assert!(synced.kept().is_empty());
}

#[test]
fn only_so_many_records_are_kept() {
    let Some(synced) = Synced::recorded() else { return };
    let cache = format!("--cache-dir={}", text(&synced.v.host("cache")));
    for dest in 0..35 {
        let mut command = program();
        command.args(["sync", text(&synced.v.image), text(&synced.source), &format!("/{dest}"), &cache]);
        assert!(command.stderr(Stdio::null()).status().unwrap().success());
    }
    assert_eq!(synced.kept().len(), 32);
}
