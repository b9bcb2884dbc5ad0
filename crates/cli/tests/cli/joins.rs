//! `lanefs join`, and the commands that work on a join.

use crate::common::{Ran, TestVolume, program, run, run_with, text, until};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// A place for shards, and the URL of their store.
struct Shards {
    home: tempfile::TempDir,
    url: String,
}

impl Shards {
    fn new() -> Self {
        let home = tempfile::tempdir().expect("a temporary directory");
        let url = format!("file://{}", text(&home.path().join("store")));
        Shards { home, url }
    }

    fn host(&self, name: &str) -> PathBuf {
        self.home.path().join(name)
    }

    /// Makes a volume with some files and publishes it as a shard. Returns the file of its receipt.
    fn shard(&self, prefix: &str, content: &str) -> PathBuf {
        let name = prefix.replace('/', "-");
        let (image, tree) = (self.host(&format!("{name}.lane")), self.host(&format!("{name}.tree")));
        let _ = fs::remove_dir_all(&tree);
        fs::create_dir_all(tree.join("dir/empty")).unwrap();
        for file in 0..40 {
            fs::write(tree.join(format!("dir/file-{file}")), format!("{content} {file}\n")).unwrap();
        }
        fs::write(tree.join("large"), content.repeat(50_000)).unwrap();
        run(&["mkfs", text(&image), "--size", "64M", "--family", "f", "--force"]).ends(0);
        run(&["import", text(&image), text(&tree), "/"]).ends(0);
        let receipt = self.host(&format!("{name}.json"));
        let args = ["publish", text(&image), &self.url, "--prefix", prefix, "--receipt", text(&receipt)];
        run(&args).ends(0);
        receipt
    }

    fn join(&self, args: &[&str]) -> Ran {
        run(&[&["join", &self.url], args].concat())
    }

    /// A join of two shards, of which one lies in the other, and a third one.
    fn three() -> Self {
        let shards = Shards::new();
        let receipts = [("/a", "one"), ("/a/dir/empty", "two"), ("/b/c", "three")]
            .map(|(prefix, content)| shards.shard(prefix, content));
        shards.join(&receipts.each_ref().map(|receipt| text(receipt))).ends(0);
        shards
    }

    fn run(&self, command: &str, args: &[&str]) -> Ran {
        run(&[&[command, "--no-cache", &self.url], args].concat())
    }
}

fn json(ran: &Ran) -> Value {
    serde_json::from_str(ran.out()).expect("JSON")
}

#[test]
fn a_shard_gives_a_receipt_and_moves_no_tag() {
    let shards = Shards::new();
    let receipt = shards.shard("/a", "one");
    let there: Value = serde_json::from_slice(&fs::read(&receipt).unwrap()).unwrap();
    assert_eq!((there["prefix"].as_str(), there["files"].as_u64()), (Some("/a"), Some(43)));
    assert!(there["bytes"].as_u64().is_some_and(|bytes| bytes > 0));
    assert!(!shards.host("store/tags").exists());
    // Without a file it is printed.
    let image = shards.host("-a.lane");
    let printed = run(&["publish", text(&image), &shards.url, "--prefix", "/a"]).ends(0);
    assert_eq!(json(&printed), there, "the same volume is the same version");
    let tagged = format!("{}#one", shards.url);
    run(&["publish", text(&image), &tagged, "--prefix", "/a"]).ends(0);
    assert!(shards.host("store/tags/one").exists());
    for prefix in ["a", "/", "/a/../b"] {
        run(&["publish", text(&image), &shards.url, "--prefix", prefix]).ends(3).says("prefix");
    }
    run(&["publish", text(&image), &shards.url, "--receipt", "x"]).ends(2);
    let dry = ["publish", text(&image), &shards.url, "--prefix", "/a", "--receipt", "/no/x", "--dry-run"];
    run(&dry).ends(0);
    // Another volume at the prefix, of another family.
    let plain = TestVolume::new();
    let other = run(&["publish", text(&plain.image), &shards.url, "--prefix", "/b"]).ends(0);
    let both = [fs::read(&receipt).unwrap(), other.bytes].concat();
    run_with(&["join", &shards.url, "-"], &both).ends(3).says("lanefs mkfs --family");
}

