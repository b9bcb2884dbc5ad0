//! `lanefs grep` beside ripgrep on the same tree, and `lanefs dups`.

use crate::common::{Ran, TestVolume, run, run_with, text};
use crate::mount::Mounted;
use lanefs_testkit::seeded::Seeded;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A tree of the host, and a volume with the same one in its root directory.
struct Trees {
    v: TestVolume,
    tree: PathBuf,
}

impl Trees {
    /// The sources of this package, and files of all kinds that a search treats in its own way.
    fn new() -> Self {
        let v = TestVolume::sized("128M");
        let tree = v.host("tree");
        let copied = Command::new("cp")
            .args(["-r", concat!(env!("CARGO_MANIFEST_DIR"), "/src"), text(&tree)])
            .status()
            .expect("cp runs");
        assert!(copied.success());
        fs::create_dir_all(tree.join(".hidden/deep")).unwrap();
        let write = |name: &str, content: &[u8]| fs::write(tree.join(name), content).unwrap();
        write(".hidden/deep/file.txt", b"a hidden fn main\nno\n");
        write("empty", b"");
        write("no_newline.md", b"the last line has fn and no newline");
        write("crlf.txt", b"one fn\r\ntwo\r\nthree fn\r\n");
        write("binary_early", b"fn one\n\0fn two\nfn three\n");
        let mut late = b"fn on a line\n".repeat(20_000);
        late.extend_from_slice(b"\0\nfn behind\n");
        write("binary_late", &late);
        write("latin1.txt", b"caf\xe9 fn\nna\xefve\n");
        write(
            "utf16.txt",
            &"fn in UTF-16\nother\n".encode_utf16().flat_map(u16::to_le_bytes).fold(
                vec![0xff, 0xfe],
                |mut bytes, byte| {
                    bytes.push(byte);
                    bytes
                },
            ),
        );
        write("long.txt", &[&b"x".repeat(300_000)[..], b" fn\nshort fn\n"].concat());
        write("large.log", &b"a line of a large file, fn\nanother one\n".repeat(150_000));
        fs::write(tree.join(std::ffi::OsStr::from_bytes(b"name\xff.txt")), b"fn in a strange file\n")
            .unwrap();
        std::os::unix::fs::symlink("empty", tree.join("link")).unwrap();
        run(&["import", text(&v.image), text(&tree), "/"]).ends(0);
        Trees { v, tree }
    }

    /// The output of ripgrep in the tree, with paths as those of the volume, and its exit code.
    fn rg(&self, args: &[&str]) -> (i32, Vec<u8>) {
        let output = Command::new("rg")
            .args([
                "--no-config",
                "--no-mmap",
                "--no-ignore",
                "--hidden",
                "--sort=path",
                "--color=never",
                "--no-heading",
            ])
            .args(args)
            .current_dir(&self.tree)
            .output()
            .expect("ripgrep runs: install the package ripgrep");
        (output.status.code().unwrap_or(-1), output.stdout)
    }

    fn grep(&self, args: &[&str]) -> Ran {
        run(&[&["grep", text(&self.v.image)], args].concat())
    }

    /// Compares a search in all of the tree.
    #[track_caller]
    fn compare(&self, args: &[&str]) {
        let (code, mut expected) = self.rg(&[args, &["./"]].concat());
        // Paths begin with ./ here and with / there.
        expected = replace(&expected, b"./", b"/", !args.contains(&"-I"));
        let found = self.grep(args);
        assert_eq!((found.code, &found.err[..]), (code, ""), "{args:?}");
        assert_lines(&found.bytes, &expected, args);
        assert!(args.contains(&"no such line") || !found.bytes.is_empty(), "{args:?} finds nothing");
    }
}

