//! `lanefs pick` beside fzf, and on a terminal; `lanefs find --fuzzy`.

use crate::common::{TestVolume, ended, run_with, text, until};
use lanefs_testkit::seeded::Seeded;
use parking_lot::Mutex;
use std::collections::BTreeSet;
use std::fs;
use std::io::{Read, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::Arc;

const WORDS: &[&str] = &[
    "src", "main", "fooBar", "x86_64", "README", "a", "élan", "naïve", "o o", "日本", "mod", ".rs", ".txt",
    "2024",
];

/// A volume with names of a few words.
fn volume() -> TestVolume {
    let v = TestVolume::new();
    let mut random = Seeded::new(7);
    let mut lines = String::new();
    let mut dirs = vec![String::new()];
    for number in 0..400 {
        let name: String = (0..random.between(1, 3)).map(|_| *random.pick::<&str>(WORDS)).collect();
        let path = format!("{}/{name}{number}", random.pick(&dirs));
        match random.chance(15) {
            true => {
                lines += &format!("mkdir '{path}'\n");
                dirs.push(path);
            }
            false => lines += &format!("touch '{path}'\n"),
        }
    }
    v.run_with("shell", &[] as &[&str], lines.as_bytes()).ends(0);
    v
}

/// The paths of a list, without regard to its order.
fn set(bytes: &[u8]) -> BTreeSet<String> {
    String::from_utf8_lossy(bytes).lines().map(str::to_owned).collect()
}

/// The paths that fzf chooses.
fn fzf(list: &[u8], query: &str) -> BTreeSet<String> {
    let mut child = Command::new("fzf")
        .args(["--filter", query])
        .env_remove("FZF_DEFAULT_OPTS")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("fzf runs: install the package fzf");
    let mut stdin = child.stdin.take().expect("a pipe");
    let list = list.to_vec();
    let writer = std::thread::spawn(move || drop(stdin.write_all(&list)));
    let output = child.wait_with_output().expect("fzf ends");
    writer.join().expect("no panic");
    set(&output.stdout)
}

#[test]
fn the_paths_that_match_are_those_of_fzf() {
    let v = volume();
    let list = v.run("pick", "").ends(0).bytes;
    let paths: Vec<String> = set(&list).into_iter().collect();
    assert!(paths.len() > 300);
    let mut random = Seeded::new(8);
    let mut queries: Vec<String> = [
        "'src",
        "^/src",
        "rs$",
        "!src",
        "foo | 2024",
        "!a !o",
        "^/a main | .rs$",
        "naive",
        "naïve",
        "o\\ o",
        "^/$",
    ]
    .map(String::from)
    .to_vec();
    for _ in 0..50 {
        let mut query = String::new();
        for word in 0..random.between(1, 3) {
            let path = random.pick(&paths).clone();
            let keep = *random.pick(&[15, 40, 90]);
            let letters: String = path.chars().filter(|c| random.chance(keep) && *c != ' ').collect();
            let letters = if random.chance(50) { letters.to_lowercase() } else { letters };
            query += if word == 0 { "" } else { *random.pick::<&str>(&[" ", " ", " | "]) };
            query += *random.pick::<&str>(&["", "", "", "'", "^", "!"]);
            query += &letters;
            query += if random.chance(10) { "$" } else { "" };
        }
        queries.push(query);
    }
    // The shell asks all of them in one process.
    let mut hits = 0;
    let lines: String = queries
        .iter()
        .map(|query| {
            let quoted: String =
                query.replace('\\', "\\\\").replace('"', "\\\"").replace('\'', "\\'").replace(' ', "\\ ");
            format!("pick --filter={quoted}\ncat /mark\n")
        })
        .collect();
    v.run_with("write", &["/mark"], b"--mark--\n").ends(0);
    let answers = v.run_with("shell", &["--read-only"], lines.as_bytes());
    let answers = String::from_utf8(answers.bytes).expect("text");
    let answers: Vec<&str> = answers.split("--mark--\n").collect();
    assert_eq!(answers.len(), queries.len() + 1);
    let list = v.run("pick", "").ends(0).bytes;
    for (query, answer) in queries.iter().zip(answers) {
        let found = set(answer.as_bytes());
        hits += found.len();
        assert_eq!(found, fzf(&list, query), "{query:?}");
    }
    assert!(hits > 500, "{hits}");
}

#[test]
fn a_fuzzy_search_has_conditions_an_order_and_a_limit() {
    let v = TestVolume::new();
    let script =
        "mkdir -p /src/main /doc\ntouch /src/main/deep.rs /src/main.rs /doc/s_r_c_m_a_i_n.rs /doc/other\n";
    v.run_with("shell", &[] as &[&str], script.as_bytes()).ends(0);
    v.run_with("write", &["/src/main.txt"], b"content").ends(0);
    let find = |args: &str| v.run("find", args).ends(0).out().to_string();
    assert_eq!(
        find("/ --fuzzy srcmain"),
        "/src/main\n/src/main.rs\n/src/main.txt\n/src/main/deep.rs\n/doc/s_r_c_m_a_i_n.rs\n"
    );
    assert_eq!(find("/ --fuzzy srcmain --type f --limit 2"), "/src/main.rs\n/src/main.txt\n");
    assert_eq!(find("/ --fuzzy srcmain --size +0 --type f"), "/src/main.txt\n");
    assert_eq!(find("/src --fuzzy main --maxdepth 1 --type d"), "/src/main\n");
    // As `pick --filter`, it tells by its code that nothing matched.
    for nothing in ["/ --fuzzy zzzz", "/ --fuzzy srcmain --type l"] {
        assert_eq!(v.run("find", nothing).ends(1).out(), "", "{nothing}");
    }
    v.run("find", "/ --fuzzy srcmain --limit 0").ends(0);
    assert_eq!(find("--fuzzy src$"), "./src\n");
    let json: serde_json::Value = serde_json::from_str(&find("/ --fuzzy main.txt --json")).expect("JSON");
    assert_eq!((json["path"].as_str(), json["size"].as_u64()), (Some("/src/main.txt"), Some(7)));
    assert!(json["score"].as_u64() > Some(100));
    v.run("find", "/none --fuzzy x").ends(1).says("/none");
    v.run("find", "/ --limit 3").ends(2).says("--fuzzy");
    v.run("pick", "zzz").ends(1);
    v.run("pick", &format!("--filter {}", "a".repeat(500))).ends(2).says("characters");
    assert_eq!(v.run("pick", "dotr --limit 1").ends(0).out(), "/doc/other\n");
    assert_eq!(v.run("pick", "--filter other --in /doc -0").ends(0).out(), "/doc/other\0");
    assert_eq!(run_with(&["pick", "mem:16M", "x"], b"").ends(1).out(), "");
}

/// The flags of a terminal as `stty -g` prints them. The speed of input is left out: where it was that of the
/// output, a program that sets any flag makes it a value of its own.
fn mode(text: &str) -> Vec<String> {
    let mut fields: Vec<String> = text.trim().split(':').map(str::to_owned).collect();
    let control = u32::from_str_radix(&fields[2], 16).expect("control flags");
    fields[2] = format!("{:x}", control & !0x100f_0000);
    fields
}

/// A picker on a terminal of its own.
struct Session {
    script: Child,
    keys: ChildStdin,
    screen: Arc<Mutex<Vec<u8>>>,
    v: TestVolume,
}

impl Session {
    fn new(args: &str) -> Self {
        let v = TestVolume::new();
        let script = "mkdir -p /dir\ntouch /dir/alpha /dir/beta /gamma /dir/alphabet\n";
        v.run_with("shell", &[] as &[&str], script.as_bytes()).ends(0);
        let name = |name: &str| text(&v.host(name)).to_owned();
        let command = format!(
            "stty rows 12 cols 60; stty -g > {before}; {program} pick {image} {args} > {out}; \
             echo $? > {code}; stty -g > {after}",
            program = env!("CARGO_BIN_EXE_lanefs"),
            image = text(&v.image),
            before = name("before"),
            out = name("out"),
            code = name("code"),
            after = name("after"),
        );
        let mut script = Command::new("script")
            .args(["-qefc", &command, "/dev/null"])
            .env("SHELL", "/bin/sh")
            .env("TERM", "xterm")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("script runs: install the package bsdutils");
        let keys = script.stdin.take().expect("a pipe");
        let mut output = script.stdout.take().expect("a pipe");
        let screen = Arc::new(Mutex::new(Vec::new()));
        let seen = screen.clone();
        std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(count @ 1..) = output.read(&mut buffer) {
                seen.lock().extend_from_slice(&buffer[..count]);
            }
        });
        Session { script, keys, screen, v }
    }

    /// Waits until the screen has shown a text since the last call.
    #[track_caller]
    fn shows(&self, part: &str) {
        until(part, || {
            let mut screen = self.screen.lock();
            let at = screen.windows(part.len()).position(|window| window == part.as_bytes());
            at.map(|at| screen.drain(..at + part.len())).is_some()
        });
    }

    fn press(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).expect("a key");
        self.keys.flush().expect("a key");
    }

    /// The exit code and output. Asserts that the terminal is as before.
    #[track_caller]
    fn end(mut self) -> (String, String) {
        self.shows("\x1b[?1049l");
        let file = |name: &str| fs::read_to_string(self.v.host(name)).unwrap_or_default();
        until("the end", || file("after").ends_with('\n'));
        assert_eq!(mode(&file("after")), mode(&file("before")), "the mode of the terminal");
        let result = (file("code").trim().to_owned(), file("out"));
        drop(self.keys);
        ended(&mut self.script);
        result
    }

    /// The process of the picker.
    fn process(&self) -> rustix::process::Pid {
        let image = text(&self.v.image).to_owned();
        let mut found = None;
        until("the picker runs", || {
            let processes = fs::read_dir("/proc").expect("/proc");
            let numbers =
                processes.filter_map(|process| process.ok()?.file_name().to_str()?.parse::<i32>().ok());
            found = numbers
                .filter(|number| {
                    let line = fs::read(PathBuf::from(format!("/proc/{number}/cmdline"))).unwrap_or_default();
                    let mut words = line.split(|byte| *byte == 0);
                    words.next().is_some_and(|first| first == env!("CARGO_BIN_EXE_lanefs").as_bytes())
                        && words.any(|word| word == image.as_bytes())
                })
                .find_map(rustix::process::Pid::from_raw);
            found.is_some()
        });
        found.expect("a process")
    }
}