#[test]
fn a_join_tells_what_it_has_done_and_the_same_again_does_nothing() {
    let shards = Shards::new();
    let receipts = ["/a", "/b/c"].map(|prefix| shards.shard(prefix, prefix));
    let names = receipts.each_ref().map(|receipt| text(receipt));
    let dry = shards.join(&[&names[..], &["--dry-run"]].concat()).ends(0);
    assert!(dry.out().contains("would be made") && !shards.host("store/tags").exists());
    let made = json(&shards.join(&[&names[..], &["--json"]].concat()).ends(0));
    assert_eq!((made["shards"].as_u64(), made["added"].as_u64()), (Some(2), Some(2)));
    assert!(dry.out().contains(made["version"].as_str().unwrap()));
    let again = shards.join(&names).ends(0);
    assert!(again.out().contains("is there already") && again.out().contains("2 shards: 0 added"));
    // Another version of a shard, and one less.
    let newer = shards.shard("/a", "newer");
    let report = json(&shards.join(&[text(&newer), "--json"]).ends(0));
    assert_eq!((report["replaced"].as_u64(), report["shards"].as_u64()), (Some(1), Some(2)));
    assert_eq!(shards.run("cat", &["/a/dir/file-3"]).ends(0).out(), "newer 3\n");
    shards.join(&["--remove", "/a"]).ends(0);
    shards.join(&["--remove", "/a"]).ends(0).says("/a: the join has no shard to remove there");
    assert_eq!(shards.run("ls", &["/"]).ends(0).out(), "b\n");
    shards.join(&[text(&newer), "--only"]).ends(0);
    assert_eq!(shards.run("ls", &["/"]).ends(0).out(), "a\n");
    // Wrong usage, and receipts that are none.
    shards.join(&[]).ends(2).says("no receipt");
    let version = format!("{}#{}", shards.url, made["version"].as_str().unwrap());
    run(&["join", &version, text(&newer)]).ends(2);
    let bad = shards.host("bad\\.json");
    fs::write(&bad, "\n{\"prefix\":\"/x\"}\n").unwrap();
    shards.join(&[text(&bad)]).ends(2).says("bad\\\\.json:2: is not");
    fs::write(&bad, "\n").unwrap();
    shards.join(&[text(&newer), text(&bad)]).ends(2).says("bad\\\\.json: has no receipt");
    shards.join(&["/no/receipt.json"]).ends(4);
}

#[test]
fn every_reading_command_works_on_a_join() {
    let shards = Shards::three();
    assert_eq!(shards.run("ls", &["/a/dir/empty"]).ends(0).out(), "dir\nlarge\n");
    assert_eq!(shards.run("cat", &["/a/dir/empty/dir/file-1"]).ends(0).out(), "two 1\n");
    let found = shards.run("find", &["/", "--type", "f"]).ends(0);
    assert_eq!(found.out().lines().count(), 3 * 41);
    assert_eq!(shards.run("grep", &["-c", "^three 7$", "/b"]).ends(0).out(), "/b/c/dir/file-7:1\n");
    shards.run("du", &["/"]).ends(0);
    shards.run("info", &[]).ends(0);
    shards.run("map", &["--svg", text(&shards.host("map.svg"))]).ends(0);
    let out = shards.host("out");
    shards.run("export", &["/", text(&out)]).ends(0);
    assert_eq!(fs::read_to_string(out.join("b/c/dir/file-9")).unwrap(), "three 9\n");
    let lookup = |engine: &str| {
        let args = ["lookup", "--no-cache", &shards.url, "--engine", engine, "--stat", "--paths", "-"];
        run_with(&args, found.bytes.as_slice()).ends(0).bytes
    };
    assert!(lookup("gpu") == lookup("cpu"), "a device finds what the processor finds");
    for command in [&["fsck"][..], &["scrub"], &["inspect", "0"]] {
        let ran = run(&[&command[..1], &["--no-cache", &shards.url], &command[1..]].concat());
        assert_ne!(ran.code, 0);
        ran.says("do that with each of them");
    }
    shards.run("mkdir", &["/new"]).ends(2);
    let image = shards.host("pulled.lane");
    run(&["pull", &shards.url, text(&image)]).ends(3).says("lanefs export");
    let single = TestVolume::new();
    run(&["publish", text(&single.image), &shards.url]).ends(3).says("lanefs join");
}

