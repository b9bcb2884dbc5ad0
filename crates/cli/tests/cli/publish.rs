//! `lanefs publish`, and every reading command on the URL of a publication.

use crate::common::{Ran, TestVolume, ended, program, run, text, until};
use crate::mount::Mounted;
use crate::server::{Fault, Server};
use std::fs;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};

/// A volume with some files, and the URL of a store that is not there yet.
struct Published {
    v: TestVolume,
    url: String,
}

/// Text that does not compress to nothing.
fn noise(seed: u64, bytes: usize) -> Vec<u8> {
    let mut state = seed;
    let step = || {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 56) as u8
    };
    std::iter::repeat_with(step).take(bytes).collect()
}

impl Published {
    fn prepare() -> Self {
        let v = TestVolume::new();
        let tree = v.host("tree");
        fs::create_dir_all(tree.join("d/e")).unwrap();
        for number in 0..40 {
            fs::write(tree.join(format!("d/f{number}")), noise(number, 300 * number as usize)).unwrap();
        }
        fs::write(tree.join("d/e/large"), noise(99, 3 << 20)).unwrap();
        std::os::unix::fs::symlink("e/large", tree.join("d/link")).unwrap();
        run(&["import", text(&v.image), text(&tree.join("d")), "/d"]).ends(0);
        let url = format!("file://{}", text(&v.host("store")));
        Published { v, url }
    }

    fn new() -> Self {
        let p = Self::prepare();
        p.publish(&[]).ends(0);
        p
    }

    fn publish(&self, more: &[&str]) -> Ran {
        run(&[&["publish", text(&self.v.image), &self.url], more].concat())
    }

    /// Publishes, and returns the report.
    fn report(&self, more: &[&str]) -> serde_json::Value {
        serde_json::from_str(self.publish(&[more, &["--json"]].concat()).ends(0).out()).unwrap()
    }

    /// Runs `lanefs COMMAND URL ARGS` with a cache of this test's own.
    fn there(&self, command: &str, args: &[&str]) -> Ran {
        let cache = self.v.host("cache");
        run(&[&[command, "--cache-dir", text(&cache), &self.url], args].concat())
    }

    /// All objects of the store.
    fn objects(&self) -> Vec<String> {
        let mut names = Vec::new();
        for folder in ["packs", "tags", "versions"] {
            let Ok(entries) = fs::read_dir(self.v.host("store").join(folder)) else { continue };
            let entries = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
            let visible = entries.filter(|name| !name.starts_with('.'));
            names.extend(visible.map(|name| format!("{folder}/{name}")));
        }
        names.sort();
        names
    }
}

#[test]
fn every_reading_command_answers_as_on_the_image() {
    let p = Published::new();
    for (command, args) in [
        ("ls", &["-laRn", "/"][..]),
        ("ls", &["--json", "/d"]),
        ("tree", &["/"]),
        ("find", &["/", "--size", "+5K"]),
        ("du", &["-a", "/"]),
        ("stat", &["/d/f3", "/d/link"]),
        ("lookup", &["--quiet", "--stat", "/d/f3", "/d/link", "/absent", "/d/absent"]),
        ("cat", &["/d/f7", "/d/e/large"]),
        ("xattr", &["list", "/d/f1"]),
        ("fsck", &[]),
        ("scrub", &[]),
        ("inspect", &["inode:2"]),
        ("inspect", &["0x200000"]),
        ("shell", &["-c", "cd /d", "-c", "ls -l", "-c", "pwd"]),
    ] {
        let here = run(&[&[command, text(&p.v.image)], args].concat());
        let there = p.there(command, args);
        assert_eq!(there.code, here.code, "{command}: {}", there.err);
        assert!(there.bytes == here.bytes, "{command} {args:?} {} {there:?}", here.out());
    }
    let there = p.there("info", &[]).ends(0);
    assert!(there.out().contains(&format!("publication {}, version ", p.url)), "{}", there.out());
    assert!(there.out().contains("cache in "), "{}", there.out());
    p.there("export", &["/d", text(&p.v.host("out"))]).ends(0);
    assert_eq!(fs::read(p.v.host("out/e/large")).unwrap(), noise(99, 3 << 20));
    p.there("cp", &[":/d/f9", text(&p.v.host("copy"))]).ends(0);
    assert_eq!(fs::read(p.v.host("copy")).unwrap(), noise(9, 2700));
}

