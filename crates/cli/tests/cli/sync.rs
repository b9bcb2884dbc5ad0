//! `lanefs sync` and `lanefs diff`: lists, exit codes, volumes that are mounted, publications.

use crate::common::{Ran, TestVolume, ended, program, run, text, until};
use crate::mount::Mounted;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};

fn tree(at: &Path) {
    fs::create_dir_all(at.join("d/e")).unwrap();
    for (name, content) in [("a", "one"), ("d/b", "two"), ("d/e/c.o", "three"), ("d.x", "four")] {
        fs::write(at.join(name), content).unwrap();
    }
    std::os::unix::fs::symlink("a", at.join("link")).unwrap();
}

fn lines(ran: &Ran) -> Vec<&str> {
    ran.out().lines().collect()
}

#[test]
fn a_dry_run_lists_what_a_sync_does_and_a_second_sync_does_nothing() {
    let v = TestVolume::new();
    let source = v.host("source");
    tree(&source);
    let args = [text(&source), "/in"];
    let all = [
        "cd+++++++++ ./",
        ">f+++++++++ a",
        "cd+++++++++ d/",
        ">f+++++++++ d/b",
        "cd+++++++++ d/e/",
        ">f+++++++++ d/e/c.o",
        ">f+++++++++ d.x",
        "cL+++++++++ link",
    ];
    let ran = v.run_with("sync", &[&args[..], &["--dry-run"]].concat(), b"").ends(0);
    assert_eq!(lines(&ran), all);
    assert!(ran.err.contains("dry run: 8 names compared; 8 to add\n"), "{}", ran.err);
    v.run("ls", "/in").ends(1);
    let ran = v.run_with("sync", &[&args[..], &["-i"]].concat(), b"").ends(0);
    assert_eq!(lines(&ran), all);
    assert!(ran.err.contains("synced: 8 names compared; 8 added; 15B copied in "), "{}", ran.err);
    v.run_with("sync", &args, b"").ends(0).says("8 names compared, no difference");
    let ran = v.run_with("sync", &[&args[..], &["--stats"]].concat(), b"").ends(0);
    assert!(ran.out().contains("names compared              8\n"), "{}", ran.out());
    v.clean();
}

#[test]
fn delete_removes_and_filters_leave_out() {
    let v = TestVolume::new();
    let source = v.host("source");
    tree(&source);
    fs::write(v.host("rules"), "# objects\n*.o\n/d.x\n").unwrap();
    let source = text(&source).to_owned();
    let rules = v.host("rules");
    let go = |more: &[&str]| {
        let args = [&[&source[..], "/in", "-i"], more].concat();
        v.run_with("sync", &args, b"").ends(0).out().lines().map(str::to_owned).collect::<Vec<_>>()
    };
    let filtered = ["--filter", text(&rules), "--exclude", "link"];
    assert_eq!(go(&filtered).len(), 5);
    assert_eq!(go(&[&filtered[..], &["--include", "d.x"]].concat()), [">f+++++++++ d.x"]);
    v.run("write", "/in/more").ends(0);
    v.run("write", "/in/more.o").ends(0);
    let top = ".d..t...... ./";
    assert_eq!(go(&filtered), [top]);
    v.run("touch", "/in").ends(0);
    assert_eq!(go(&[&filtered[..], &["--delete"]].concat()), [top, "*deleting   more"]);
    let rest = go(&["--delete"]);
    assert_eq!(rest, [">f+++++++++ d/e/c.o", "cL+++++++++ link", "*deleting   more.o"]);
    v.run_with("diff", &[] as &[&str], b"").ends(2);
    v.run_with("sync", &[&source, "/in", "--filter", "/none"], b"").ends(4).says("/none");
    v.run("sync", "").ends(0);
    v.run_with("sync", &[&source, "/in/a"], b"").ends(1).says("/in/a");
    v.clean();
}