#[test]
fn remote_shows_verifies_compares_tags_and_prunes_joins() {
    let shards = Shards::three();
    let remote = |args: &[&str]| run(&[&["remote"], args].concat());
    let info = remote(&["info", &shards.url]).ends(0);
    assert!(info.out().contains("shards    3") && info.out().contains("  /a/dir/empty\n"), "{}", info.out());
    let info = json(&remote(&["info", &shards.url, "--json"]).ends(0));
    assert_eq!(info["shards"].as_array().unwrap().len(), 3);
    let before = info["version"].as_str().unwrap();
    remote(&["verify", &shards.url]).ends(0);
    remote(&["tag", &shards.url, "kept"]).ends(0);
    let newer = shards.shard("/b/c", "newer");
    shards.join(&[text(&newer)]).ends(0);
    let diff = remote(&["diff", &format!("{}#kept", shards.url), &shards.url]).ends(0);
    assert!(diff.out().lines().all(|line| line.starts_with("M /b/c")), "{}", diff.out());
    assert!(remote(&["ls", &shards.url]).ends(0).out().contains(&format!("{before}  kept")));
    remote(&["prune", &shards.url, "--grace", "0"]).ends(0);
    remote(&["verify", &format!("{}#kept", shards.url)]).ends(0);
    // A shard is damaged: it is named, and the others can be read.
    let version = info["shards"][0]["version"].as_str().unwrap();
    fs::remove_file(shards.host("store/versions").join(version)).unwrap();
    let verified = remote(&["verify", &shards.url]).ends(3);
    assert!(verified.out().contains(version), "{}", verified.out());
    // Both versions have it, so nothing is to be compared there.
    let same = remote(&["diff", &format!("{}#kept", shards.url), &shards.url]).ends(0);
    assert_eq!(same.out(), diff.out());
    assert_eq!(shards.run("cat", &["/b/c/dir/file-0"]).ends(0).out(), "newer 0\n");
    assert_ne!(shards.run("cat", &["/a/large"]).code, 0);
    // A device has the others, too.
    let on_device = shards.run("lookup", &["--engine", "gpu", "--stat", "/b/c/dir/file-0"]).ends(0);
    let by_cpu = shards.run("lookup", &["--engine", "cpu", "--stat", "/b/c/dir/file-0"]).ends(0);
    assert_eq!(on_device.out(), by_cpu.out());
    assert_ne!(shards.run("lookup", &["--engine", "gpu", "/a/large"]).code, 0);
}

#[test]
fn a_mount_of_a_join_follows_its_tag_and_tells_its_space() {
    let shards = Shards::three();
    let (dir, log) = (shards.host("mnt"), shards.host("log"));
    fs::create_dir(&dir).unwrap();
    let mounted = Unmount(dir.clone());
    run(&["mount", &shards.url, text(&dir), "--no-cache", "--follow=1", "--log", text(&log)]).ends(0);
    let read = |path: &str| fs::read_to_string(dir.join(path)).unwrap_or_default();
    assert_eq!(read("a/dir/empty/dir/file-5"), "two 5\n");
    let space = rustix::fs::statvfs(&dir).unwrap();
    assert!(space.f_files >= 3 * 41 && space.f_blocks > space.f_bfree);
    assert!(fs::hard_link(dir.join("a/large"), dir.join("b/c/new")).is_err(), "it is read-only");
    assert!(fs::rename(dir.join("a/large"), dir.join("b/c/new")).is_err());
    let newer = shards.shard("/b/c", "newer");
    shards.join(&[text(&newer)]).ends(0);
    until("the new join", || read("b/c/dir/file-5") == "newer 5\n");
    assert_eq!(read("a/dir/file-5"), "one 5\n");
    drop(mounted);
}