#[test]
fn a_dry_run_tells_what_a_publication_writes_and_writes_nothing() {
    let p = Published::prepare();
    let dry = p.report(&["--dry-run"]);
    assert!(!p.v.host("store").exists());
    let said = p.publish(&["--dry-run"]).ends(0);
    let bytes = dry["written_bytes"].as_u64().unwrap();
    assert!(said.out().contains("would be written: "), "{}", said.out());
    assert!(said.out().contains(&format!("({bytes} bytes)")), "{}", said.out());
    let real = p.report(&[]);
    for key in ["version", "written_bytes", "new_pieces", "kept_pieces", "equal_blocks", "bytes", "blocks"] {
        assert_eq!(dry[key], real[key], "{key}");
    }
    let stored: u64 =
        p.objects().iter().map(|name| fs::metadata(p.v.host("store").join(name)).unwrap().len()).sum();
    assert_eq!(bytes, stored);
    // As it is: nothing more.
    let objects = p.objects();
    let again = p.report(&[]);
    assert_eq!((again["written_bytes"].as_u64(), &again["previous"]), (Some(0), &real["version"]));
    assert!(p.publish(&[]).ends(0).out().contains("is there already"));
    assert_eq!(p.objects(), objects);
}

#[test]
fn a_change_costs_its_blocks_and_old_versions_stay() {
    let p = Published::prepare();
    let first = p.report(&[]);
    p.v.run("mkdir", "/new").ends(0);
    let dry = p.report(&["--dry-run"]);
    let second = p.report(&["--level", "3"]);
    assert_eq!(second["previous"], first["version"]);
    assert_eq!(dry["new_pieces"], second["new_pieces"]);
    let bytes = |report: &serde_json::Value| report["written_bytes"].as_u64().unwrap();
    assert!(bytes(&second) * 20 < bytes(&first), "{second}");
    assert_eq!(p.there("ls", &["/"]).ends(0).out(), "d\nnew\n");
    let old = format!("{}#{}", p.url, first["version"].as_str().unwrap());
    assert_eq!(run(&["ls", &old, "/"]).ends(0).out(), "d\n");
    // A publication can be published elsewhere.
    let elsewhere = format!("file://{}", text(&p.v.host("elsewhere")));
    run(&["publish", &old, &format!("{elsewhere}#old")]).ends(0);
    assert_eq!(run(&["ls", &format!("{elsewhere}#old"), "/d/e"]).ends(0).out(), "large\n");
    run(&["fsck", &format!("{elsewhere}#old")]).ends(0);
    run(&["ls", &elsewhere]).ends(4).says("#latest: there is no such tag");
}

#[test]
fn commands_that_change_refuse_a_publication_by_name() {
    let p = Published::new();
    for (command, args) in [
        ("mkdir", &["/a"][..]),
        ("rmdir", &["/d/e"]),
        ("rm", &["-r", "/d"]),
        ("mv", &["/d", "/e"]),
        ("ln", &["/d/f1", "/d/g"]),
        ("touch", &["/d/f1"]),
        ("truncate", &["-s", "0", "/d/f1"]),
        ("chmod", &["600", "/d/f1"]),
        ("chown", &["1", "/d/f1"]),
        ("chattr", &["+C", "/d/f1"]),
        ("write", &["/d/f1"]),
        ("import", &["/etc/hostname", "/h"]),
        ("cp", &[":/d/f1", ":/d/g"]),
        ("xattr", &["set", "user.a", "b", "/d/f1"]),
        ("grow", &["128M"]),
        ("tune", &["--label", "x"]),
        ("mkfs", &["--size", "64M"]),
        ("mkfs", &[]),
        ("shell", &["-c", "mkdir /a"]),
    ] {
        let refused = p.there(command, args).ends(2);
        assert!(refused.err.contains(&p.url), "{command}: {}", refused.err);
        assert!(refused.err.contains("a publication cannot be changed"), "{command}: {}", refused.err);
        assert!(refused.err.contains("lanefs publish"), "{command}: {}", refused.err);
    }
    p.there("fsck", &["--repair"]).ends(8).says("a publication cannot be changed");
}