/// Compares outputs, and shows the first line that differs.
#[track_caller]
fn assert_lines(found: &[u8], expected: &[u8], args: &[&str]) {
    let lines = |bytes: &[u8]| -> Vec<String> {
        let lines = bytes.split(|byte| *byte == b'\n');
        lines.map(|line| String::from_utf8_lossy(&line[..line.len().min(500)]).into_owned()).collect()
    };
    if found != expected {
        let (found, expected) = (lines(found), lines(expected));
        let at = found.iter().zip(&expected).position(|(a, b)| a != b);
        let at = at.unwrap_or(found.len().min(expected.len()));
        panic!("{args:?}, line {at}: {:?}, ripgrep: {:?}", found.get(at), expected.get(at));
    }
}

/// Replaces the beginning of each line, or of each path with a NUL after it.
fn replace(bytes: &[u8], from: &[u8], to: &[u8], replaces: bool) -> Vec<u8> {
    let end = if bytes.contains(&0) { 0 } else { b'\n' };
    let line = |line: &[u8]| match line.strip_prefix(from) {
        Some(rest) if replaces => [to, rest].concat(),
        _ => line.to_vec(),
    };
    let all: Vec<Vec<u8>> = bytes.split(|byte| *byte == end).map(line).collect();
    all.join(&end)
}

#[test]
fn options_have_the_answers_of_ripgrep() {
    let trees = Trees::new();
    for args in [
        &["fn"][..],
        &["-n", "fn main"],
        &["-i", "VOLUME"],
        &["-S", "volume"],
        &["-S", "Volume"],
        &["-w", "fn"],
        &["-x", "}"],
        &["-F", "(&self)"],
        &["-F", "-i", "ERROR::"],
        &["-c", "fn"],
        &["--count-matches", "fn"],
        &["-c", "-o", "fn"],
        &["-l", "fn"],
        &["--files-without-match", "fn"],
        &["-o", r"\w+_failure"],
        &["-n", "-o", "-b", "fn [a-z]+"],
        &["--column", "match"],
        &["-v", "-c", "e"],
        &["-m", "2", "fn"],
        &["-a", "-c", "fn"],
        &["-M", "100", "fn"],
        &["-n", "-A", "2", "fn main"],
        &["-n", "-B", "1", "-A", "3", "impl Drop"],
        &["-C", "2", "unsafe"],
        &["-e", "fn main", "-e", "struct"],
        &["-t", "rust", "use std"],
        &["-T", "rust", "fn"],
        &["-g", "*.txt", "fn"],
        &["-g", "!commands", "fn"],
        &["-g", "/commands/*.rs", "-l", "fn"],
        &["--iglob", "*.MD", "line"],
        &["-t", "rust", "-g", "*.txt", "-l", "fn"],
        &["-0", "-l", "fn"],
        &["-I", "-n", "impl"],
        &[r"caf(?-u:\xe9)"],
        &["na.*ve"],
        &["(?i)utf.16"],
        &["^$", "-c"],
        &["", "-c"],
        &["fn$", "-n"],
        &["no such line"],
    ] {
        trees.compare(args);
    }
    for (pattern, code) in [("fn main", 0), ("no such line", 1)] {
        assert_eq!(trees.grep(&["-q", pattern]).ends(code).bytes, b"");
    }
}

#[test]
fn random_patterns_have_the_answers_of_ripgrep() {
    let trees = Trees::new();
    let mut random = Seeded::new(3);
    let parts =
        ["fn", "e", "[a-f]+", r"\w*", "r.t", "(on|off|le)", "x?", r"\s", "self", "^ *", "$", "[^;]", "é"];
    for _ in 0..60 {
        let count = 1 + random.below(3);
        let pattern: String = (0..count).map(|_| parts[random.below(parts.len() as u64) as usize]).collect();
        let mut args = vec!["-c"];
        for option in ["-i", "-w", "-v", "-a", "-x"] {
            if random.chance(15) {
                args.push(option);
            }
        }
        args.extend(["-e", &pattern]);
        let (code, expected) = trees.rg(&[&args[..], &["./"]].concat());
        let found = trees.grep(&args);
        let expected = replace(&expected, b"./", b"/", true);
        assert_eq!(found.code, code, "{args:?}: {}", found.err);
        assert_lines(&found.bytes, &expected, &args);
    }
}

