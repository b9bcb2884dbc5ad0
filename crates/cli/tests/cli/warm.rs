//! `lanefs warm`, and the trace of a mount.

use crate::common::{TestVolume, program, run, text, until};
use std::fs;
use std::process::Stdio;

/// A volume of many files, published to a directory. Files in `/d` do not compress.
struct Published {
    v: TestVolume,
    url: String,
    cache: String,
}

const FILES: usize = 100;

impl Published {
    fn new() -> Self {
        let v = TestVolume::new();
        let tree = v.host("tree");
        fs::create_dir_all(tree.join("sub")).unwrap();
        let mut state = 1u64;
        for number in 0..FILES {
            let noise = (0..10_000).map(|_| {
                state = state.wrapping_mul(6364136223846793005).wrapping_add(1);
                (state >> 56) as u8
            });
            fs::write(tree.join(format!("sub/f{number}")), noise.collect::<Vec<u8>>()).unwrap();
        }
        run(&["import", text(&v.image), text(&tree), "/d"]).ends(0);
        let url = format!("file://{}", text(&v.host("store")));
        run(&["publish", text(&v.image), &url]).ends(0);
        let cache = text(&v.host("cache")).to_owned();
        Published { v, url, cache }
    }

    /// Bytes of the cache's files.
    fn cached(&self) -> u64 {
        let folders: Vec<_> =
            fs::read_dir(&self.cache).map(|all| all.flatten().collect()).unwrap_or_default();
        let files = folders.iter().flat_map(|folder| fs::read_dir(folder.path()).unwrap().flatten());
        files.map(|file| file.metadata().unwrap().len()).sum()
    }

    fn warm(&self, args: &[&str]) -> serde_json::Value {
        let common = ["warm", &self.url, "--cache-dir", &self.cache, "--json"];
        let done = run(&[&common, args].concat()).ends(0);
        serde_json::from_str(done.out()).unwrap()
    }

    fn empty(&self) {
        fs::remove_dir_all(&self.cache).unwrap();
    }

    /// Takes the packs away while `work` runs.
    fn without_packs(&self, work: impl FnOnce()) {
        let (packs, away) = (self.v.host("store/packs"), self.v.host("away"));
        fs::rename(&packs, &away).unwrap();
        work();
        fs::rename(&away, &packs).unwrap();
    }
}

#[test]
fn what_was_warmed_is_read_without_the_store() {
    let p = Published::new();
    let first = p.warm(&[]);
    assert_eq!((first["found"].as_u64(), first["failed"].as_u64()), (Some(0), Some(0)), "{first}");
    assert!(first["bytes"].as_u64().unwrap() > 900_000, "{first}");
    let again = p.warm(&[]);
    assert_eq!((&again["found"], &again["pieces"]), (&first["pieces"], &first["pieces"]), "{again}");
    p.without_packs(|| {
        run(&["export", &p.url, "/d", text(&p.v.host("out")), "--cache-dir", &p.cache]).ends(0);
        run(&["cat", &p.url, "/d/sub/f7", "--no-cache"]).ends(4);
    });
    for number in [0, 7, FILES - 1] {
        let name = format!("sub/f{number}");
        assert_eq!(
            fs::read(p.v.host("out").join(&name)).unwrap(),
            fs::read(p.v.host("tree").join(&name)).unwrap()
        );
    }
}