#[test]
fn errors_say_what_is_wrong_with_the_url_or_the_store() {
    let p = Published::new();
    let image = text(&p.v.image);
    let at = |name: &str| format!("file://{}", text(&p.v.host(name)));
    let publish = |url: &str| run(&["publish", image, url]);
    publish(&at("none/deeper")).ends(4).says("no directory ").says("check the URL");
    run(&["ls", &at("none")]).ends(4).says("no directory ").says("check the URL");
    fs::write(p.v.host("file"), "").unwrap();
    publish(&at("file")).ends(4).says("no directory ");
    for url in ["ftp://host/a", "file://host/a", "file:///a?b", "file:///a#.b", "store"] {
        publish(url).ends(2).says("lanefs: URL: ");
    }
    run(&["ls", "nfs://host/secret"]).ends(2).says("the scheme nfs is not known; there are file, s3,");
    for url in ["nfs://host/secret", "s3://key:secret@bucket/a", "https://host/a?sig=secret"] {
        for command in [&["ls", url][..], &["publish", image, url], &["mount", url, "/mnt"]] {
            let refused = run(command).ends(2).says("lanefs: URL: ");
            assert!(!format!("{refused:?}").contains("secret"), "{refused:?}");
        }
    }
    run(&["ls", "--endpoint", "http://me:secret@host", "s3://b"]).ends(4).says("the endpoint is not a URL");
    run(&["ls", "--endpoint", "http://host", &p.url]).ends(4).says("has no other endpoint");
    publish("https://127.0.0.1:1/a").ends(4).says("a web server is for reading");
    publish(&format!("{}#{}", p.url, "a".repeat(64))).ends(2).says("a version does not change");
    run(&["publish", "mem:64M", &p.url]).ends(2).says("nothing to publish");
    run(&["publish", text(&p.v.host("absent")), &p.url]).ends(4).says("no such image");
    run(&["ls", &format!("{}#other", p.url)]).ends(4).says("#other: there is no such tag");
    let other = TestVolume::new();
    run(&["publish", text(&other.image), &p.url]).ends(3).says("another volume").says(&p.url);
    if !rustix::process::geteuid().is_root() {
        fs::set_permissions(p.v.host("store"), fs::Permissions::from_mode(0o500)).unwrap();
        publish(&p.url).ends(4).says("Permission denied");
    }
}

#[test]
fn a_store_that_fails_is_named_with_the_object() {
    let p = Published::new();
    let objects = p.objects();
    let pack = |name: &&String| name.starts_with("packs/");
    for name in objects.iter().filter(pack) {
        fs::write(p.v.host("store").join(name), "wrong bytes").unwrap();
    }
    let read = || run(&["cat", "--no-cache", &p.url, "/d/f3"]);
    read().ends(3).says(&format!("{}/packs/", p.url)).says("at byte ");
    fs::remove_dir_all(p.v.host("store/packs")).unwrap();
    read().ends(4).says(&format!("{}/packs/", p.url)).says("no such object");
    // Without the root after it, the tag leads to the object of the root.
    let tag = p.v.host("store/tags/latest");
    fs::File::options().write(true).open(tag).unwrap().set_len(128).unwrap();
    let version = objects.iter().find(|name| name.starts_with("versions/")).unwrap();
    fs::write(p.v.host("store").join(version), "wrong bytes").unwrap();
    read().ends(3).says(version).says("their hash differs");
    fs::write(p.v.host("store/tags/latest"), "wrong bytes").unwrap();
    read().ends(3).says("tags/latest");
}

#[test]
fn the_cache_serves_what_it_has_and_is_private() {
    let p = Published::new();
    let cache = p.v.host("cache");
    assert_eq!(p.there("cat", &["/d/f3"]).ends(0).bytes, noise(3, 900));
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&cache), 0o700);
    for folder in fs::read_dir(&cache).unwrap() {
        let folder = folder.unwrap().path();
        assert_eq!(mode(&folder), 0o700);
        for file in fs::read_dir(folder).unwrap() {
            assert_eq!(mode(&file.unwrap().path()), 0o600);
        }
    }
    fs::remove_dir_all(p.v.host("store/packs")).unwrap();
    assert_eq!(p.there("cat", &["/d/f3"]).ends(0).bytes, noise(3, 900));
    p.there("cat", &["/d/e/large"]).ends(4).says("no such object");

    let open = p.v.host("open");
    fs::DirBuilder::new().mode(0o777).create(&open).unwrap();
    fs::set_permissions(&open, fs::Permissions::from_mode(0o777)).unwrap();
    run(&["ls", "--cache-dir", text(&open), &p.url]).ends(4).says("chmod 700");
    run(&["ls", "--cache-size", "1M", &p.url]).ends(2).says("give at least 256M");
    run(&["ls", "--no-cache", "--cache-dir", text(&open), &p.url]).ends(2);
}