#[test]
fn named_files_are_searched_whatever_their_names_say() {
    let trees = Trees::new();
    for (args, path) in [
        (&["-n", "fn"][..], "no_newline.md"),
        (&["-H", "fn"], "crlf.txt"),
        (&["fn"], "binary_early"),
        (&["fn"], "binary_late"),
        (&["-c", "fn"], "binary_late"),
        (&["-c", "large"], "large.log"),
        (&["-t", "rust", "fn"], "crlf.txt"),
    ] {
        let (code, expected) = trees.rg(&[args, &[path]].concat());
        let found = trees.grep(&[args, &[path]].concat());
        assert_eq!(found.code, code, "{args:?} {path}: {}", found.err);
        assert_lines(&found.bytes, &expected, args);
    }
    // Several in the order of the command line, one of them missing.
    let found = trees.grep(&["-c", "fn", "/crlf.txt", "/none", "/no_newline.md"]).ends(1).says("/none");
    assert_eq!(found.out(), "/crlf.txt:2\n/no_newline.md:1\n");
}

#[test]
fn headings_colours_and_patterns_from_files() {
    let trees = Trees::new();
    let args = ["--heading", "-n", "fn main", "/main.rs", "/.hidden"];
    let expected = "/main.rs\n";
    let found = trees.grep(&args).ends(0);
    assert!(found.out().starts_with(expected), "{}", found.out());
    assert!(found.out().ends_with("\n\n/.hidden/deep/file.txt\n1:a hidden fn main\n"), "{}", found.out());
    let colored = trees.grep(&["--color", "always", "hidden", "/.hidden"]).ends(0);
    assert!(colored.out().contains("\x1b[") && !found.out().contains('\x1b'));
    let patterns = trees.v.host("patterns");
    fs::write(&patterns, "hidden\r\nthe last\n").unwrap();
    let found = trees.grep(&["-f", text(&patterns), "-l", "/"]).ends(0);
    assert!(found.out().contains("/.hidden/deep/file.txt\n") && found.out().contains("/no_newline.md\n"));
    let args = ["grep", text(&trees.v.image), "-f", "-", "-l", "/"];
    assert_eq!(run_with(&args, b"hidden\r\nthe last\n").ends(0).bytes, found.bytes);
    fs::write(&patterns, "").unwrap();
    trees.grep(&["-f", text(&patterns), "/"]).ends(1);
    let json = trees.grep(&["--json", "hidden", "/.hidden"]).ends(0);
    let kinds: Vec<String> = json.out().lines().map(kind).collect();
    assert_eq!(kinds, ["begin", "match", "end"]);
    assert!(trees.grep(&["--type-list"]).ends(0).out().contains("\nrust: *.rs\n"));
}

fn kind(line: &str) -> String {
    let message: serde_json::Value = serde_json::from_str(line).unwrap();
    message["type"].as_str().unwrap().to_owned()
}

#[test]
fn wrong_words_are_named() {
    let v = TestVolume::new();
    let image = text(&v.image);
    run(&["grep", image]).ends(2).says("PATTERN");
    run(&["grep", image, "a("]).ends(2).says("unclosed group").says("-F");
    run(&["grep", image, "a\\n"]).ends(2).says("not allowed");
    run(&["grep", image, "a", "-t", "nosuch"]).ends(2).says("nosuch").says("--type-list");
    run(&["grep", image, "a", "-g", "a["]).ends(2).says("glob");
    run(&["grep", image, "-f", "/none/patterns"]).ends(4).says("/none/patterns");
    run(&["grep", image, "a", "-c", "-l"]).ends(2).says("cannot be used with");
    run(&["grep", image, "a", "/none"]).ends(1).says("/none: ");
    run(&["grep", "/none/image", "a"]).ends(4).says("/none/image");
    let bad = [b"gr\xffep".as_slice(), b"a"].map(std::ffi::OsStr::from_bytes);
    run(&[std::ffi::OsStr::new("grep"), v.image.as_os_str(), bad[0]]).ends(2).says("is not UTF-8");
}