#[test]
fn metadata_and_lists_are_parts() {
    let p = Published::new();
    let all = p.warm(&[])["bytes"].as_u64().unwrap();
    p.empty();
    let metadata = p.warm(&["--metadata"]);
    // Of so small a volume windows with metadata have data, too, which do not compress.
    assert!(metadata["bytes"].as_u64().unwrap() < all / 4, "{metadata} of {all}");
    p.without_packs(|| {
        run(&["ls", "-lR", &p.url, "/", "--cache-dir", &p.cache]).ends(0);
        run(&["cat", &p.url, "/d/sub/f7", "--cache-dir", &p.cache]).ends(4);
    });
    let list = p.v.host("list");
    fs::write(&list, "/d/sub/f7\n\n/d/sub/f80").unwrap();
    let before = p.cached();
    let some = p.warm(&["--list", text(&list)]);
    assert_eq!((some["files"].as_u64(), some["bytes"].as_u64()), (Some(2), Some(20_000)), "{some}");
    assert!(p.cached() > before && p.cached() < before + all, "{some}");
    p.without_packs(|| {
        run(&["cat", &p.url, "/d/sub/f7", "/d/sub/f80", "--cache-dir", &p.cache]).ends(0);
    });
    // A path that is not there is told for a list, and left out of a trace.
    fs::write(&list, "/d/sub/f7\n/gone\n").unwrap();
    let args = ["warm", &p.url, "--cache-dir", &p.cache];
    run(&[&args[..], &["--list", text(&list)]].concat()).ends(1).says("/gone: ");
    let trace = run(&[&args[..], &["--trace", text(&list)]].concat()).ends(0);
    assert!(
        trace.out().contains("in the cache: 1 file, ") && trace.out().contains("1 path could not"),
        "{}",
        trace.out()
    );
    fs::write(&list, vec![b'a'; 5000]).unwrap();
    run(&[&args[..], &["--list", text(&list)]].concat()).ends(4).says("longer than a path");
    run(&["warm", &p.url, "--no-cache"]).ends(2).says("there is no local cache to fill");
    run(&["warm", text(&p.v.image)]).ends(2).says("URL: ");
}

#[test]
fn a_mount_records_what_is_read_for_the_next_one() {
    let p = Published::new();
    let (dir, trace) = (p.v.host("mnt"), p.v.host("trace"));
    fs::create_dir(&dir).unwrap();
    let mount = ["mount", &p.url, text(&dir), "--cache-dir", &p.cache, "--record", text(&trace)];
    run(&mount).ends(0);
    let read = |name: &str| fs::read(dir.join("d/sub").join(name)).unwrap();
    fs::read_dir(dir.join("d/sub")).unwrap().for_each(drop);
    for name in ["f20", "f3", "f20", "f90"] {
        assert_eq!(read(name), fs::read(p.v.host("tree/sub").join(name)).unwrap());
    }
    assert_eq!(fs::read_to_string(&trace).unwrap(), "/d/sub/f20\n/d/sub/f3\n/d/sub/f90\n");
    run(&["umount", text(&dir)]).ends(0);
    // No file is written over.
    run(&mount).ends(4).says("exists already");
    p.empty();
    let done = p.warm(&["--trace", text(&trace)]);
    assert_eq!((done["files"].as_u64(), done["failed"].as_u64()), (Some(3), Some(0)), "{done}");
}

#[test]
fn files_of_a_trace_are_published_side_by_side() {
    let p = Published::new();
    let list = p.v.host("list");
    let paths: String = (0..FILES / 5).map(|number| format!("/d/sub/f{}\n", number * 37 % FILES)).collect();
    // A path that leads to no file has no place.
    fs::write(&list, format!("/gone\n/d\n{paths}")).unwrap();
    let fetched = |url: &str| {
        let read = p.v.host("read");
        fs::write(&read, &paths).unwrap();
        let args = ["warm", url, "--cache-dir", &p.cache, "--json", "--list", text(&read)];
        let done: serde_json::Value = serde_json::from_str(run(&args).ends(0).out()).unwrap();
        let _ = fs::remove_dir_all(&p.cache);
        done["fetched_bytes"].as_u64().unwrap()
    };
    let ordered = format!("file://{}", text(&p.v.host("ordered")));
    run(&["publish", text(&p.v.image), &ordered, "--order", text(&list)]).ends(0);
    let (plain, ordered) = (fetched(&p.url), fetched(&ordered));
    assert!(ordered < plain / 4 * 3, "{ordered} and {plain}");
    let order = ["publish", text(&p.v.image), &p.url, "--order", "/none"];
    run(&order).ends(4).says("/none: ");
}

#[test]
fn ctrl_c_keeps_what_was_fetched_and_says_so() {
    let p = Published::new();
    let mut child = program()
        .args(["warm", &p.url, "--cache-dir", &p.cache, "--list", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // The cache is there when the handler is.
    until("the cache is made", || fs::exists(&p.cache).unwrap());
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    // The end of the list would end the command, too.
    let list = child.stdin.take();
    let output = child.wait_with_output().unwrap();
    drop(list);
    assert_eq!(output.status.code(), Some(130));
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("interrupted; the cache has what was fetched"), "{said}");
}
