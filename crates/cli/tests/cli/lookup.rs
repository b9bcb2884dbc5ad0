//! The batch call: order, format, odd names, much input, broken input and output.

use crate::common::{TestVolume, program, text};
use std::io::{Read, Write};
use std::process::Stdio;

fn volume() -> TestVolume {
    let v = TestVolume::new();
    v.run("mkdir", "-p /d").ends(0);
    v.run_with("write", &["/d/f"], b"12345").ends(0);
    v.run("ln", "-s f /d/l").ends(0);
    v.run("chmod", "640 /d/f").ends(0);
    v.run("chown", "3:4 /d/f").ends(0);
    v.run("touch", "-d 1969-12-31T23:59:59.5 /d/f").ends(0);
    v
}

/// The columns of each line.
fn columns(out: &str) -> Vec<Vec<&str>> {
    out.lines().map(|line| line.split('\t').collect()).collect()
}

#[test]
fn answers_come_in_order_with_their_codes() {
    let v = volume();
    let ran = v
        .run_with(
            "lookup",
            &["--paths", "-"],
            b"/d/f\n/none\n\n/none/x\n/d/f/x\nd//./f\n/d/l\n/d/\n/d/f/\nlast",
        )
        .ends(1);
    let rows = columns(ran.out());
    let first: Vec<(&str, &str, &str)> = rows.iter().map(|r| (r[0], r[2], r[3])).collect();
    assert_eq!(first[0], ("0", "file", "5"));
    assert_eq!(first[1], ("4", "-", "-"));
    assert_eq!(first[2], ("4", "-", "-"));
    assert_eq!(first[3], ("5", "-", "-"));
    assert_eq!(first[4], ("9", "-", "-"));
    assert_eq!(first[5], ("0", "file", "5"));
    assert_eq!(first[6], ("0", "file", "5"));
    assert_eq!(rows[7][..3], ["0", rows[7][1], "dir"]);
    assert_eq!(first[8].0, "9");
    let paths: Vec<&str> = rows.iter().map(|r| r[4]).collect();
    assert_eq!(paths, ["/d/f", "/none", "", "/none/x", "/d/f/x", "d//./f", "/d/l", "/d/", "/d/f/", "last"]);
    assert!(
        ran.err.contains("10 paths (6 not found)") && ran.err.contains("resolve_batch alone"),
        "{}",
        ran.err
    );
    assert_eq!(rows[0][1], rows[5][1]);
}

#[test]
fn every_engine_gives_the_same_bytes() {
    let v = volume();
    let asked = "--stat --quiet /d/f /d/l /d/l/ /none /d/../d/./f d";
    let ran = |engine: &str| v.run("lookup", &format!("--engine {engine} {asked}")).ends(1).out().to_owned();
    let by_cpu = ran("cpu");
    assert_eq!(by_cpu.lines().count(), 6);
    assert_eq!(ran("auto"), by_cpu);
    // `make setup` gives every machine a device.
    assert_eq!(ran("gpu"), by_cpu);
}