#[test]
fn the_default_cache_is_below_xdg_cache_home() {
    let p = Published::new();
    let base = p.v.host("xdg");
    let ls = |more: &[&str]| {
        let args = [&["ls"][..], more, &[&p.url]].concat();
        program().args(args).env("XDG_CACHE_HOME", &base).output().unwrap()
    };
    assert!(ls(&["--no-cache"]).status.success() && !base.exists());
    assert!(ls(&[]).status.success() && base.join("lanefs").is_dir());
    // A default that cannot be used is one that is missing.
    fs::set_permissions(base.join("lanefs"), fs::Permissions::from_mode(0o755)).unwrap();
    let without = ls(&[]);
    assert!(without.status.success());
    let said = String::from_utf8(without.stderr).unwrap();
    assert!(said.contains("no local cache") && said.contains("--cache-dir"), "{said}");
}

/// A publisher that waits until the test has sent a signal.
fn start(p: &Published) -> Child {
    let child = program()
        .args(["publish", text(&p.v.image), &p.url])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // The handler is there from the beginning of the work on.
    until("the publisher handles SIGINT", || {
        let status = fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap_or_default();
        let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
        let caught = caught.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
        caught.is_some_and(|mask| mask & 1 << 1 != 0)
    });
    child
}

fn signal(child: &Child, name: &str) {
    assert!(Command::new("kill").args([name, &child.id().to_string()]).status().unwrap().success());
}

#[test]
fn ctrl_c_leaves_the_tag_as_it_was() {
    let p = Published::new();
    p.v.run("mkdir", "/new").ends(0);
    let tag = fs::read(p.v.host("store/tags/latest")).unwrap();
    // A lock on all of the image: opening it waits.
    let image = fs::File::options().read(true).write(true).open(&p.v.image).unwrap();
    rustix::fs::fcntl_lock(&image, rustix::fs::FlockOperation::NonBlockingLockExclusive).unwrap();
    let child = start(&p);
    signal(&child, "-INT");
    // It ends while it waits: after the lock it might have published before it heard of the signal.
    let output = child.wait_with_output().unwrap();
    drop(image);
    assert_eq!(output.status.code(), Some(130));
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("interrupted; the tag is as it was"), "{said}");
    assert_eq!(fs::read(p.v.host("store/tags/latest")).unwrap(), tag);
    assert_eq!(p.there("ls", &["/"]).ends(0).out(), "d\n");
    p.publish(&[]).ends(0);
    assert_eq!(p.there("ls", &["/"]).ends(0).out(), "d\nnew\n");
}

#[test]
fn a_killed_publisher_costs_no_upload_of_what_it_wrote() {
    let p = Published::new();
    fs::write(p.v.host("file"), noise(5, 2 << 20)).unwrap();
    p.v.run("import", &format!("{} /file", text(&p.v.host("file")))).ends(0);
    let (before, tag) = (p.objects().len(), fs::read(p.v.host("store/tags/latest")).unwrap());
    // The lock of the tags: a publisher waits for it when all else is written.
    let lock = fs::File::options().write(true).open(p.v.host("store/tags/.lock")).unwrap();
    rustix::fs::flock(&lock, rustix::fs::FlockOperation::LockExclusive).unwrap();
    let mut child = start(&p);
    let versions = |objects: &[String]| objects.iter().filter(|name| name.starts_with("versions/")).count();
    until("the root is written", || versions(&p.objects()) == 2);
    signal(&child, "-KILL");
    assert_eq!(ended(&mut child), None);
    drop(lock);
    assert!(p.objects().len() > before);
    assert_eq!(fs::read(p.v.host("store/tags/latest")).unwrap(), tag);
    let again = p.report(&[]);
    assert_eq!(again["new_pieces"].as_u64(), Some(0), "{again}");
    assert!(again["written_bytes"].as_u64().unwrap() < 64 << 10, "{again}");
    assert_eq!(p.there("cat", &["/file"]).ends(0).bytes, noise(5, 2 << 20));
}