#[test]
fn equal_files_are_found_and_nothing_is_changed() {
    let v = TestVolume::new();
    let tree = v.host("tree");
    fs::create_dir_all(tree.join("d")).unwrap();
    let write = |name: &str, content: &[u8]| fs::write(tree.join(name), content).unwrap();
    write("a", &[1; 5000]);
    write("d/b", &[1; 5000]);
    write("c", &[2; 5000]);
    write("d/small", b"xy");
    write("small", b"xy");
    write("other", b"xz");
    fs::hard_link(tree.join("a"), tree.join("d/a_again")).unwrap();
    run(&["import", text(&v.image), text(&tree), "/"]).ends(0);
    let before = fs::read(&v.image).unwrap();
    let found =
        run(&["dups", text(&v.image)]).ends(0).says("2 groups; 2 more files than needed: 4.9KB wasted");
    let expected = "5000 bytes, 2 files, 5000 bytes wasted\n  /a\n    = /d/a_again\n  /d/b\n\
                    2 bytes, 2 files, 2 bytes wasted\n  /d/small\n  /small\n";
    assert_eq!(found.out(), expected);
    let nul = run(&["dups", text(&v.image), "-0", "--min-size", "1K"]).ends(0);
    assert_eq!(nul.bytes, b"/a\0/d/b\0\0");
    let json = run(&["dups", text(&v.image), "--json", "/d", "/small"]).ends(0);
    let group: serde_json::Value = serde_json::from_str(json.out().lines().last().unwrap()).unwrap();
    assert_eq!((&group["wasted"], &group["files"][1][0]["path"]), (&2.into(), &"/small".into()));
    assert_eq!(group["hash"].as_str().map(str::len), Some(64));
    assert_eq!(run(&["dups", text(&v.image), "/d/b", "/c"]).ends(0).out(), "");
    run(&["dups", text(&v.image), "/none"]).ends(1).says("/none");
    run(&["dups", text(&v.image), "--min-size", "x"]).ends(2);
    assert!(fs::read(&v.image).unwrap() == before, "nothing is changed");
}

#[test]
fn a_file_that_is_far_larger_than_the_volume_is_left_out_and_named() {
    let v = TestVolume::new();
    let tree = v.host("tree");
    fs::create_dir_all(&tree).unwrap();
    let sparse = fs::File::create(tree.join("sparse")).unwrap();
    sparse.set_len(1 << 40).unwrap();
    fs::write(tree.join("text"), "a line\n").unwrap();
    run(&["import", text(&v.image), text(&tree), "/"]).ends(0);
    let found =
        run(&["grep", text(&v.image), "line"]).ends(1).says("/sparse: has 1.0TB").says("--max-expansion");
    assert_eq!(found.out(), "/text:a line\n");
    run(&["grep", text(&v.image), "-a", "line", "/sparse"]).ends(1).says("/sparse: has 1.0TB");
    run(&["dups", text(&v.image)]).ends(1).says("/sparse: has 1.0TB");
}

#[test]
fn a_line_that_no_memory_should_hold_is_named() {
    let v = TestVolume::sized("128M");
    let tree = v.host("tree");
    fs::create_dir_all(&tree).unwrap();
    let sparse = fs::File::create(tree.join("sparse")).unwrap();
    sparse.set_len(200 << 20).unwrap();
    fs::write(tree.join("text"), "a line\n").unwrap();
    run(&["import", text(&v.image), text(&tree), "/"]).ends(0);
    // Its NULs end it at once as a binary file; as text they are one line.
    assert_eq!(run(&["grep", text(&v.image), "line"]).ends(0).out(), "/text:a line\n");
    let found =
        run(&["grep", text(&v.image), "-a", "line"]).ends(1).says("/sparse: a line has more than 64 MiB");
    assert_eq!(found.out(), "/text:a line\n");
}