#[test]
fn keys_narrow_and_choose() {
    for engine in ["cpu", "gpu"] {
        let mut session = Session::new(&format!("--engine {engine}"));
        session.shows("5/5");
        session.press("alpha");
        session.shows("2/5");
        session.press("\x1b[B");
        session.shows("\x1b[7m>");
        session.press("\r");
        assert_eq!(session.end(), ("0".into(), "/dir/alphabet\n".into()), "{engine}");
    }
}

#[test]
fn several_paths_can_be_marked() {
    let mut session = Session::new("dir");
    session.shows("4/5");
    session.press("\t\t");
    session.shows("(2)");
    session.press("\x15");
    session.shows("5/5 (2)");
    session.press("\r");
    assert_eq!(session.end(), ("0".into(), "/dir\n/dir/beta\n".into()));
}

#[test]
fn every_way_out_gives_the_terminal_back() {
    for keys in ["\x03", "\x1b", "\x07"] {
        let mut session = Session::new("''");
        session.shows("5/5");
        session.press(keys);
        assert_eq!(session.end(), ("130".into(), String::new()), "{keys:?}");
    }
    let session = Session::new("''");
    session.shows("5/5");
    rustix::process::kill_process(session.process(), rustix::process::Signal::TERM).expect("a signal");
    assert_eq!(session.end(), ("130".into(), String::new()));
}

