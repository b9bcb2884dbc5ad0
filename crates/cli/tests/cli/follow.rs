//! `lanefs mount --follow`, and the options of a mount for publications.

use crate::common::{Ran, TestVolume, run, text, until};
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A volume, the store to which it is published, and a directory where that is mounted.
struct Followed {
    v: TestVolume,
    url: String,
    dir: PathBuf,
    log: PathBuf,
}

impl Followed {
    fn prepare() -> Self {
        let v = TestVolume::new();
        let (url, dir, log) = (format!("file://{}", text(&v.host("store"))), v.host("mnt"), v.host("log"));
        fs::create_dir(&dir).unwrap();
        let f = Followed { v, url, dir, log };
        f.publish("first");
        f
    }

    /// Publishes a version in which all files have the text, and one has its name.
    fn publish(&self, content: &str) {
        let tree = self.v.host("tree");
        let _ = fs::remove_dir_all(&tree);
        fs::create_dir_all(tree.join("in")).unwrap();
        fs::write(tree.join("in/file"), content).unwrap();
        fs::write(tree.join(content), content.repeat(100_000)).unwrap();
        run(&["rm", "-rf", text(&self.v.image), "/d"]).ends(0);
        run(&["import", text(&self.v.image), text(&tree), "/d"]).ends(0);
        run(&["publish", text(&self.v.image), &self.url]).ends(0);
    }

    fn mount(&self, args: &[&str]) -> Ran {
        let cache = self.v.host("cache");
        let common =
            ["mount", &self.url, text(&self.dir), "--cache-dir", text(&cache), "--log", text(&self.log)];
        run(&[&common, args].concat())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    fn reads(&self, content: &str) -> bool {
        fs::read_to_string(self.path("d/in/file")).is_ok_and(|read| read == content)
    }

    fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap()
    }
}

impl Drop for Followed {
    fn drop(&mut self) {
        run(&["umount", "--lazy", text(&self.dir)]);
    }
}

fn whole(file: &File) -> String {
    let mut bytes = vec![0; file.metadata().unwrap().len() as usize];
    file.read_exact_at(&mut bytes, 0).unwrap();
    String::from_utf8(bytes).unwrap()
}

#[test]
fn a_mount_moves_to_each_new_version_and_open_files_stay() {
    let f = Followed::prepare();
    f.mount(&["--follow=1"]).ends(0);
    assert!(f.reads("first") && !f.path("d/second").exists());
    let open = File::open(f.path("d/first")).unwrap();
    f.publish("second");
    until("the second version", || f.reads("second"));
    assert!(!f.path("d/first").exists() && f.path("d/second").exists());
    assert_eq!(whole(&open), "first".repeat(100_000));
    // Commands beside the mount see the new version too.
    assert_eq!(run(&["ls", text(&f.dir), "/d"]).ends(0).out(), "in\nsecond\n");
    let out = f.v.host("out");
    run(&["export", text(&f.dir), "/d", text(&out)]).ends(0);
    assert_eq!(fs::read_to_string(out.join("in/file")).unwrap(), "second");
    assert!(f.log().contains("moved to version "), "{}", f.log());

    // A tag that is away is told once, and the mount goes on.
    let (tag, away) = (f.v.host("store/tags/latest"), f.v.host("away"));
    fs::rename(&tag, &away).unwrap();
    until("the message", || f.log().contains("no newer version: "));
    assert!(f.reads("second"));
    fs::rename(&away, &tag).unwrap();
    f.publish("third");
    until("the third version", || f.reads("third"));
    assert_eq!(f.log().matches("no newer version: ").count(), 1, "{}", f.log());
    let top = run(&["top", text(&f.dir), "--prometheus"]).ends(0);
    assert!(top.out().contains("lanefs_versions 2"), "the first one is in use: {}", top.out());
    drop(open);
    run(&["umount", text(&f.dir)]).ends(0);
}

#[test]
fn a_mount_that_does_not_follow_stays() {
    let f = Followed::prepare();
    f.mount(&[]).ends(0);
    f.publish("second");
    let version = run(&["ls", &f.url, "/d"]).ends(0);
    assert_eq!(version.out(), "in\nsecond\n");
    assert!(f.reads("first"));
    run(&["umount", text(&f.dir)]).ends(0);
}

#[test]
fn only_a_tag_can_be_followed() {
    let f = Followed::prepare();
    let (image, dir) = (text(&f.v.image), text(&f.dir));
    run(&["mount", "--follow", image, dir])
        .ends(2)
        .says("it is not a publication; --follow needs the URL of a tag");
    run(&["mount", "--follow", "mem:64M", dir]).ends(2).says("not a publication");
    let report = run(&["publish", image, &f.url, "--json"]).ends(0);
    let report: serde_json::Value = serde_json::from_str(report.out()).unwrap();
    let url = format!("{}#{}", f.url, report["version"].as_str().unwrap());
    run(&["mount", "-o", "follow", &url, dir]).ends(2).says("names a version, which never changes");
    for bad in ["0", "soon", "99999999"] {
        f.mount(&[&format!("--follow={bad}")]).ends(2).says("follow: give seconds from 1 to");
    }
}

#[test]
fn a_line_of_fstab_follows_and_says_where_the_cache_is() {
    let f = Followed::prepare();
    let helper = f.v.host("mount.fuse.lanefs");
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_lanefs"), &helper).unwrap();
    let cache = f.v.host("own-cache");
    let mount = |options: &str| {
        let mut command = Command::new(&helper);
        command.args([&f.url, text(&f.dir), "-o", options]).output().unwrap()
    };
    let done = mount("cache-size=1K");
    assert_eq!(done.status.code(), Some(1), "{done:?}");
    assert!(String::from_utf8_lossy(&done.stderr).contains("cache-size: give at least"), "{done:?}");
    let done = mount("endpoint=http://localhost:1");
    assert_eq!(done.status.code(), Some(32), "{done:?}");
    assert!(String::from_utf8_lossy(&done.stderr).contains("has no other endpoint"), "{done:?}");
    let done = mount(&format!("ro,_netdev,follow=1,cache-dir={},cache-size=1G", text(&cache)));
    assert_eq!(done.status.code(), Some(0), "{done:?}");
    assert!(f.reads("first"));
    assert!(holds_files(&cache), "pieces in the cache");
    f.publish("second");
    until("the second version", || f.reads("second"));
    run(&["umount", text(&f.dir)]).ends(0);
}

fn holds_files(dir: &Path) -> bool {
    fs::read_dir(dir).is_ok_and(|entries| {
        entries.map(|entry| entry.unwrap().path()).any(|path| path.is_file() || holds_files(&path))
    })
}