#[test]
fn an_output_larger_than_the_memory_of_a_batch_is_whole_and_in_order() {
    let v = TestVolume::sized("128M");
    let tree = v.host("tree");
    fs::create_dir_all(&tree).unwrap();
    let many = b"abc\n".repeat(300_000);
    for name in ["b", "d", "e"] {
        fs::write(tree.join(name), &many).unwrap();
    }
    for name in ["a", "c", "f"] {
        fs::write(tree.join(name), "abc\n").unwrap();
    }
    run(&["import", text(&v.image), text(&tree), "/"]).ends(0);
    let trees = Trees { v, tree };
    for args in [&["-o", "."][..], &["-n", "-C", "1", "b"], &["-n", "-b", "-o", "[ac]"]] {
        trees.compare(args);
    }
}

#[test]
fn globs_are_anchored_at_the_root_whatever_the_form_of_a_path() {
    let trees = Trees::new();
    let expected = trees.grep(&["-l", "fn", "-t", "rust", "-g", "!/commands/**", "/"]).ends(0);
    assert!(!expected.out().contains("/commands/") && expected.out().contains("/main.rs"));
    for path in ["./", "/commands/.."] {
        let found = trees.grep(&["-l", "fn", "-t", "rust", "-g", "!/commands/**", path]).ends(0);
        assert!(!found.out().contains("commands/g"), "{path}: {}", found.out());
        assert_eq!(found.out().lines().count(), expected.out().lines().count(), "{path}");
    }
}

#[test]
fn every_engine_prints_the_same() {
    let trees = Trees::new();
    let tree = trees.v.host("more");
    fs::create_dir_all(&tree).unwrap();
    // With holes, with lines at the ends of pieces that are read, with a line of a whole piece.
    let sparse = fs::File::create(tree.join("sparse")).unwrap();
    sparse.set_len(3 << 20).unwrap();
    sparse.write_all_at(b"\nfn in a hole\n", 1 << 20).unwrap();
    let piece = 4 << 20;
    for (name, at) in [("before", piece - 30), ("on", piece - 3), ("behind", piece + 1), ("last", 2 * piece)]
    {
        let mut content = b"a line\n".repeat(2 * piece / 7 + 10);
        content[at..at + 13].copy_from_slice(b"\nfn border()\n");
        fs::write(tree.join(name), content).unwrap();
    }
    fs::write(tree.join("one_line"), [&b"-".repeat(5 << 20)[..], b"fn border()"].concat()).unwrap();
    run(&["import", text(&trees.v.image), text(&tree), "/more"]).ends(0);
    for args in [
        &["-n", "fn [a-z]+_failure|fn main"][..],
        &["-c", "fn border"],
        &["-a", "-b", "fn in a hole", "/"],
        &["-i", "-w", "-C", "1", "open_DEVICE"],
        &["--json", "caf"],
        &["-q", "no such line"],
        &["-e", "in UTF-16", "-e", "in a strange file", "-c"],
        &["another one", "/binary_late", "/large.log", "/no such file", "-m", "3"],
    ] {
        let by = |engine: &str| {
            let Ran { code, bytes, err, .. } = trees.grep(&[args, &["--engine", engine]].concat());
            // The last message about a file has the time that the search took.
            let has_time = |line: &&[u8]| line.starts_with(b"{\"type\":\"end\"");
            let lines = bytes.split_inclusive(|byte| *byte == b'\n').filter(|line| !has_time(line));
            (code, lines.collect::<Vec<_>>().concat(), err)
        };
        let by_cpu = by("cpu");
        assert!(by("gpu") == by_cpu, "{args:?} differ: {:?}", by_cpu.2);
        assert!(
            by_cpu.0 == 0 || args.contains(&"no such line") || args.contains(&"/no such file"),
            "{args:?}"
        );
    }
    trees.grep(&["fn", "--engine", "gpu", "--device", "no such device"]).ends(4);
}