#[test]
fn every_engine_prints_the_same() {
    let v = volume();
    // Each run opens the device, so these are few; tests of the library have many.
    let queries = [
        "s",
        "src main",
        "SRC !main",
        "'src x86",
        "fooBar .rs$",
        "main | mod s",
        "!src",
        "\u{e9}",
        "elan src",
        "zzzz",
        "srcmainfoobarx8664readmeasrcmainfoobar",
        "readme srcmain foobar x8664 modmodmod",
    ];
    let by = |command: &str, engine: &str, query: &str, more: &[&str]| {
        let args = match command {
            "find" => vec!["/", "--json", "--fuzzy", query],
            _ => vec!["--json", "--filter", query],
        };
        v.run_with(command, &[&args[..], &["--engine", engine], more].concat(), b"")
    };
    let mut printed = 0;
    for (number, query) in queries.iter().enumerate() {
        let more: &[&str] = [&[][..], &["--limit", "10"]][number / 2 % 2];
        let command = ["pick", "find"][number % 2];
        let [cpu, gpu] = ["cpu", "gpu"].map(|engine| by(command, engine, query, more));
        printed += cpu.bytes.len();
        assert_eq!((cpu.code, cpu.err), (gpu.code, gpu.err), "{command} {query:?}");
        assert!(cpu.bytes == gpu.bytes, "{command} {query:?} {more:?}");
    }
    assert!(printed > 10_000, "{printed} bytes");
    for command in ["pick", "find"] {
        by(command, "gpu", "src", &["--device", "no such device"]).ends(4).says("no such device");
    }
}