#[test]
fn a_source_that_is_none_removes_nothing() {
    let v = TestVolume::new();
    let source = v.host("source");
    tree(&source);
    v.run_with("sync", &[text(&source), "/in"], b"").ends(0);
    let other = TestVolume::new();
    let (file, archive, loop_link) = (v.host("file"), v.host("tree.tar"), v.host("loop"));
    fs::write(&file, "content").unwrap();
    fs::write(&archive, [0; 10240]).unwrap();
    std::os::unix::fs::symlink(&loop_link, &loop_link).unwrap();
    for (bad, code, words) in [
        ("/none", 4, "cannot sync '/none': No such file or directory"),
        (
            &format!("{}:/none", text(&other.image)),
            1,
            &format!("cannot sync '/none' of {}: ", text(&other.image)),
        ),
        ("/none/v.lane:/d", 4, "cannot sync '/none/v.lane'"),
        (text(&loop_link), 4, "cannot sync"),
        (text(&file), 3, "file: not a LaneFS volume; give a directory, a volume or a URL"),
        (text(&archive), 1, "tree.tar: the archive is empty or has no end"),
        ("file:///none/store", 4, "/none/store"),
    ] {
        let ran = v.run_with("sync", &[bad, "/in", "--delete"], b"");
        assert_eq!(ran.code, code, "{bad}: {}", ran.err);
        assert!(ran.err.contains(words), "{}", ran.err);
    }
    for option in ["--delete", "-n", "--dry-run", "-i", "--publish=file:///none/store"] {
        v.run("sync", option).ends(2).says("is of no use without SRC; name the tree");
    }
    fs::write(&archive, "no archive").unwrap();
    v.run_with("sync", &[text(&archive), "/in", "--delete"], b"").ends(4).says("tree.tar");
    run(&["diff", text(&source), &format!("{}:/in", text(&v.image))]).ends(0);
    v.clean();
}

#[test]
fn a_pattern_that_is_none_is_named() {
    let v = TestVolume::new();
    let source = v.host("source");
    tree(&source);
    fs::write(v.host("rules"), "*.o\n\n# comment\nd/[b\n").unwrap();
    let rules = v.host("rules");
    let at = format!("{}:4: 'd/[b' is not a pattern: ", text(&rules));
    for (option, pattern, words) in [
        ("--exclude", "[", "'[' is not a pattern: unclosed character class"),
        ("--exclude", "a[z-a]", "'a[z-a]' is not a pattern: "),
        ("--include", "d/[b", "'!d/[b' is not a pattern: "),
        ("--include", "{a", "'!{a' is not a pattern: "),
        ("--exclude", "#a", "--exclude '#a': matches nothing"),
        ("--include", " ", "--include ' ': matches nothing"),
        ("--filter", text(&rules), &at),
    ] {
        v.run_with("sync", &[text(&source), "/in", option, pattern], b"").ends(2).says(words);
        run(&["diff", text(&source), text(&v.image), option, pattern]).ends(2).says(words);
    }
    v.run("ls", "/in").ends(1);
}

#[test]
fn options_that_have_no_use_together_are_refused() {
    let v = TestVolume::new();
    let source = v.host("source");
    tree(&source);
    let url = format!("--publish=file://{}", text(&v.host("store")));
    let refused = |more: &[&str]| v.run_with("sync", &[&[text(&source), "/in"], more].concat(), b"").ends(2);
    refused(&["-n", &url]).says("--publish: a dry run has nothing to publish; leave out");
    refused(&["--stats", "--json"]).says("--stats: the last object of --json has these numbers; leave out");
    assert!(!v.host("store").exists());
    v.run("ls", "/in").ends(1);
}

#[test]
fn json_has_an_object_for_each_difference_and_one_for_the_numbers() {
    let v = TestVolume::new();
    let source = v.host("source");
    tree(&source);
    v.run_with("sync", &[text(&source), "/in"], b"").ends(0);
    fs::write(source.join("a"), "longer than before").unwrap();
    v.run("chmod", "700 /in/d").ends(0);
    let args = [text(&source), "/in", "--json", "-n", "--delete"];
    let ran = v.run_with("sync", &args, b"").ends(0);
    let objects: Vec<serde_json::Value> =
        ran.out().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(objects.len(), 3, "{}", ran.out());
    assert_eq!(objects[0]["path"], "a");
    assert_eq!(objects[0]["change"], "replaced");
    assert_eq!(objects[0]["differs"], serde_json::json!(["size", "mtime"]));
    assert_eq!((&objects[1]["type"], &objects[1]["change"]), (&"dir".into(), &"attributes".into()));
    assert_eq!((&objects[2]["replaced"], &objects[2]["compared"]), (&1.into(), &8.into()));
}