/// Unmounts a directory at the end.
struct Unmount(PathBuf);

impl Drop for Unmount {
    fn drop(&mut self) {
        run(&["umount", "--lazy", text(&self.0)]);
    }
}

/// Starts a task of the array of `scripts/slurm-shard.sh`.
fn task(shards: &Shards, number: usize) -> Child {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/slurm-shard.sh");
    let lanefs = Path::new(env!("CARGO_BIN_EXE_lanefs")).parent().expect("a directory");
    let path = format!("{}:{}", text(lanefs), std::env::var("PATH").unwrap_or_default());
    let (directories, receipts) = (shards.host("directories"), shards.host("receipts"));
    let mut command = Command::new("sh");
    command.arg(script).args([text(&directories), &shards.url, text(&receipts)]).env("PATH", path);
    command.envs(program().get_envs().filter_map(|(name, value)| Some((name, value?))));
    command.env("FAMILY", "f").env("SIZE", "64M").env("TMPDIR", shards.home.path());
    command.env("SLURM_ARRAY_TASK_ID", number.to_string());
    command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("a task")
}

#[test]
fn tasks_of_a_slurm_array_run_in_any_order_twice_and_killed() {
    const TASKS: usize = 6;
    let shards = Shards::new();
    fs::create_dir(shards.host("receipts")).unwrap();
    let source = |number: usize| shards.host(&format!("data/{number}"));
    for number in 1..=TASKS {
        fs::create_dir_all(source(number)).unwrap();
        (0..20).for_each(|i| fs::write(source(number).join(format!("{i}")), format!("{number}")).unwrap());
    }
    let lines: Vec<String> = (1..=TASKS).map(|number| text(&source(number)).to_string()).collect();
    fs::write(shards.host("directories"), lines.join("\n")).unwrap();
    // Tasks in any order, one of them twice at the same time; some are killed somewhere on their way.
    let mut first: Vec<(usize, Child)> = [4, 2, 2, 6, 1].map(|number| (number, task(&shards, number))).into();
    for (number, child) in &mut first {
        if number.is_multiple_of(3) || *number == 1 {
            child.kill().unwrap();
        }
    }
    for (number, child) in first {
        let ended = child.wait_with_output().unwrap();
        let says = String::from_utf8_lossy(&ended.stderr).into_owned();
        assert!(ended.status.success() || number != 4, "{number}: {says}");
    }
    let beyond = task(&shards, TASKS + 1).wait_with_output().unwrap();
    let says = String::from_utf8_lossy(&beyond.stderr);
    assert!(beyond.status.code() == Some(2) && says.contains("line 7 of"), "{says}");
    for number in [6, 5, 3, 1, 2] {
        let ended = task(&shards, number).wait_with_output().unwrap();
        assert!(ended.status.success(), "{number}: {}", String::from_utf8_lossy(&ended.stderr));
    }
    let receipts: Vec<PathBuf> = (1..=TASKS).map(|n| shards.host(&format!("receipts/{n}.json"))).collect();
    let names: Vec<&str> = receipts.iter().map(|path| text(path)).collect();
    shards.join(&names).ends(0);
    for number in 1..=TASKS {
        let path = format!("{}/7", text(&source(number)));
        assert_eq!(shards.run("cat", &[&path]).ends(0).out(), number.to_string());
    }
    run(&["remote", "verify", &shards.url]).ends(0);
}