#[test]
fn every_engine_finds_the_same_in_the_same_order() {
    let v = volume();
    for (i, name) in ["a.txt", "b.TXT", "c.txt", "e{1}", "é.txt"].into_iter().enumerate() {
        v.run_with("write", &[&format!("/d/{name}")], &vec![b'x'; i * 4]).ends(0);
        v.run("mkdir", &format!("-p /deep/{i}/below")).ends(0);
        v.run_with("write", &[&format!("/deep/{i}/below/{name}")], b"").ends(0);
    }
    v.run("mkdir", "-p /deep/empty").ends(0);
    v.run("touch", "-d 2001-02-03T04:05:06 /d/a.txt").ends(0);
    for conditions in [
        "/",
        "--name *.txt",
        "--iname *.txt --type f",
        "--name [!b-c]*.* --size +2",
        "--name {a,b}.*",
        "--name **",
        "--path */below/* --type f,d",
        "--type f --empty --json",
        "--type d --empty /deep /d",
        "--mtime +30",
        "--mtime -1 --type f --mindepth 3 -0",
        "--newer /d/a.txt --maxdepth 2",
        "--size 4096 /deep",
        "/d/a.txt --name *.txt",
        "--type l",
    ] {
        let ran = |engine: &str| v.run("find", &format!("--engine {engine} {conditions}")).ends(0);
        let (by_cpu, by_gpu) = (ran("cpu"), ran("gpu"));
        assert_eq!(by_gpu.bytes, by_cpu.bytes, "{conditions}: {}", String::from_utf8_lossy(&by_cpu.bytes));
        assert_eq!(ran("auto").bytes, by_cpu.bytes, "{conditions}");
        assert!(!by_cpu.bytes.is_empty(), "{conditions}");
    }
}

#[test]
fn every_engine_lists_and_counts_the_same() {
    let v = volume();
    for i in 0..40 {
        v.run("mkdir", &format!("-p /deep/{}/{i}", i % 3)).ends(0);
        v.run_with("write", &[&format!("/deep/{}/{i}/file", i % 3)], &vec![b'x'; i * 100]).ends(0);
    }
    v.run("ln", "/d/f /deep/again").ends(0);
    for (command, asked) in [
        ("ls", "-laR"),
        ("ls", "-lR /deep /d"),
        ("ls", "-A /d /deep/1 /d/f"),
        ("ls", "--json -R"),
        ("du", "-a"),
        ("du", "-b /deep /d /d/f"),
        ("du", "-s -h -c / /deep"),
    ] {
        let ran = |engine: &str| v.run(command, &format!("--engine {engine} {asked}")).ends(0);
        let (by_cpu, by_gpu) = (ran("cpu"), ran("gpu"));
        assert_eq!(by_gpu.bytes, by_cpu.bytes, "{command} {asked}");
        assert_eq!(ran("auto").bytes, by_cpu.bytes, "{command} {asked}");
        assert!(!by_cpu.bytes.is_empty(), "{command} {asked}");
    }
}

#[test]
fn stat_links_and_json() {
    let v = volume();
    let ran = v.run("lookup", "--stat --quiet /d/f /none").ends(1);
    assert_eq!(ran.err, "");
    let rows = columns(ran.out());
    assert_eq!(rows[0][2..], ["file", "5", "0640", "1", "3", "4", "-0.500000000", "/d/f"]);
    assert_eq!(rows[1], ["4", "-", "-", "-", "-", "-", "-", "-", "-", "/none"]);
    assert_eq!(columns(v.run("lookup", "--no-follow /d/l").ends(0).out())[0][2], "symlink");
    assert_eq!(columns(v.run("lookup", "--engine cpu /d/l").ends(0).out())[0][2], "file");
    let json = v.run("lookup", "--json --stat /d/f /none").ends(1);
    let lines: Vec<serde_json::Value> =
        json.out().lines().map(|l| serde_json::from_str(l).unwrap()).collect();
    assert_eq!(
        (&lines[0]["code"], &lines[0]["size"], &lines[0]["mode"]),
        (&0.into(), &5.into(), &"0640".into())
    );
    assert_eq!(lines[1]["error"], "not found");
    assert!(lines[1]["inode"].is_null());
}