#[test]
fn a_volume_that_is_mounted_follows_through_its_server() {
    let m = Mounted::new();
    let source = m.v.host("source");
    tree(&source);
    let sync = |volume: &Path, more: &[&str]| {
        run(&[&["sync", text(volume), text(&source), "/in", "-i", "--delete"], more].concat())
    };
    let dry = sync(&m.v.image, &["-n"]).ends(0);
    assert!(!m.path("in").exists());
    let done = sync(&m.v.image, &[]).ends(0);
    assert_eq!((done.out(), lines(&done).len()), (dry.out(), 8));
    assert_eq!(fs::read(m.path("in/d/b")).unwrap(), b"two");
    // By the directory of the mount, too; a reader that has a file open sees the old content to its end.
    let open = fs::File::open(m.path("in/a")).unwrap();
    fs::write(source.join("a"), "longer than before").unwrap();
    fs::remove_dir_all(source.join("d")).unwrap();
    rustix::fs::lsetxattr(source.join("d.x"), "user.x", b"v", rustix::fs::XattrFlags::empty()).unwrap();
    let ran = sync(&m.dir, &[]).ends(0);
    let expected = [
        ".d..t...... ./",
        ">f.st...... a",
        "*deleting   d/",
        "*deleting   d/b",
        "*deleting   d/e/",
        "*deleting   d/e/c.o",
        ".f........x d.x",
    ];
    assert_eq!(lines(&ran), expected);
    assert_eq!(std::io::read_to_string(open).unwrap(), "one");
    assert_eq!(fs::read(m.path("in/a")).unwrap(), b"longer than before");
    rustix::fs::lremovexattr(source.join("d.x"), "user.x").unwrap();
    assert_eq!(lines(&sync(&m.dir, &[]).ends(0)), [".f........x d.x"]);
    let inside = format!("{}:/in", text(&m.v.image));
    run(&["diff", text(&source), &inside]).ends(0).says("no difference");
    run(&["diff", &inside, text(&source), "--checksum"]).ends(0);
    m.umount().ends(0);
    m.is_clean();
}

#[test]
fn trees_of_every_kind_are_compared() {
    let v = TestVolume::new();
    let source = v.host("source");
    tree(&source);
    v.run_with("sync", &[text(&source)], b"").ends(0);
    let url = format!("file://{}", text(&v.host("store")));
    run(&["publish", text(&v.image), &url]).ends(0);
    let copy = v.host("copy.lane");
    fs::copy(&v.image, &copy).unwrap();
    let trees = [text(&source), text(&v.image), text(&copy), &url];
    for a in trees {
        for b in trees {
            let ran = run(&["diff", a, b, "--checksum"]).ends(0);
            assert_eq!(ran.out(), "", "{a} {b}");
        }
    }
    v.run("rm", "/a").ends(0);
    v.run("chmod", "600 /d/b").ends(0);
    for (a, b, expected) in [
        (text(&copy), text(&v.image), [".d..t...... ./", ">f+++++++++ a", ".f...p..... d/b"]),
        (text(&v.image), &url[..], [".d..t...... ./", "*deleting   a", ".f...p..... d/b"]),
    ] {
        assert_eq!(lines(&run(&["diff", a, b]).ends(1)), expected);
    }
    let part = |tree: &str| format!("{tree}:/d/e");
    run(&["diff", &part(text(&v.image)), &part(&url)]).ends(0);
    run(&["diff", &part(text(&v.image)), text(&source.join("d/e"))]).ends(0);
    // Code 1 means differences, and nothing else does.
    let missing = [format!("{}:/none", text(&copy)), format!("{url}:/none"), "/no/such/tree".to_string()];
    for missing in &missing {
        run(&["diff", missing, text(&source)]).ends(4).says("/no");
        run(&["diff", text(&source), missing]).ends(4).says("/no");
    }
    for (bad, code) in [
        (format!("{}:/a", text(&copy)), 4),
        (format!("{}:/a/b", text(&copy)), 4),
        (format!("{url}#none"), 4),
        (text(&source.join("a")).to_string(), 3),
    ] {
        run(&["diff", &bad, text(&source)]).ends(code);
        run(&["diff", text(&source), &bad]).ends(code);
    }
    run(&["diff", text(&v.image), text(&source), "--filter", "/none"]).ends(4).says("/none");
    // The reader ends after a line, or before it.
    let mut diff =
        program().args(["diff", text(&copy), text(&v.image)]).stdout(Stdio::piped()).spawn().unwrap();
    drop(diff.stdout.take());
    assert_eq!(ended(&mut diff), Some(1));
    // A publication follows nothing, but shows how it would.
    run(&["sync", &url, text(&source), "--dry-run"]).ends(0).says("no difference");
    run(&["sync", &url, text(&source)]).ends(2).says("publication");
    v.clean();
}