#[test]
fn a_mounted_volume_is_published_while_programs_change_it() {
    let m = Mounted::new();
    fs::write(m.path("large"), noise(1, 6 << 20)).unwrap();
    fs::write(m.path("before"), b"there").unwrap();
    let url = format!("file://{}", text(&m.v.host("store")));
    let number = |round: usize| format!("{round:06}").repeat(5000);
    fs::write(m.path("numbers"), number(0)).unwrap();
    let stop = AtomicBool::new(false);
    let rounds = AtomicUsize::new(0);
    let range = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(SeqCst) {
                // A new file replaces the old one as a whole.
                let round = rounds.load(SeqCst) + 1;
                fs::write(m.path("new"), number(round)).unwrap();
                fs::rename(m.path("new"), m.path("numbers")).unwrap();
                rounds.store(round, SeqCst);
            }
        });
        let ran = std::panic::catch_unwind(|| {
            until("the writer writes", || rounds.load(SeqCst) > 10);
            let first = rounds.load(SeqCst);
            // By the image, and by the mount point.
            run(&["publish", text(&m.v.image), &url]).ends(0);
            let last = rounds.load(SeqCst) + 1;
            run(&["publish", text(&m.dir), &format!("{url}#again"), "--dry-run"]).ends(0);
            first..=last
        });
        stop.store(true, SeqCst);
        ran.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    });
    let read = |path: &str| run(&["cat", "--no-cache", &url, path]).ends(0).bytes;
    let numbers = read("/numbers");
    let found: usize = std::str::from_utf8(&numbers[..6]).unwrap().parse().unwrap();
    assert!(numbers == number(found).as_bytes() && range.contains(&found), "{found} in {range:?}");
    assert_eq!((read("/before"), read("/large")), (b"there".to_vec(), noise(1, 6 << 20)));
    run(&["fsck", "--no-cache", &url]).ends(0);
    run(&["scrub", "--no-cache", &url]).ends(0);
    m.umount().ends(0);
    m.is_clean();
    run(&["publish", text(&m.v.image), &url]).ends(0);
}

#[test]
fn a_mount_without_a_snapshot_says_why_it_is_not_published() {
    let m = Mounted::prepare();
    let url = format!("file://{}", text(&m.v.host("store")));
    run(&["mount", "mem:32M", text(&m.dir)]).ends(0);
    run(&["publish", text(&m.dir), &url]).ends(3).says("a snapshot needs a device");
    m.umount().ends(0);
    // One that is mounted for reading needs none.
    m.mount(&["--read-only"]).ends(0);
    run(&["publish", text(&m.v.image), &url]).ends(0);
    run(&["publish", text(&m.dir), &url]).ends(0);
    m.umount().ends(0);
    let refused = run(&["publish", text(&m.dir), &url]);
    assert_ne!(refused.code, 0, "a directory");
}

/// Unmounts at the end of a test.
struct Unmount<'d>(&'d Path);

impl Drop for Unmount<'_> {
    fn drop(&mut self) {
        run(&["umount", "--lazy", text(self.0)]);
    }
}

#[test]
fn a_publication_is_mounted_for_reading_and_serves_what_is_cached() {
    let p = Published::new();
    let (dir, cache, log) = (p.v.host("mnt"), p.v.host("cache"), p.v.host("log"));
    fs::create_dir(&dir).unwrap();
    let args = ["mount", &p.url, text(&dir), "--cache-dir", text(&cache), "--log", text(&log)];
    let mounted = run(&args).ends(0);
    let _unmount = Unmount(&dir);
    assert!(mounted.out().contains(&format!("{}#latest: mounted on", p.url)), "{}", mounted.out());
    assert_eq!(fs::read(dir.join("d/f3")).unwrap(), noise(3, 900));
    let refused = fs::write(dir.join("d/f3"), "x").unwrap_err();
    assert_eq!(refused.kind(), std::io::ErrorKind::ReadOnlyFilesystem);
    // Commands beside the mount.
    assert_eq!(run(&["cat", text(&dir), "/d/f4"]).ends(0).bytes, noise(4, 1200));
    run(&["mkdir", text(&dir), "/a"]).ends(2).says("a publication cannot be changed");
    let top = run(&["top", text(&dir), "-n", "1", "-i", "0.1"]).ends(0);
    assert!(top.out().contains("store: requests"), "{}", top.out());
    assert!(!top.out().contains("FAILS"), "{}", top.out());

    fs::remove_dir_all(p.v.host("store/packs")).unwrap();
    assert_eq!(fs::read(dir.join("d/f3")).unwrap(), noise(3, 900));
    let gone = fs::read(dir.join("d/e/large")).unwrap_err();
    assert_eq!(gone.raw_os_error(), Some(5), "{gone}");
    let top = run(&["top", text(&dir), "-n", "1", "-i", "0.1"]).ends(0);
    assert!(top.out().contains("the store FAILS"), "{}", top.out());
    let said = fs::read_to_string(&log).unwrap();
    assert!(said.contains(&format!("{}/packs/", p.url)) && said.contains("no such object"), "{said}");
    run(&["umount", text(&dir)]).ends(0);
}