#[test]
fn odd_names_survive() {
    let v = TestVolume::new();
    let names: [&[u8]; 4] = [b"new\nline", b"tab\t", b"back\\slash", b"\xc3\x28"];
    let mut input = Vec::new();
    for name in names {
        let path = std::ffi::OsStr::new("/").to_os_string();
        let path = [std::os::unix::ffi::OsStrExt::as_bytes(path.as_os_str()), name].concat();
        v.run_with("mkdir", &[<std::ffi::OsStr as std::os::unix::ffi::OsStrExt>::from_bytes(&path)], b"")
            .ends(0);
        input.extend_from_slice(&path);
        input.push(0);
    }
    let ran = v.run_with("lookup", &["-0", "--paths", "-"], &input).ends(0);
    let paths: Vec<&str> = columns(ran.out()).iter().map(|row| row[4]).collect();
    assert_eq!(paths, ["/new\\x0aline", "/tab\\x09", "/back\\\\slash", "/\\xc3("]);
    // `lookup` reads the output of `find`.
    let found = v.run("find", "-0").ends(0);
    assert_eq!(columns(v.run_with("lookup", &["-0", "--paths", "-"], &found.bytes).ends(0).out()).len(), 5);
}

#[test]
fn much_input_keeps_its_order() {
    let v = volume();
    let mut input = String::new();
    let total = 400_000;
    for n in 0..total {
        input.push_str(&if n % 3 == 0 {
            format!("/d/../d/./f{}\n", "/.".repeat(n % 2))
        } else {
            format!("/d/none-{n}\n")
        });
    }
    assert!(input.len() > 5 << 20, "several pieces");
    let list = v.host("list");
    std::fs::write(&list, &input).unwrap();
    for threads in ["1", "4"] {
        let ran = v.run("lookup", &format!("--paths {} --threads {threads}", text(&list))).ends(1);
        assert!(ran.err.contains(&format!("{total} paths")), "{}", ran.err);
        let mut expected = input.lines();
        for line in ran.out().lines() {
            assert_eq!(line.rsplit('\t').next(), expected.next());
        }
        assert_eq!(expected.next(), None);
    }
}

#[test]
fn empty_and_bad_input() {
    let v = volume();
    let ran = v.run_with("lookup", &["--paths", "-"], b"").ends(0);
    assert!(ran.bytes.is_empty() && ran.err.contains("0 paths"));
    v.run("lookup", "").ends(2);
    v.run("lookup", "-0 /d").ends(2);
    v.run("lookup", "--engine tpu /d").ends(2);
    v.run("lookup", "--paths /no/such/list").ends(4).says("/no/such/list");
    v.run("lookup", "--paths /tmp").ends(4).says("is a directory");
    v.run("lookup", "--paths /proc/self/mem").ends(4).says("/proc/self/mem");
    // Paths of a file precede those of the command line.
    let list = v.host("list");
    std::fs::write(&list, "/d\n").unwrap();
    let ran = v.run("lookup", &format!("--paths {} /d/f", text(&list))).ends(0);
    assert_eq!(columns(ran.out()).iter().map(|row| row[4]).collect::<Vec<_>>(), ["/d", "/d/f"]);
    // A path longer than any piece.
    let long = [b"/d".repeat(3 << 20), b"\n/d\n".to_vec()].concat();
    let ran = v.run_with("lookup", &["--paths", "-"], &long).ends(1);
    assert_eq!(ran.out().lines().count(), 2);
}

#[test]
fn a_closed_pipe_ends_it_quietly() {
    let v = volume();
    let paths = "/d/f\n".repeat(1_000_000);
    let list = v.host("list");
    std::fs::write(&list, paths).unwrap();
    let mut child = program()
        .args(["lookup", text(&v.image), "--paths", text(&list)])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut first = [0; 10];
    child.stdout.take().unwrap().read_exact(&mut first).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), String::from_utf8_lossy(&output.stderr).as_ref()), (Some(0), ""));
}

#[test]
fn a_closed_output_ends_it_while_the_input_waits() {
    let v = volume();
    let mut child = program()
        .args(["lookup", text(&v.image), "--paths", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let mut stdin = child.stdin.take().unwrap();
    // The program may end before it has read everything.
    let _ = stdin.write_all("/d/f\n".repeat(2_000_000).as_bytes());
    assert_eq!(child.wait().unwrap().code(), Some(0));
    drop(stdin);
}