#[test]
fn a_volume_follows_volumes_publications_and_mounts_but_not_itself() {
    let m = Mounted::prepare();
    let source = m.v.host("source");
    tree(&source);
    m.v.run_with("sync", &[text(&source), "/from"], b"").ends(0);
    let url = format!("file://{}", text(&m.v.host("store")));
    run(&["publish", text(&m.v.image), &url]).ends(0);
    let copy = m.v.host("copy.lane");
    run(&["mkfs", text(&copy), "--size", "64M"]).ends(0);
    let part = |tree: &str| format!("{tree}:/from");
    let follow = |from: &str, dest: &str| {
        run(&["sync", text(&copy), from, dest, "--delete", "--dry-run"]).ends(0).says("dry run: ");
        run(&["sync", text(&copy), from, dest, "--delete"]).ends(0);
        run(&["diff", text(&source), &format!("{}:{dest}", text(&copy)), "--checksum"]).ends(0);
        run(&["sync", text(&copy), from, dest, "--delete"]).ends(0).says("no difference");
    };
    follow(&part(text(&m.v.image)), "/a");
    follow(&part(&url), "/b");
    // Of a volume that is mounted the server is asked.
    m.mount(&[]).ends(0);
    fs::write(source.join("a"), "more than before").unwrap();
    run(&["sync", text(&m.v.image), text(&source), "/from"]).ends(0);
    follow(&part(text(&m.v.image)), "/a");
    run(&["sync", text(&m.v.image), &part(text(&m.v.image)), "/into"]).ends(2).says("does not follow itself");
    m.umount().ends(0);
    run(&["sync", text(&m.v.image), text(&m.v.image), "/into"]).ends(2).says("does not follow itself");
    let missing = format!("{}:/none", text(&m.v.image));
    run(&["sync", text(&copy), &missing, "/a"]).ends(1).says("/none");
    let archive = m.v.host("tree.tar");
    fs::write(&archive, [0; 10240]).unwrap();
    run(&["sync", text(&copy), text(&archive), "/a"]).ends(1).says("tree.tar: the archive is empty");
    run(&["fsck", text(&copy)]).ends(0);
}

#[test]
fn a_publication_follows_a_sync_with_the_changed_blocks_alone() {
    let m = Mounted::prepare();
    let source = m.v.host("source");
    tree(&source);
    fs::write(source.join("large"), vec![7; 3 << 20]).unwrap();
    let url = format!("file://{}", text(&m.v.host("store")));
    let go = || {
        let args = [text(&source), "/in", "--delete", "--json", "--publish", &url];
        let ran = m.v.run_with("sync", &args, b"").ends(0);
        let objects: Vec<serde_json::Value> =
            ran.out().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(objects.len(), 2, "{}", ran.out());
        run(&["diff", text(&source), &format!("{url}:/in")]).ends(0);
        (objects[1]["previous"].clone(), objects[1]["new_pieces"].as_u64().unwrap())
    };
    let (previous, all) = go();
    assert!(previous.is_null());
    fs::write(source.join("a"), "longer than before").unwrap();
    let (previous, changed) = go();
    assert!(previous.is_string() && changed < all, "{changed} of {all} pieces");
    m.mount(&[]).ends(0);
    fs::remove_file(source.join("d/b")).unwrap();
    let (_, changed) = go();
    assert!(changed < all, "{changed} of {all} pieces");
    m.umount().ends(0);
    let args = [text(&source), "/in", "--publish", "file:///none#tag", "-n"];
    m.v.run_with("sync", &args, b"").ends(2);
    let line = format!("sync {} /in --publish {url}", text(&source));
    m.v.run_with("shell", &["-c", &line], b"").ends(2).says("a session does not publish");
    m.is_clean();
}