const KEY: &str = "AKIDEXAMPLE";
const SECRET: &str = "K7MDENG+verysecret";

/// Runs the program with credentials, on a server.
fn on_server(server: &Server, args: &[&str]) -> Ran {
    let mut command = program();
    command.args(args).args(["--endpoint", &server.url()]);
    command.env("AWS_ACCESS_KEY_ID", KEY).env("AWS_SECRET_ACCESS_KEY", SECRET);
    let output = command.output().unwrap();
    let err = String::from_utf8(output.stderr).unwrap();
    Ran { code: output.status.code().unwrap_or(-1), bytes: output.stdout, err }
}

#[test]
fn a_bucket_is_published_to_read_and_mounted_and_nothing_keeps_the_credentials() {
    let (p, server) = (Published::prepare(), Server::start());
    let (dir, cache, log) = (p.v.host("mnt"), p.v.host("cache"), p.v.host("log"));
    let (cache, log) = (text(&cache), text(&log));
    let url = "s3://bucket/some/folder";
    let mut said = Vec::new();
    let mut on_server = |args: &[&str], code: i32| {
        let ran = on_server(&server, args).ends(code);
        said.push(format!("{} {ran:?}", String::from_utf8_lossy(&ran.bytes)));
        ran
    };
    on_server(&["publish", text(&p.v.image), url], 0);
    let listed = on_server(&["ls", "--cache-dir", cache, "-R", url, "/"], 0);
    assert_eq!(listed.out(), p.v.run("ls", "-R /").out());
    on_server(&["info", "--cache-dir", cache, url], 0);
    fs::create_dir(&dir).unwrap();
    on_server(&["mount", "--cache-dir", cache, "--log", log, url, text(&dir)], 0);
    let _unmount = Unmount(&dir);
    assert_eq!(fs::read(dir.join("d/f3")).unwrap(), noise(3, 900));
    let body = format!("<Error><Code>AccessDenied</Code>{KEY} {SECRET}</Error>");
    server.plant(move |_| Some(Fault::Answer(403, "X: y", body.clone())));
    assert_eq!(fs::read(dir.join("d/f3")).unwrap(), noise(3, 900));
    assert_eq!(fs::read(dir.join("d/e/large")).unwrap_err().raw_os_error(), Some(5));
    let top = run(&["top", text(&dir), "-n", "1", "-i", "0.1"]).ends(0);
    assert!(top.out().contains("the store FAILS"), "{}", top.out());
    on_server(&["ls", "--no-cache", url], 4).says("403 Forbidden (AccessDenied); check the credentials");
    on_server(&["publish", text(&p.v.image), url], 4).says("403 Forbidden (AccessDenied)");
    server.heal();
    assert_eq!(fs::read(dir.join("d/e/large")).unwrap(), noise(99, 3 << 20));
    run(&["umount", text(&dir)]).ends(0);

    let mut kept = said.concat().into_bytes();
    kept.extend(fs::read(log).unwrap());
    assert!(String::from_utf8_lossy(&kept).contains("AccessDenied"));
    for folder in fs::read_dir(cache).unwrap() {
        for file in fs::read_dir(folder.unwrap().path()).unwrap() {
            let file = file.unwrap().path();
            kept.extend(file.to_string_lossy().bytes());
            kept.extend(fs::read(file).unwrap());
        }
    }
    for path in server.paths() {
        kept.extend(server.object(&path).unwrap());
    }
    for secret in [KEY, SECRET] {
        assert!(!kept.windows(secret.len()).any(|part| part == secret.as_bytes()), "{secret}");
    }
}