#[test]
fn every_engine_finds_the_same_files_of_one_content() {
    let v = TestVolume::sized("128M");
    let tree = v.host("tree");
    fs::create_dir_all(&tree).unwrap();
    let mut random = Seeded::new(5);
    let chunks = (3..=40_usize).flat_map(|chunks| [chunks * 1024 - 1, chunks * 1024]);
    let lengths = [0, 1, 63, 64, 65, 1023, 1024, 1025, 2047, 2048, 2049].into_iter().chain(chunks);
    let lengths = lengths.chain([300_000, (4 << 20) - 1, 4 << 20, (4 << 20) + 1]);
    for len in lengths {
        let content: Vec<u8> = (0..len).map(|_| random.below(256) as u8).collect();
        let write = |name: &str, content: &[u8]| {
            fs::write(tree.join(format!("{len:07}-{name}")), content).unwrap();
        };
        write("one", &content);
        write("other", &content);
        // Files that differ in one bit: of the first, of the last, or of any byte.
        for (name, at) in
            [("first", 0), ("last", len.saturating_sub(1)), ("any", random.below(len.max(1) as u64) as usize)]
        {
            let mut content = content.clone();
            if let Some(byte) = content.get_mut(at) {
                *byte ^= 1 << random.below(8);
                write(name, &content);
            }
        }
    }
    run(&["import", text(&v.image), text(&tree), "/"]).ends(0);
    for args in [&["--min-size", "0"][..], &["--json"], &["-0", "--threads", "1"], &["-g", "*2*"], &["/none"]]
    {
        let by = |engine: &str| {
            let Ran { code, bytes, err, .. } =
                run(&[&["dups", text(&v.image), "--engine", engine], args].concat());
            (code, bytes, err)
        };
        let by_cpu = by("cpu");
        assert!(by("gpu") == by_cpu, "{args:?} differ: {:?}", by_cpu.2);
        assert_eq!(by_cpu.0, i32::from(args == ["/none"]), "{args:?}");
    }
    let found = run(&["dups", text(&v.image), "--engine", "gpu"]).ends(0).out().to_owned();
    let groups = found.lines().filter(|line| line.contains(" wasted")).count();
    assert!(groups >= 90, "{groups} groups");
    let device = ["--engine", "gpu", "--device", "no such device"];
    run(&[&["dups", text(&v.image)], &device[..]].concat()).ends(4).says("no such device");
}

/// Returns the output of `lanefs grep` on a terminal.
fn on_a_terminal(volume: &Path, no_color: Option<&str>) -> String {
    let command = format!("{} grep {} word", env!("CARGO_BIN_EXE_lanefs"), text(volume));
    let mut script = Command::new("script");
    script.args(["-qefc", &command, "/dev/null"]).env("SHELL", "/bin/sh").env("TERM", "xterm");
    match no_color {
        Some(value) => script.env("NO_COLOR", value),
        None => script.env_remove("NO_COLOR"),
    };
    let output = script.stdin(Stdio::null()).output().expect("script runs: install the package bsdutils");
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).expect("text")
}

#[test]
fn a_terminal_gets_colors_unless_its_user_wants_none() {
    let m = Mounted::new();
    fs::write(m.path("f"), "a word\n").expect("written");
    for (no_color, is_colored) in [(None, true), (Some(""), true), (Some("1"), false)] {
        let shown = on_a_terminal(&m.dir, no_color);
        assert!(shown.contains("word"), "{shown:?}");
        assert_eq!(shown.contains("\x1b["), is_colored, "NO_COLOR={no_color:?}: {shown:?}");
    }
    m.umount().ends(0);
    for (no_color, is_colored) in [(None, true), (Some("1"), false)] {
        assert_eq!(
            on_a_terminal(&m.v.image, no_color).contains("\x1b["),
            is_colored,
            "NO_COLOR={no_color:?}"
        );
    }
}