/// A sync that follows its source, in a process of its own.
struct Following(Child);

impl Following {
    /// Starts it; returns when the first sync is done.
    fn start(v: &TestVolume, args: &[&str]) -> (Following, PathBuf) {
        let said = v.host("said");
        let child = program()
            .args(["sync", text(&v.image)])
            .args(args)
            .args(["--watch", "--delete"])
            .stdin(Stdio::null())
            .stdout(fs::File::create(v.host("lines")).unwrap())
            .stderr(fs::File::create(&said).unwrap())
            .spawn()
            .unwrap();
        let mut following = Following(child);
        following.says(&said, "watching");
        (following, said)
    }

    fn says(&mut self, said: &Path, what: &str) {
        until(what, || {
            let end = self.0.try_wait().unwrap();
            let text = fs::read_to_string(said).unwrap();
            assert!(text.contains(what) || end.is_none(), "{end:?}: {text}");
            text.contains(what)
        });
    }

    fn end(mut self) {
        crate::impostors::signal(self.0.id(), "-TERM");
        assert_eq!(ended(&mut self.0), Some(0));
    }
}

impl Drop for Following {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Waits until a file of the volume has this content. The volume may be in use for a moment.
fn until_has(v: &TestVolume, path: &str, content: &str) {
    until(path, || {
        let ran = run(&["cat", text(&v.image), path]);
        ran.code == 0 && ran.bytes == content.as_bytes()
    });
}

/// A shell that has the volume open, which a sync or a publication may have for a moment before.
fn shell_on(v: &TestVolume) -> Child {
    loop {
        let out = v.host("shell");
        let mut shell = program()
            .args(["shell", text(&v.image)])
            .stdin(Stdio::piped())
            .stdout(fs::File::create(&out).unwrap())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        // One that cannot open the volume does not read.
        let _ = shell.stdin.as_mut().unwrap().write_all(b"ls /\n");
        let mut has_ended = false;
        until("the shell lists the volume, or ends", || {
            has_ended = shell.try_wait().unwrap().is_some();
            has_ended || fs::read_to_string(&out).unwrap().contains("in\n")
        });
        if !has_ended {
            return shell;
        }
    }
}

#[test]
fn a_watched_source_is_followed_until_a_signal() {
    let v = TestVolume::new();
    let source = v.host("source");
    tree(&source);
    let url = format!("file://{}", text(&v.host("store")));
    let args = [text(&source), "/in", "--publish", &url, "--publish-every", "0", "-i"];
    let (mut following, said) = Following::start(&v, &args);
    until_has(&v, "/in/d/b", "two");
    fs::write(source.join("d/b"), "changed").unwrap();
    fs::create_dir_all(source.join("new/deep")).unwrap();
    fs::write(source.join("new/deep/file"), "new").unwrap();
    until_has(&v, "/in/d/b", "changed");
    until_has(&v, "/in/new/deep/file", "new");
    // Hard links across directories are found, too.
    fs::hard_link(source.join("d/b"), source.join("new/link")).unwrap();
    fs::rename(source.join("new"), source.join("moved")).unwrap();
    until_has(&v, "/in/moved/link", "changed");
    // Another program has the volume for a while.
    let mut shell = shell_on(&v);
    fs::remove_file(source.join("a")).unwrap();
    following.says(&said, "trying again in 1 s");
    drop(shell.stdin.take());
    assert_eq!(ended(&mut shell), Some(0));
    until("the file is removed", || run(&["stat", text(&v.image), "/in/a"]).code == 1);
    // The publication follows as well.
    until("the publication has it", || run(&["stat", &url, "/in/a"]).code == 1);
    following.end();
    let lines = fs::read_to_string(v.host("lines")).unwrap();
    assert!(lines.contains("*deleting   a\n") && lines.contains(" moved/ <- new/\n"), "{lines}");
    // Nothing is left to do, and a file with two names has two.
    v.run_with("sync", &[text(&source), "/in", "--delete"], b"").ends(0).says("no difference");
    v.clean();
}

#[test]
fn a_watch_whose_source_is_gone_names_what_is_not_published() {
    let v = TestVolume::new();
    let source = v.host("source");
    tree(&source);
    let url = format!("file://{}", text(&v.host("store")));
    let args = [text(&source), "/in", "--publish", &url, "--publish-every", "3600"];
    let (mut following, said) = Following::start(&v, &args);
    fs::write(source.join("d/b"), "changed").unwrap();
    until_has(&v, "/in/d/b", "changed");
    fs::rename(&source, v.host("moved")).unwrap();
    assert_eq!(ended(&mut following.0), Some(4));
    let said = fs::read_to_string(said).unwrap();
    assert!(said.contains("the last changes are in the volume, and not published"), "{said}");
    assert!(said.contains("cannot watch"), "{said}");
    v.clean();
}

#[test]
fn only_a_directory_of_the_host_is_followed() {
    let v = TestVolume::new();
    let (image, source) = (text(&v.image), v.host("source"));
    tree(&source);
    run(&["sync", image, &format!("{image}:/"), "/", "--watch"]).ends(2).says("cannot follow SRC");
    run(&["sync", image, text(&v.host("none")), "/", "--watch"]).ends(4);
    run(&["sync", image, text(&source), "/", "--watch", "--dry-run"]).ends(2).says("cannot be used with");
    run(&["sync", image, text(&source), "/", "--watch", "--publish-every", "1"]).ends(2).says("--publish");
    let ran = v.run_with::<&str>("shell", &[], format!("sync {} / --watch\n", text(&source)).as_bytes());
    assert!(ran.code != 0 && ran.err.contains("outside of the shell"), "{}", ran.err);
    v.clean();
}

#[test]
fn a_renamed_file_is_one_line_with_both_names() {
    let v = TestVolume::new();
    let source = v.host("source");
    tree(&source);
    let to = [text(&source), "/in", "--delete"];
    v.run_with("sync", &to, b"").ends(0);
    fs::rename(source.join("d"), source.join("new d")).unwrap();
    fs::rename(source.join("a"), source.join("a\n2")).unwrap();
    let list = ["./", "a\\x0a2 <- a", "new d/ <- d/"];
    let list = [".d..t......", "rf.........", "rd........."].iter().zip(list);
    let mut list: Vec<String> = list.map(|(letters, name)| format!("{letters} {name}")).collect();
    list.sort_by_key(|line| line[12..].to_owned());
    let ran = v.run_with("sync", &[&to[..], &["--dry-run"]].concat(), b"").ends(0);
    assert_eq!(lines(&ran), list);
    let ran = run(&["diff", text(&source), &format!("{}:/in", text(&v.image))]).ends(1);
    assert_eq!(lines(&ran), list);
    let copied = v.run_with("sync", &[&to[..], &["--dry-run", "--no-renames"]].concat(), b"").ends(0);
    assert!(copied.out().contains("*deleting   d/b\n") && !copied.out().contains(" <- "), "{}", copied.out());
    let ran = v.run_with("sync", &[&to[..], &["-i", "--json"]].concat(), b"").ends(0);
    assert!(ran.out().contains(r#""from":"d""#) && ran.out().contains(r#""renamed":2"#), "{}", ran.out());
    v.run_with("sync", &to, b"").ends(0).says("no difference");
    v.clean();
}

fn tar(dir: &Path, archive: &Path, more: &[&str]) {
    let mut command = std::process::Command::new("tar");
    let packed = command.args(more).arg("-cf").arg(archive).arg("-C").arg(dir).arg(".").status().unwrap();
    assert!(packed.success());
}

#[test]
fn a_volume_follows_an_archive_as_its_tree() {
    let v = TestVolume::new();
    let source = v.host("source");
    tree(&source);
    fs::hard_link(source.join("a"), source.join("d/a2")).unwrap();
    let to = |more: &'static [&str]| [&["/in", "-i"], more].concat();
    // The volume has more of the times than the archive. That does not count as a difference.
    v.run_with("sync", &[&[text(&source)], &to(&[])[..]].concat(), b"").ends(0);
    for (name, more) in [("a.tar", &[][..]), ("b.tar.gz", &["-z"]), ("c.tar", &["--format=posix"])] {
        let archive = v.host(name);
        tar(&source, &archive, more);
        let ran = v.run_with("sync", &[&[text(&archive)], &to(&["--delete"])[..]].concat(), b"").ends(0);
        assert_eq!(ran.out(), "", "{name}");
        run(&["diff", text(&archive), &format!("{}:/in", text(&v.image))]).ends(0);
    }
    // A change, a new name, one that is gone, one that has another name.
    fs::write(source.join("a"), "longer").unwrap();
    fs::write(source.join("new"), "new").unwrap();
    fs::remove_file(source.join("d.x")).unwrap();
    fs::rename(source.join("d/e"), source.join("e2")).unwrap();
    let archive = v.host("a.tar");
    tar(&source, &archive, &["--format=posix"]);
    let dry = v.run_with("sync", &[&[text(&archive)], &to(&["--delete", "-n"])[..]].concat(), b"").ends(0);
    let bytes = fs::read(&archive).unwrap();
    let ran = v.run_with("sync", &[&["-"], &to(&["--delete"])[..]].concat(), &bytes).ends(0);
    assert_eq!(lines(&ran), lines(&dry));
    assert!(
        lines(&ran).contains(&"*deleting   d.x") && lines(&ran).contains(&">f+++++++++ new"),
        "{}",
        ran.out()
    );
    run(&["diff", text(&source), &format!("{}:/in", text(&v.image))]).ends(0);
    // One that was cut off between two members removes nothing.
    let end = bytes.iter().rposition(|byte| *byte != 0).unwrap();
    let cut = (end + 1).next_multiple_of(512);
    fs::remove_file(source.join("new")).unwrap();
    v.run("rm", "/in/new").ends(0);
    v.run_with("write", &["/in/more"], b"more").ends(0);
    let ran = v.run_with("sync", &[&["-"], &to(&["--delete"])[..]].concat(), &bytes[..cut]).ends(1);
    assert!(!ran.out().contains("deleting") && ran.err.contains("has no end"), "{} {}", ran.out(), ran.err);
    v.run_with("sync", &[&["-"], &to(&["--delete"])[..]].concat(), b"").ends(4).says("is not a tar archive");
    let ran = v.run_with("sync", &[&["-"], &to(&["--delete"])[..]].concat(), &bytes).ends(0);
    assert!(ran.out().contains("*deleting   more"), "{}", ran.out());
    v.clean();
}

#[test]
fn attributes_that_no_volume_keeps_of_an_archive_are_noted() {
    let v = TestVolume::new();
    let source = v.host("source");
    tree(&source);
    let archive = v.host("lists.tar");
    tar(&source, &archive, &["--format=posix", "--pax-option=SCHILY.acl.ace:=everyone"]);
    let note = "access control lists not kept";
    v.run_with("sync", &[text(&archive), "/in"], b"").ends(0).says(note);
    run(&["diff", text(&archive), &format!("{}:/in", text(&v.image))]).ends(0).says(note);
}

#[test]
fn a_directory_without_a_member_keeps_its_attributes() {
    let v = TestVolume::new();
    let source = v.host("source");
    tree(&source);
    let archive = v.host("files.tar");
    let mut command = std::process::Command::new("tar");
    command.arg("-cf").arg(&archive).arg("-C").arg(&source).args(["d/b", "d/e/c.o"]);
    assert!(command.status().unwrap().success());
    v.run_with("sync", &[text(&archive), "/in"], b"").ends(0);
    v.run("chmod", "700 /in/d").ends(0);
    let ran = v.run_with("sync", &[text(&archive), "/in", "--delete", "-i"], b"").ends(0);
    assert_eq!(ran.out(), "");
    let about = v.run("stat", "/in/d").ends(0);
    assert!(about.out().contains("700"), "{}", about.out());
}
